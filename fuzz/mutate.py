"""Makes valid conversations hostile, guided by the grammar of the protocol.

What is mutated is a template: ``%d`` stands for the id of a job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from reference_server.commands import VERBS
from reference_server.wire import CRLF

T = TypeVar("T")

_TOKEN = re.compile(rb"[^ \r\n]+")
_NUMBER = re.compile(rb"(?<![^ ])[0-9]+(?![^ \r])")
LIMITS = tuple(edge + near for edge in (2**31, 2**32, 2**64) for near in (-1, 0, 1))
EDGES = (
    *(*LIMITS, *LIMITS, 0, 1, 199, 200, 201, 223, 224, 65533, 65534, 65535, 65536, 65537, 10**6),
    *(2**26, 2**30, 2**33, 2**63 - 1, 2**63, 10**9, 10**19, 10**20, 10**40),
)
"""Numbers at and around limits."""
LENGTHS = (
    *(1, 31, 32, 199, 200, 201, 207, 208, 209, 222, 223, 224, 226, 255, 256, 446, 448, 450),
    *(511, 512, 1023, 1024, 2000, 4096),
)
"""Lengths of lines without CR LF, and of names; not those that make 1 modulo 224 with CR LF."""
_SEPARATORS = (b"", b"  ", b"\t", b"\n", b",", b"\x0b", b"   ", b"\0", b"\xa0", b"%")
_BYTES = b"\0\n\t\x0b\x0c\x1b !\"#$%&'()*+,-./0129:;=?@AZ[]_`az{}~\x7f\x80\x85\xa0\xc3\xff"
_ENDS = (b"\n", b"", b"\r\n\r\n", b"\n\r\n", b" \r\n", b"\0\r\n", b"\t\r\n")
_TRAILERS = (b"", b"\n", b"xx", b"\n\n", b"x\r\n", b"\r\n\r\n", b"\0\0", b"y")
_NOISE = (b"use ", b"put ", b"0 0 120 1", b"stats", b"\r\n", b" ", b"1", b"list-", b"\0", b"\xff")


class Mutator:
    """Mutates templates by the choices of ``chance``."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._ways: Sequence[Callable[[bytes], bytes]] = (
            *(self._number,) * 4,
            *(self._argument,) * 3,
            *(self._separator,) * 2,
            *(self._byte,) * 4,
            *(self._end,) * 3,
            self._case,
            *(self._word,) * 3,
            *(self._long,) * 3,
            *(self._body,) * 3,
            self._size,
            self._twice,
            self._chop,
        )

    def __call__(self, template: bytes) -> bytes:
        """Return a template that is like this one, but wrong in one or several ways."""
        for _ in range(self.pick((1, 1, 1, 2, 3))):
            template = self.pick(self._ways)(template)
        return template

    def noise(self) -> bytes:
        """Return bytes that have little to do with the protocol."""
        if self._chance.random() < 0.5:
            return self._chance.randbytes(self._chance.randrange(1, 40)) + CRLF
        return b"".join(self.pick(_NOISE) for _ in range(self._chance.randrange(1, 12))) + CRLF

    def splice(self, one: bytes, other: bytes) -> bytes:
        """Return the first part of one template and the last of another."""
        end, start = (self._chance.randrange(len(text) + 1) for text in (one, other))
        return one[:end] + other[start:]

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[int(self._chance.random() * len(options))]

    def _replace(self, pattern: re.Pattern[bytes], text: bytes, new: bytes) -> bytes:
        """Replace one of the matches."""
        matches = list(pattern.finditer(text))
        if not matches:
            return text + new
        match = self.pick(matches)
        return text[: match.start()] + new + text[match.end() :]

    # ------------------------------------------------------------ the ways

    def _number(self, text: bytes) -> bytes:
        number = b"%d" % self.pick(EDGES)
        wrong = (number, number, number, b"-" + number, b"+1", b"0x1", b"1x", b"x", b"", b"01")
        return self._replace(_NUMBER, text, self.pick(wrong))

    def _argument(self, text: bytes) -> bytes:
        """Leave out one argument, add one, or put another in its place."""
        tokens = _TOKEN.findall(text) or [b"x"]
        return self._replace(_TOKEN, text, self.pick((b"", self.pick(tokens), b"1 1", b"a a")))

    def _separator(self, text: bytes) -> bytes:
        return self._replace(re.compile(rb" "), text, self.pick(_SEPARATORS))

    def _byte(self, text: bytes) -> bytes:
        at = self._chance.randrange(len(text) + 1)
        byte = bytes((self.pick(_BYTES),))
        return text[:at] + self.pick((byte, byte, b"")) + text[at + self.pick((0, 1)) :]

    def _end(self, text: bytes) -> bytes:
        return self._replace(re.compile(rb"\r\n"), text, self.pick(_ENDS))

    def _case(self, text: bytes) -> bytes:
        return self.pick((text.upper(), text.title(), text.swapcase()))

    def _word(self, text: bytes) -> bytes:
        """Return a command whose word is cut, goes on, or is another's."""
        word = self.pick(VERBS).encode()
        if self._chance.random() < 0.2:
            return word + CRLF
        line = text.partition(b" ")[2] or CRLF
        cut = word[: self._chance.randrange(len(word) + 1)]
        wrong = (cut, word + b"x", word, word + b" x", b" " + word, word + b"-")
        return self.pick(wrong) + self.pick((b" ", b" ", b"")) + line

    def _long(self, text: bytes) -> bytes:
        """Return a line or a name that is about as long as it may be."""
        length = self.pick(LENGTHS)
        line, end, rest = text.partition(CRLF)
        kind = self._chance.random()
        if kind < 0.4:
            return line.ljust(length, self.pick((b" ", b"x", b"0"))) + end + rest
        if kind < 0.7:
            return self._replace(_TOKEN, line, b"n" * length) + end + rest
        verb = self.pick((b"use ", b"watch ", b"stats-tube ", b"pause-tube ", b"", b"put "))
        return verb.ljust(length, b"n") + end + rest

    def _body(self, text: bytes) -> bytes:
        """Return a put whose body is shorter or longer than it says, or ends otherwise."""
        size = self.pick((0, 1, 2, 3, 5, 100))
        body = b"b" * max(size + self.pick((-2, -1, 0, 0, 1, 2)), 0)
        return b"put 0 0 120 %d\r\n" % size + body + self.pick(_TRAILERS) + self.pick((text, b""))

    def _size(self, text: bytes) -> bytes:
        """Return a put whose body is very large, or said to be."""
        size = self.pick(EDGES)
        body = b"b" * (size if size < 70_000 and self._chance.random() < 0.2 else 1)
        return b"put 0 0 120 %d\r\n%b\r\n" % (size, body)

    def _twice(self, text: bytes) -> bytes:
        return text + self.pick((text, text[: len(text) // 2] + text))

    def _chop(self, text: bytes) -> bytes:
        """Return only its beginning: what would follow never comes, or is something else."""
        return text[: self._chance.randrange(len(text) + 1)]
