"""The messages of the protocol: requests of a client, replies of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

CRLF = b"\r\n"


_ESCAPES = {
    **{byte: f"\\x{byte:02x}" for byte in range(256) if not 0x20 <= byte < 0x7F},
    0x5C: "\\\\",
    0x0D: "\\r",
    0x0A: "\\n",
    0x09: "\\t",
}


def escape(data: bytes) -> str:
    """Return bytes as printable ASCII, reversible: CR LF as ``\\r\\n``, others as ``\\xNN``."""
    # Translation is fast up to the first byte that is escaped. A large body is a line of its own.
    lines = data.decode("latin-1").split("\r\n")
    return "\\r\\n".join([line.translate(_ESCAPES) for line in lines])


class Reply(NamedTuple):
    """A reply: its word, the arguments behind it, and the chunk of data if it carries one."""

    word: str
    args: tuple[int | str, ...] = ()
    body: bytes | None = None

    def encode(self) -> bytes:
        """Return the bytes on the wire; a body brings its length as last argument."""
        if self.body is None:
            if not self.args:
                return self.word.encode() + CRLF
            return f"{self.word} {' '.join(map(str, self.args))}\r\n".encode()
        head = " ".join([self.word, *map(str, self.args), str(len(self.body))])
        return b"%b\r\n%b\r\n" % (head.encode(), self.body)

    def spoken(self, texts: Mapping[str, str]) -> bytes:
        """Return the bytes on the wire where words alone have other ``texts``."""
        if texts and self.body is None and not self.args and self.word in texts:
            return texts[self.word].encode() + CRLF
        return self.encode()

    def __str__(self) -> str:
        data = self.encode()
        return escape(data) if len(data) <= 120 else f"{escape(data[:100])}… ({len(data)} bytes)"


BAD_FORMAT = Reply("BAD_FORMAT")
BURIED = Reply("BURIED")
DEADLINE_SOON = Reply("DEADLINE_SOON")
DELETED = Reply("DELETED")
DRAINING = Reply("DRAINING")
EXPECTED_CRLF = Reply("EXPECTED_CRLF")
INTERNAL_ERROR = Reply("INTERNAL_ERROR")
JOB_TOO_BIG = Reply("JOB_TOO_BIG")
KICKED = Reply("KICKED")
NOT_FOUND = Reply("NOT_FOUND")
NOT_IGNORED = Reply("NOT_IGNORED")
OUT_OF_MEMORY = Reply("OUT_OF_MEMORY")
PAUSED = Reply("PAUSED")
RELEASED = Reply("RELEASED")
TIMED_OUT = Reply("TIMED_OUT")
TOUCHED = Reply("TOUCHED")
UNKNOWN_COMMAND = Reply("UNKNOWN_COMMAND")

BARE = {
    reply.word.encode(): reply
    for reply in (
        *(BAD_FORMAT, BURIED, DEADLINE_SOON, DELETED, DRAINING, EXPECTED_CRLF, INTERNAL_ERROR),
        *(JOB_TOO_BIG, KICKED, NOT_FOUND, NOT_IGNORED, OUT_OF_MEMORY, PAUSED, RELEASED),
        *(TIMED_OUT, TOUCHED, UNKNOWN_COMMAND),
    )
}
"""The replies that are a word alone, by that word."""


def INSERTED(job: int) -> Reply:
    return Reply("INSERTED", (job,))


def USING(tube: str) -> Reply:
    return Reply("USING", (tube,))


def WATCHING(count: int) -> Reply:
    return Reply("WATCHING", (count,))


def KICKED_COUNT(count: int) -> Reply:
    return Reply("KICKED", (count,))


def RESERVED(job: int, body: bytes, *pri: int) -> Reply:
    return Reply("RESERVED", (job, *pri), body)


def FOUND(job: int, body: bytes, *pri: int) -> Reply:
    return Reply("FOUND", (job, *pri), body)


def OK(body: bytes) -> Reply:
    return Reply("OK", (), body)


class Command(NamedTuple):
    """A well-formed command without a body."""

    verb: str
    args: tuple[int | str | None, ...] = ()


class Put(NamedTuple):
    """The line of a put; its :class:`Body` follows. Times in seconds, size in bytes."""

    pri: int
    delay: int
    ttr: int
    size: int


class Body(NamedTuple):
    """The end of a put: the data, or None if it was too big or not followed by CR LF.

    ``is_ended``: whether CR LF followed what was too big. ``lacks_memory``: it had no room.
    """

    data: bytes | None
    is_ended: bool = True
    lacks_memory: bool = False


class Malformed(NamedTuple):
    """A line that is answered with an error; ``counts`` names the command counter it moves."""

    reply: Reply
    counts: str | None = None


Request = Command | Put | Body | Malformed
