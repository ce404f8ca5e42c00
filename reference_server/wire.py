"""The codec of the protocol: bytes in, commands out; replies out, bytes in.

It does no I/O and keeps no jobs. All truth about framing lives here: how long a line may be, what
ends it, how a body is delimited, what is skipped after an error, and how arguments are read. Feed
bytes in any segmentation to a :class:`RequestReader` (the server's side) or a
:class:`ReplyReader` (the client's side) and take out what they mean, one event at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from operator import le
from typing import NamedTuple

from reference_server.commands import COMMANDS, U32, U64, Grammar, Kind
from reference_server.profiles import Profile

CRLF = b"\r\n"
NAME_CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()"


_ESCAPES = {0x5C: "\\\\", 0x0D: "\\r", 0x0A: "\\n", 0x09: "\\t"}


def escape(data: bytes) -> str:
    """Bytes as printable ASCII, exactly reversible: CR LF as ``\\r\\n``, others as ``\\xNN``."""
    return "".join(
        _ESCAPES.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}")
        for byte in data
    )


# ---------------------------------------------------------------- replies


class Reply(NamedTuple):
    """A reply: its word, the arguments behind it, and the chunk of data if it carries one."""

    word: str
    args: tuple[int | str, ...] = ()
    body: bytes | None = None

    def encode(self) -> bytes:
        """The bytes on the wire; a body brings its length as last argument."""
        if self.body is None:
            if not self.args:
                return self.word.encode() + CRLF
            return f"{self.word} {' '.join(map(str, self.args))}\r\n".encode()
        head = " ".join([self.word, *map(str, self.args), str(len(self.body))])
        return b"%b\r\n%b\r\n" % (head.encode(), self.body)

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


# ---------------------------------------------------------------- what a client sent


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

    ``is_ended``: whether CR LF followed what was too big.
    """

    data: bytes | None
    is_ended: bool = True


class Malformed(NamedTuple):
    """A line that is answered with an error; ``counts`` names the command counter it moves."""

    reply: Reply
    counts: str | None = None


Request = Command | Put | Body | Malformed

_BAD = Malformed(BAD_FORMAT)
_UNKNOWN = Malformed(UNKNOWN_COMMAND)


def _numbers(count: int) -> re.Pattern[bytes]:
    return re.compile(b" *([0-9]+)" + b" +([0-9]+)" * (count - 1))


_FOUR = _numbers(4)
_ONE = _numbers(1)
_NAME_AND_NUMBER = re.compile(b" *([" + re.escape(NAME_CHARS) + b"]+) +([0-9]+)")
_C_INTEGER = re.compile(rb"[ \t\n\v\f\r]*([+-]?[0-9]+)")


def _name(text: bytes, profile: Profile) -> str | None:
    # translate() drops all name characters: what is left over does not belong into a name.
    if not 0 < len(text) <= profile.max_name or text[0] == 0x2D or text.translate(None, NAME_CHARS):
        return None
    return text.decode()


def _parse_put(text: bytes, profile: Profile) -> Request:
    match = _FOUR.match(text)
    if match is None:
        return _BAD
    pri, delay, ttr, size = values = list(map(int, match.groups()))
    if max(values) > U32:
        return _BAD
    # A body that is too big is skipped, whatever else is wrong with the line.
    if match.end() != len(text) and size <= profile.max_job_size:
        return Malformed(BAD_FORMAT, counts="put")
    if size > profile.max_job_size and not profile.skips_big_bodies:
        return Malformed(JOB_TOO_BIG, counts="put")
    return Put(pri, delay, ttr, size)


_Parse = Callable[[bytes, Profile], Request]


def _numeric(verb: str, kinds: Sequence[Kind]) -> _Parse:
    pattern, limits = _numbers(len(kinds)), [kind.limit for kind in kinds]

    def parse(text: bytes, _: Profile) -> Request:
        match = pattern.fullmatch(text)
        if match is None:
            return _BAD
        values = tuple(map(int, match.groups()))
        return Command(verb, values) if all(map(le, values, limits)) else _BAD

    return parse


def _named(verb: str) -> _Parse:
    def parse(text: bytes, profile: Profile) -> Request:
        name = _name(text, profile)
        return _BAD if name is None else Command(verb, (name,))

    return parse


def _counted(verb: str) -> _Parse:
    # A C library's strtoul, cut to 32 bits: signs, and garbage behind the digits, are accepted.
    def parse(text: bytes, _: Profile) -> Request:
        match = _C_INTEGER.match(text)
        if match is None or abs(int(match[1])) > U64:
            return _BAD
        return Command(verb, (int(match[1]) & U32,))

    return parse


def _timed(verb: str) -> _Parse:
    # A C library's strtol, cut to 32 bits: without digits it is 0, and below 0 waits for ever.
    def parse(text: bytes, profile: Profile) -> Request:
        if profile.timeout_argument == "strict":
            match = _ONE.match(text)
            if match is None or int(match[1]) > 2**31 - 1:
                return _BAD
            return Command(verb, (int(match[1]),))
        match = _C_INTEGER.match(text)
        value = int(match[1]) if match else 0
        if not -(2**63) <= value < 2**63:
            return _BAD
        value = (value + 2**31) % 2**32 - 2**31
        return Command(verb, (value if value >= 0 else None,))

    return parse


def _named_and_numeric(verb: str) -> _Parse:
    def parse(text: bytes, profile: Profile) -> Request:
        match = _NAME_AND_NUMBER.fullmatch(text)
        if match is None or int(match[2]) > U32:
            return _BAD
        name = _name(match[1], profile)
        if name is None:
            return Malformed(BAD_FORMAT, counts=verb)
        return Command(verb, (name, int(match[2])))

    return parse


def _parser(grammar: Grammar) -> _Parse:
    """Return the parser of what follows a command's word; raise ValueError if there is none."""
    if grammar.verb == "put":
        return _parse_put
    if all(kind.is_number for kind in grammar.kinds):
        return _numeric(grammar.verb, grammar.kinds)
    match grammar.kinds:
        case (Kind.TUBE,):
            return _named(grammar.verb)
        case (Kind.TUBE, Kind.SECONDS):
            return _named_and_numeric(grammar.verb)
        case (Kind.COUNT,):
            return _counted(grammar.verb)
        case (Kind.TIMEOUT,):
            return _timed(grammar.verb)
    raise ValueError(f"no parser for the arguments of {grammar.verb}")


OPTIONAL_ID = ("peek", "stats")
"""Commands that take an id or none, in profiles where it is optional."""


@cache
def _words(
    commands: frozenset[str], id_is_optional: bool
) -> tuple[dict[bytes, Command], dict[bytes, _Parse]]:
    """Return the commands of a profile: whole lines, and words that arguments follow."""
    bare, words = {}, {}
    for grammar in map(COMMANDS.__getitem__, commands):
        word = grammar.verb.encode()
        optional = id_is_optional and grammar.verb in OPTIONAL_ID
        if optional or not grammar.kinds:
            bare[word] = Command(grammar.verb)
        if optional:
            words[word] = _numeric(grammar.verb, [Kind.JOB])
        elif grammar.kinds:
            words[word] = _parser(grammar)
    return bare, words


def parse_line(line: bytes, profile: Profile) -> Request:
    """What a command line (without CR LF) means."""
    bare, words = _words(profile.commands, profile.id_is_optional)
    command = bare.get(line)
    if command is not None:
        return command
    if 0 in line:
        return _BAD
    word, blank, rest = line.partition(b" ")
    parse = words.get(word)
    if parse is not None and blank:
        return parse(rest, profile)
    # A command word is recognised as a prefix of the line.
    if line.startswith(b"pause-tube") and b"pause-tube" in words:
        return words[b"pause-tube"](line[len(b"pause-tube") :], profile)
    if line.startswith(b"quit") and b"quit" in bare:
        return bare[b"quit"]
    if line.startswith(tuple(bare)):
        return _BAD
    return _UNKNOWN


class RequestReader:
    """Turns what a client sends into requests; never holds more than one line and one body.

    Call :meth:`receive`, then :meth:`next_request` until it gives None; requests that are not
    taken out stay as bytes in the buffer.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._buffer = bytearray()
        self._body: int | None = None
        self._skip = 0
        self._dropped = b""
        self._overlong = False

    def parse(self, line: bytes) -> Request:
        """What a line (without CR LF) means."""
        return parse_line(line, self._profile)

    @property
    def buffered(self) -> int:
        """Bytes received and not yet understood."""
        return len(self._buffer)

    def receive(self, data: bytes) -> None:
        """Adds bytes; those of a refused body are dropped at once."""
        self._buffer += data
        if self._skip:
            self._drop_refused()

    def next_request(self) -> Request | None:
        """The next request, or None until more bytes come."""
        if self._body is None:
            return self._next_line()
        if self._body > self._profile.max_job_size:
            self._drop_refused()
            if self._skip:
                return None
            return self._end_body(None)._replace(is_ended=self._dropped == CRLF)
        end = self._body + len(CRLF)
        if len(self._buffer) < end:
            return None
        complete = self._buffer[self._body : end] == CRLF
        data = bytes(self._buffer[: self._body]) if complete else None
        del self._buffer[:end]
        return self._end_body(data)

    def _end_body(self, data: bytes | None) -> Body:
        self._body = None
        return Body(data)

    def _drop_refused(self) -> None:
        count = min(self._skip, len(self._buffer))
        self._dropped = (self._dropped + self._buffer[max(count - 2, 0) : count])[-2:]
        del self._buffer[:count]
        self._skip -= count

    def _next_line(self) -> Request | None:
        buffer = self._buffer
        end = buffer.find(CRLF)
        if end < 0:
            if len(buffer) >= self._profile.max_line:
                self._overlong = True
            if self._overlong:
                # A CR at the very end may be the first half of the line's end.
                del buffer[: len(buffer) - buffer.endswith(b"\r")]
            return None
        line = bytes(buffer[:end])
        end += len(CRLF)
        del buffer[:end]
        if self._overlong or end > self._profile.max_line:
            self._overlong = False
            return _BAD
        request = self.parse(line)
        if type(request) is Put:
            self._body = request.size
            if request.size > self._profile.max_job_size:
                self._skip = request.size + len(CRLF)
        return request


# ---------------------------------------------------------------- what a server sent


class ProtocolError(Exception):
    """A server sent bytes that are no reply of the protocol."""


class NotAReply(ProtocolError):
    """Not even the line is one that begins a reply of the protocol."""


_REPLIES = {
    reply.word.encode(): reply
    for reply in (
        *(BAD_FORMAT, BURIED, DEADLINE_SOON, DELETED, DRAINING, EXPECTED_CRLF, INTERNAL_ERROR),
        *(JOB_TOO_BIG, KICKED, NOT_FOUND, NOT_IGNORED, OUT_OF_MEMORY, PAUSED, RELEASED),
        *(TIMED_OUT, TOUCHED, UNKNOWN_COMMAND),
    )
}
_NUMBER = rb"(0|[1-9][0-9]{0,19})"
_ONE_NUMBER = re.compile(b"(INSERTED|WATCHING|KICKED|BURIED) " + _NUMBER)
_JOB = re.compile(b"(RESERVED|FOUND) " + _NUMBER + b" " + _NUMBER + b"(?: " + _NUMBER + b")?")
_DATA = re.compile(b"OK " + _NUMBER)
_TUBE = re.compile(b"USING ([" + re.escape(NAME_CHARS) + b"]{1,200})")


class ReplyReader:
    """Turns what a server sends into replies; holds at most one line and ``max_body`` bytes.

    ``tells_priority``: see :class:`Profile`; None if that is not known.
    """

    MAX_LINE = 1024

    def __init__(self, tells_priority: bool | None = False, max_body: int = 2**26) -> None:
        self._tells_priority = tells_priority
        self._max_body = max_body
        self._buffer = bytearray()
        self._head: tuple[Reply, int] | None = None

    @property
    def pending(self) -> bytes:
        """Bytes that came and are not a complete reply yet (at most 1,024 of them)."""
        return bytes(self._buffer[: self.MAX_LINE])

    def receive(self, data: bytes) -> None:
        self._buffer += data

    def take_back(self) -> bytes:
        """The bytes behind the last reply, which are forgotten here."""
        data = bytes(self._buffer)
        self._buffer.clear()
        return data

    def next_reply(self) -> Reply | None:
        """The next reply, or None until more bytes come; raises :class:`ProtocolError`."""
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
        """The reply that a line announces, and the size of its body in bytes, -1 if none."""
        bare = _REPLIES.get(line)
        if bare is not None:
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
        raise NotAReply(f"no reply of the protocol: {escape(line)}")
