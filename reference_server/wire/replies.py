"""The client's side of the wire: bytes of a server in, replies out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Self

from reference_server.dialect import PLAIN, Dialect
from reference_server.profiles import NAME_CHARS, Profile
from reference_server.wire.messages import BARE, CRLF, USING, Reply, escape


class ProtocolError(Exception):
    """A server sent bytes that are no reply of the protocol."""


class NotAReply(ProtocolError):
    """Not even the line is one that begins a reply of the protocol."""


_NUMBER = rb"(0|[1-9][0-9]{0,19})"
_ONE_NUMBER = re.compile(b"(INSERTED|WATCHING|KICKED|BURIED) " + _NUMBER)
_JOB = re.compile(b"(RESERVED|FOUND) " + _NUMBER + b" " + _NUMBER + b"(?: " + _NUMBER + b")?")
_DATA = re.compile(b"OK " + _NUMBER)
_NAME = b"([" + re.escape(NAME_CHARS) + b"]{1,1000})"
_TUBE = re.compile(b"USING " + _NAME)
_PLACES = {"<number>": _NUMBER, "<bytes>": _NUMBER, "<tube>": _NAME}


class ReplyReader:
    """A reader of replies; it holds at most one line and ``max_body`` bytes.

    ``tells_priority``: see :class:`Profile`; None if that is not known. ``dialect``: replies that
    a fork has besides, and those that it words otherwise.
    """

    MAX_LINE = 1024

    def __init__(
        self,
        tells_priority: bool | None = False,
        max_body: int = 2**26,
        dialect: Dialect = PLAIN,
    ) -> None:
        self._tells_priority = tells_priority
        self._max_body = max_body
        self._forms = [_pattern(form) for added in dialect.added for form in added.forms]
        self._texts = {text.encode(): word for word, text in dialect.texts}
        self._reworded = {word.encode() for word, _ in dialect.texts}
        self._buffer = bytearray()
        self._head: tuple[Reply, int] | None = None

    @classmethod
    def of(cls, profile: Profile) -> Self:
        """Return a reader of replies of a server of this profile."""
        return cls(profile.tells_priority, dialect=profile.dialect)

    @property
    def pending(self) -> bytes:
        """Bytes that came and are not a complete reply yet (at most 1,024 of them)."""
        return bytes(self._buffer[: self.MAX_LINE])

    def receive(self, data: bytes) -> None:
        self._buffer += data

    def take_back(self) -> bytes:
        """Return the bytes behind the last reply, which are forgotten here."""
        data = bytes(self._buffer)
        self._buffer.clear()
        return data

    def next_reply(self) -> Reply | None:
        """Return the next reply, or None until more bytes come; raise :class:`ProtocolError`."""
        if self._head is None:
            end = self._buffer.find(CRLF, 0, self.MAX_LINE)
            if end < 0:
                if len(self._buffer) >= self.MAX_LINE:
                    raise NotAReply(f"a reply line of more than {self.MAX_LINE} bytes")
                return None
            line = bytes(self._buffer[:end])
            self._head = reply, size = self._parse(line)
            if size > self._max_body:
                raise ProtocolError(f"a body of {size} bytes was announced: {escape(line)}")
            del self._buffer[: end + len(CRLF)]
        reply, size = self._head
        if size >= 0:
            if len(self._buffer) < size + len(CRLF):
                return None
            if self._buffer[size : size + len(CRLF)] != CRLF:
                raise ProtocolError(f"the {size} bytes of data are not followed by CR LF")
            reply = reply._replace(body=bytes(self._buffer[:size]))
            del self._buffer[: size + len(CRLF)]
        self._head = None
        return reply

    def _parse(self, line: bytes) -> tuple[Reply, int]:
        """Return the reply that a line announces, and the size of its body in bytes, -1 if none."""
        if word := self._texts.get(line):
            return Reply(word), -1
        bare = BARE.get(line)
        if bare is not None and line not in self._reworded:
            return bare, -1
        if match := _ONE_NUMBER.fullmatch(line):
            return Reply(match[1].decode(), (int(match[2]),)), -1
        if (match := _JOB.fullmatch(line)) and self._tells_priority in (None, bool(match[4])):
            *numbers, size = (int(number) for number in match.groups()[1:] if number)
            return Reply(match[1].decode(), tuple(numbers)), size
        if match := _DATA.fullmatch(line):
            return Reply("OK"), int(match[1])
        if match := _TUBE.fullmatch(line):
            return USING(match[1].decode()), -1
        for words, form in self._forms:
            if match := form.fullmatch(line):
                return _added(words, match.groups())
        raise NotAReply(f"no reply of the protocol: {escape(line)}")


def _pattern(form: str) -> tuple[list[str], re.Pattern[bytes]]:
    """Return the words of a reply that a fork has, and what its line must match."""
    words = form.split(" ")
    return words, re.compile(b" ".join(_PLACES.get(word, word.encode()) for word in words))


def _added(words: list[str], found: Iterable[bytes]) -> tuple[Reply, int]:
    """Return a reply that a fork has, and the size of its body in bytes, -1 if none."""
    values = [int(text) if text.isdigit() else text.decode() for text in found]
    size = values.pop() if words[-1] == "<bytes>" else -1
    assert isinstance(size, int)
    return Reply(words[0], tuple(values)), size
