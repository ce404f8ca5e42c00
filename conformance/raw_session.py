"""Sessions as people paste them: telnet or netcat, without marks.

Commands and replies are distinguished by their first word: commands are small letters, replies are
capitals. Bodies are found by their size, so that a job may look like a command. Several clients
are distinguished by what stands before each line: ``1>``, ``worker:``, ``[2]``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from conformance.transcript import TARGET_CLOSES, Entry, NotATranscript, letters
from reference_server.commands import COMMANDS
from reference_server.wire import CRLF

FORM = (
    r"write “A > put 0 0 60 5\r\nhello\r\n” for what client A sends, and “A < INSERTED 1\r\n” for"
    " what it gets"
)
_PROGRAMS = "telnet|nc|ncat|netcat|echo|printf|socat"
_NOISE = re.compile(
    r"Trying .*|Connected to .*|Escape character is .*|telnet>.*|\^[\]CD].*"
    rf"|(?:.*[$#%] *)?(?:{_PROGRAMS}) .*"
)
_END = re.compile(r"Connection (?:closed by foreign host|to .* closed|closed)\.?")
_LABEL = re.compile(r"\ufeff?(?:\[(\w+)\]|(\w+(?: ?#?\d+)?) ?(?:[:)]|->|<-|[<>]))\s+(?=\S)")
_MARK = re.compile(r"\ufeff?(?:->|<-|[<>])?\s*")
_SIDES = frozenset({"c", "s", "client", "server"})
"""Labels that tell a client from a server, not one client from another."""
_ERRORS = frozenset({"BAD_FORMAT", "UNKNOWN_COMMAND", "OUT_OF_MEMORY", "INTERNAL_ERROR"})
_REPLIES = _ERRORS.union(*(grammar.replies for grammar in COMMANDS.values()))
_CAPITALS = re.compile(r"[A-Z][A-Z_]+(?: .*)?")
_SIZED = re.compile(r"(?:(?:RESERVED|FOUND) \d+(?: \d+)?|OK) (\d+)")
_PUT = re.compile(r"put +\d+ +\d+ +\d+ +(\d{1,9})")


class _Line(NamedTuple):
    """A line: the client that it belongs to, what stands before the message, and the message."""

    label: str
    prefix: str
    text: str

    @property
    def word(self) -> str:
        return self.text.partition(" ")[0]


def _line(whole: str) -> _Line:
    whole = whole.rstrip()
    match = _LABEL.match(whole)
    label = (match[1] or match[2]) if match else ""
    begin = match.end() if match else 0
    mark = _MARK.match(whole, begin)
    begin = mark.end() if mark else begin
    return _Line("" if label.lower() in _SIDES else label, whole[:begin], whole[begin:])


def is_raw(first: str) -> bool:
    """Tell whether a session without marks begins with this line."""
    line = _line(first)
    return bool(line.word in COMMANDS or line.word in _REPLIES or _NOISE.fullmatch(line.text))


class RawSession:
    """The lines of a session."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0
        self._letters = letters()
        self._names: dict[str, str] = {}

    def entries(self) -> Iterator[Entry]:
        """Yield what was sent and received, at unknown times; raises :class:`NotATranscript`."""
        while self._at < len(self._lines):
            line = _line(self._lines[self._at])
            self._at += 1
            if not line.text or _NOISE.fullmatch(line.text):
                continue
            if line.label not in self._names:
                self._names[line.label] = next(self._letters)
            name = self._names[line.label]
            if _END.fullmatch(line.text):
                yield Entry(name, "!", TARGET_CLOSES, math.nan)
            elif line.word in COMMANDS or self._is_refused(line):
                yield Entry(name, ">", self._sent(line), math.nan)
            elif _CAPITALS.fullmatch(line.text):
                yield Entry(name, "<", self._received(line), math.nan)
            else:
                problem = f"line {self._at} is not a command, and not a reply: {line.text[:60]!r}"
                raise NotATranscript(f"{problem}; {FORM}")

    def _is_refused(self, line: _Line) -> bool:
        """Tell whether a line is an unknown command, by the answer to it."""
        following = (_line(one) for one in self._lines[self._at :])
        answer = next((one.word for one in following if one.text), "")
        return not _CAPITALS.fullmatch(line.text) and answer in _ERRORS

    def _sent(self, line: _Line) -> bytes:
        data = line.text.encode() + CRLF
        if put := _PUT.fullmatch(line.text):
            body = self._body(line.prefix, int(put[1]))
            if body is None and self._at < len(self._lines):
                # It has another size than was said, which the server must notice.
                body = self._lines[self._at].removeprefix(line.prefix).rstrip("\r\n").encode()
                self._at += 1
            data += b"" if body is None else body + CRLF
        return data

    def _received(self, line: _Line) -> bytes:
        data, number = line.text.encode() + CRLF, self._at
        if sized := _SIZED.fullmatch(line.text):
            body = self._body(line.prefix, int(sized[1]))
            if body is None:
                problem = f"line {number} says that {sized[1]} bytes follow, and others do"
                raise NotATranscript(f"{problem}; {FORM}")
            data += body + CRLF
        return data

    def _body(self, prefix: str, size: int) -> bytes | None:
        """Take the lines of a body; None if they have another size."""
        lines: list[bytes] = []
        length = -1
        for number in range(self._at, len(self._lines)):
            line = self._lines[number].removeprefix(prefix).rstrip("\r\n").encode()
            length += len(line) + 1
            if length > size:
                break
            lines.append(line)
            for end in (b"\n", b"\r\n"):
                if length + (len(lines) - 1) * (len(end) - 1) == size:
                    self._at = number + 1
                    return end.join(lines)
        if lines and sum(len(line) + 1 for line in lines) == size:
            # The empty line after YAML is often lost.
            self._at += len(lines)
            return b"\n".join([*lines, b""])
        return None
