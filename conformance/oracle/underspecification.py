"""Underspecification: lines that the text decides, and lines with several allowed replies.

After a line that the text leaves open, whatever a server does is at most de-facto wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple, cast

from conformance.transcript import (
    CLIENT_CLOSES,
    CLIENT_HALF_CLOSES,
    CLIENT_RESETS,
    TARGET_CLOSES,
    Entry,
)
from conformance.verdict import NotApplicable
from reference_server.commands import (
    ABOUT_A_JOB,
    ABOUT_A_TUBE,
    COMMANDS,
    U32,
    U64,
    VERBS,
    ArgumentKind,
)
from reference_server.dialect import Added
from reference_server.events import Close
from reference_server.profiles import NAME_CHARS, Profile
from reference_server.wire import (
    BAD_FORMAT,
    NOT_FOUND,
    OPTIONAL_ID,
    UNKNOWN_COMMAND,
    Body,
    Command,
    Malformed,
    ProtocolError,
    Put,
    Reply,
    ReplyReader,
    Request,
    RequestReader,
    integer,
    parse_line,
)

_DIGITS = re.compile(rb"[0-9]+")
_QUIT = Command("quit")
_REFUSED = (Malformed(BAD_FORMAT), Malformed(UNKNOWN_COMMAND))
_NUMBER = re.compile(rb"0|[1-9][0-9]*")
_SIGN = re.compile(rb"\A(?:[+](?=[0-9]+\Z)|-(?=0+\Z))")
"""The sign of a number that is not negative."""
_NO_NUMBER = re.compile(rb"(?!%b)[!-~]*[!-/:-~][!-~]*" % _SIGN.pattern)
_NAME = re.compile(rb"[" + re.escape(NAME_CHARS) + rb"]+")
_MAY_NOT_BE_FOUND = tuple(
    verb.encode() for verb in ABOUT_A_TUBE if "NOT_FOUND" in COMMANDS[verb].replies
)
"""Commands about a tube; they may answer that a tube with an impossible name does not exist."""
_NO_NAME = re.compile(rb"[\x01-\x08\x0e-\x1f!-\xff]+")
_WORD = re.compile(rb"[a-z][a-z-]*")
_LETTERS = {ArgumentKind.TUBE: "t", ArgumentKind.COUNT: "c", ArgumentKind.TIMEOUT: "c"}
KINDS = {
    verb: "".join(_LETTERS.get(kind, "n") for kind in grammar.kinds)
    for verb, grammar in COMMANDS.items()
}
"""Arguments: n a number, t a tube, c a number that some servers read as C does."""


_ODD_TIMEOUT = re.compile(rb"reserve-with-timeout (?![0-9]{1,9}(?:\r|$))")
_TIMEOUT = re.compile(rb"reserve-with-timeout +([0-9]+)")
_MORE_THAN_QUIT = re.compile(rb"quit(?!\r\n|\Z)")
_KICK = re.compile(rb"kick [ \t+-]*([0-9]+)(?:\r\n|\Z)?")
_PLAIN_KICK = re.compile(rb"kick [0-9]+(?:\r\n|\Z)")
_PUT = re.compile(rb"put +[0-9]+ +[0-9]+ +([0-9]+) +([0-9]+)")
_STRAY = re.compile(rb"\r(?!\n)")


@cache
def _undescribed(commands: frozenset[str], added: tuple[Added, ...]) -> tuple[bytes, ...]:
    """Return the commands that a profile does not describe: later ones, and a fork's own."""
    later = (verb for verb in VERBS if verb not in commands)
    return tuple(verb.encode() for verb in (*later, *(one.verb for one in added)))


def _is_undescribed(line: bytes, profile: Profile) -> bool:
    """Return whether a line is a command that the profile does not describe."""
    if not line.startswith(_undescribed(profile.commands, profile.dialect.added)):
        return False
    first = line.partition(b"\r\n")[0].replace(b"%d", b"1")
    # Another command may begin with its name.
    is_known = first.partition(b" ")[0].decode("latin-1") in profile.commands
    return not (is_known or _is_harmless(first, profile))


def _is_harmless(line: bytes, profile: Profile) -> bool:
    """Return whether a line (without CR LF) is that of a fork's command, and changes nothing."""
    return any(one.is_harmless(line) for one in profile.dialect.added)


def is_free(line: bytes, profile: Profile) -> bool:
    """Return whether the text says nothing of a line, so that to send it would show nothing."""
    if _is_undescribed(line, profile):
        return True
    if _MORE_THAN_QUIT.match(line):
        return True
    if (match := _KICK.match(line)) and not (_PLAIN_KICK.match(line) and integer(match[1]) <= U32):
        return True
    if line.startswith(b"reserve-with-timeout "):
        if profile.timeout_argument == "lenient":
            return bool(_ODD_TIMEOUT.match(line))
        # No sentence bounds the seconds, and not all servers take more than 31 bits.
        match = _TIMEOUT.match(line)
        return match is not None and integer(match[1]) >= 2**31
    if not profile.skips_long_lines:
        first = line.partition(b"\r\n")[0].replace(b"%d", b"%d" % U64)
        if len(first) + 2 > profile.max_line:
            return True
    if not (profile.skips_big_bodies and profile.raises_ttr) and (match := _PUT.match(line)):
        ttr, size = map(integer, match.groups())
        # What is too big is refused at once; what follows may be its body, or commands.
        too_big = size > profile.max_job_size and not profile.skips_big_bodies
        return too_big or (ttr == 0 and not profile.raises_ttr)
    return False


def must_be_malformed(line: str, profile: Profile) -> None:
    """Raise NotApplicable if a profile takes a line that is malformed in others."""
    word, *arguments = line.split()
    if profile.id_is_optional and word in OPTIONAL_ID and len(arguments) < 2:
        raise NotApplicable(f"profile {profile.name} has {word} with an id and without")


def is_decided(line: bytes, profile: Profile) -> bool:
    """Return whether the text says how a line (without CR LF) is answered."""
    return _has_one_meaning(line, profile) and not deserves_two_errors(line, profile)


def _has_one_meaning(line: bytes, profile: Profile) -> bool:
    """Return whether the text says what a line means, if not which of two errors it deserves."""
    word, *arguments = line.split(b" ")
    # Some servers end a line at LF alone, and some end a string at NUL.
    ends_early = b"\n" in line or 0 in line
    if len(line) + 2 > profile.max_line or ends_early or not _WORD.fullmatch(word):
        return False
    kinds = KINDS.get(word.decode())
    if profile.id_is_optional and word.decode() in OPTIONAL_ID:
        kinds = "n" if arguments else ""
    if _is_harmless(line, profile):
        return True
    if kinds is None or word.decode() not in profile.commands:
        # Some servers know a command by how a line begins.
        return not any(word.startswith(verb.encode()) for verb in profile.commands)
    if not arguments or b"" in arguments:
        # No arguments: malformed, or unknown; several blanks: any answer is allowed.
        return not (kinds or arguments)
    if names_nothing(line, profile):
        return False
    decided = all(map(_is_decided, kinds, arguments))
    if kinds == "c":
        # Where one number is read as C does, the rest may not be checked.
        decided &= len(arguments) == 1
    if word == b"quit":
        return not arguments
    decided &= not is_unlimited(line, profile)
    if word == b"put":
        # What follows a put that is refused may be taken for its body, or for commands.
        return decided and len(arguments) == 4 and all(map(_is_below_limit, arguments))
    return decided


def has_odd_word(line: bytes, profile: Profile) -> bool:
    """Return whether a line begins with no command, but with a word that a server may know."""
    word = line.partition(b" ")[0].decode("latin-1")
    return word not in ("", *profile.commands) and not is_decided(line, profile)


def is_unlimited(line: bytes, profile: Profile) -> bool:
    """Return whether an argument exceeds a limit that other texts have, and this one does not.

    Of old texts: a delay of more than 32 bits may be refused, kept, or cut; a name of 201 bytes as
    well.
    """
    arguments = line.split(b" ")[1:]
    if has_large_id(line):
        return True
    return not profile.limits_arguments and not (
        all(len(argument) <= profile.max_name for argument in arguments)
        and all(map(_is_below_limit, filter(bytes.isdigit, arguments)))
    )


def has_large_id(line: bytes) -> bool:
    """Return whether a command names a job by more than 64 bits.

    No text limits ids: it may be malformed, or find no job.
    """
    word, *arguments = line.split(b" ")
    is_number = word.decode("latin-1") in ABOUT_A_JOB and bool(arguments) and arguments[0].isdigit()
    return is_number and integer(arguments[0]) > U64


def names_nothing(line: bytes, profile: Profile) -> bool:
    """Return whether NOT_FOUND is a right answer to a line because of what it names.

    No job has an id of more than 64 bits, and no tube an impossible name: such a line may be
    malformed, or find nothing.
    """
    word, *arguments = line.split(b" ")
    is_about_a_tube = word in _MAY_NOT_BE_FOUND and bool(arguments)
    return has_large_id(line) or (is_about_a_tube and not _is_name(arguments[0], profile))


def deserves_two_errors(line: bytes, profile: Profile) -> bool:
    """Tell whether a line is malformed and may also name a missing job or tube.

    No text says which of several errors a server must report.
    """
    word, *arguments = line.split(b" ")
    is_about_a_job = word.decode("latin-1") in ABOUT_A_JOB
    if not arguments or not (is_about_a_job or word in _MAY_NOT_BE_FOUND):
        return False
    names = _NUMBER.fullmatch(arguments[0]) if is_about_a_job else _is_name(arguments[0], profile)
    return bool(names) and isinstance(parse_line(line, profile), Malformed)


def _is_name(argument: bytes, profile: Profile) -> bool:
    """Return whether a tube may have this name."""
    is_too_long = len(argument) > profile.max_name and profile.limits_arguments
    is_odd = argument.startswith(b"-") or argument.translate(None, profile.name_chars)
    return bool(argument) and not (is_too_long or is_odd)


def _is_decided(kind: str, argument: bytes) -> bool:
    if kind == "t":
        return bool(_NAME.fullmatch(argument) or _NO_NAME.fullmatch(argument))
    if _NUMBER.fullmatch(argument):
        return kind == "n" or integer(argument) < 2**31
    return bool(_NO_NUMBER.fullmatch(argument)) and (kind == "n" or argument.isalpha())


def _is_below_limit(argument: bytes) -> bool:
    return bool(_NUMBER.fullmatch(argument)) and integer(argument) <= U32


class Open(NamedTuple):
    """An unspecified line, with all of its allowed meanings."""

    options: tuple[Request | Close, ...]


class LenientReader(RequestReader):
    """Understands what a client sends in all the ways that the text leaves open."""

    def parse(self, line: bytes) -> Request:
        """Return the meaning of a line; an :class:`Open` stands for several requests."""
        request = super().parse(line)
        if isinstance(request, Put) or is_decided(line, self._profile):
            return request
        if _has_one_meaning(line, self._profile):
            return cast("Request", Open((request, Malformed(NOT_FOUND))))
        options: list[Request | Close] = [request, *_REFUSED]
        plain = map(super().parse, (_plain(line, _cut), _plain(line, _hold)))
        options += [request for request in plain if not isinstance(request, Put)]
        found = dict.fromkeys(Close() if option == _QUIT else option for option in options)
        return cast("Request", Open(tuple(found)))


def _cut(number: int) -> int:
    return number & U32


def _hold(number: int) -> int:
    return min(number, U32)


def _plain(line: bytes, fit: Callable[[int], int]) -> bytes:
    """Return a line with each argument cut to the number at its beginning, as some servers read it.

    ``fit`` makes the last number one of 32 bits: a time, for which old texts give no limit.
    """
    word, *arguments = line.split()[:6] or [b""]
    arguments = [_SIGN.sub(b"", argument) for argument in arguments]
    numbers = (_DIGITS.match(argument) for argument in arguments)
    plain = [m[0] if m else a for m, a in zip(numbers, arguments, strict=True)]
    if len(plain) > 1 and plain[-1].isdigit():
        plain[-1] = b"%d" % fit(integer(plain[-1]))
    return b" ".join((word, *plain))


class Lines(RequestReader):
    """Understands what a client sends, and notes its lines, None for one that is too long.

    ``is_open``: the last of them is but half a line. ``is_quirk``: no text and no decision covers
    what beanstalkd does with them.
    """

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self.requests: list[Request] = []
        self.lines: list[bytes | None] = []
        self.is_quirk = False
        self.is_open = False

    @property
    def is_complete(self) -> bool:
        """Return whether what was sent ends with the end of a line or of a body."""
        return not (self.buffered or self._skip or self._overlong) and self._body is None

    @property
    def is_too_long(self) -> bool:
        """Return whether a line that has not ended yet is too long already."""
        return self._overlong

    @property
    def is_cut_off(self) -> bool:
        """Return whether what was sent ends in the middle of a line."""
        return self._body is None and self.buffered > 0

    @property
    def missing(self) -> int:
        """Return how many bytes of a body are to come; 0 if a line is."""
        return 0 if self._body is None else self._skip or self._body + 2 - self.buffered

    @property
    def shape(self) -> object:
        """Return the kinds of requests, and whether something follows them."""
        return [type(request) for request in self.requests], self.is_complete

    def parse(self, line: bytes) -> Request:
        self.lines.append(line)
        self.is_quirk |= b"\r" in line or is_free(line, self._profile)
        return super().parse(line)

    def read(self, data: bytes) -> None:
        """Take in bytes, and all requests that are complete then."""
        self.receive(data)
        known, left = len(self.lines), self.buffered
        while (request := self.next_request()) is not None:
            self.requests.append(request)
            if isinstance(request, Malformed) and len(self.lines) == known:
                self.lines.append(None)
                # Of such a length, beanstalkd takes the next line for a part of it.
                self.is_quirk |= (left - self.buffered) % self._profile.max_line == 1
                self.is_quirk |= bool(_STRAY.search(data)) or not self._profile.skips_long_lines
            known, left = len(self.lines), self.buffered
        # A line that is too long already may be refused before its end.
        self.is_quirk |= self._overlong or (self._body is None and b"\r" in self._buffer)


def is_plain(text: bytes, profile: Profile) -> bool:
    """Return whether the text decides every line of what a client says, and it is complete."""
    reader = Lines(profile)
    reader.read(text)
    return reader.is_complete and not reader.is_quirk and open_line([reader], profile) is None


def understood(entries: Iterable[Entry], profile: Profile) -> list[Lines]:
    """Return the readers of the requests of each client."""
    sent: dict[str, bytearray] = {}
    ended = {entry.connection for entry in entries if entry.data == CLIENT_HALF_CLOSES}
    for entry in entries:
        if entry.direction == ">":
            sent.setdefault(entry.connection, bytearray()).extend(entry.data)
    readers = []
    for name, data in sent.items():
        reader = Lines(profile)
        reader.read(bytes(data))
        # Half a line is not well-formed: it may be answered, or not.
        reader.is_open |= name in ended and reader.is_cut_off
        readers.append(reader)
    return readers


def open_line(readers: Iterable[Lines], profile: Profile) -> bytes | None:
    """Return the first line that the text leaves open, empty if too long; None without any."""
    for reader in readers:
        for line in reader.lines:
            if line is None or not is_decided(line, profile):
                return line or b""
        if reader.is_too_long or reader.is_open:
            return b""
    return None


def has_taken_open_line(entries: Sequence[Entry], profile: Profile) -> bool:
    """Return whether a target has taken an open line: what follows may depend on it.

    A line that it has refused has done nothing, unless it may be that something belongs to it.
    """
    return any(_has_taken(*talk, profile) for talk in talks(entries))


def talks(entries: Sequence[Entry]) -> Iterator[tuple[bytes, bytes]]:
    """Return the bytes of each connection; after its end, its name is that of another."""
    going_on: dict[str, tuple[bytearray, bytearray]] = {}
    for entry in entries:
        sent, got = going_on.setdefault(entry.connection, (bytearray(), bytearray()))
        if entry.direction == ">":
            sent += entry.data
        elif entry.direction == "<":
            got += entry.data
        elif entry.data in (CLIENT_CLOSES, CLIENT_RESETS, TARGET_CLOSES):
            del going_on[entry.connection]
            yield bytes(sent), bytes(got)
    for sent, got in going_on.values():
        yield bytes(sent), bytes(got)


def answered(
    reader: Lines, got: bytes, profile: Profile
) -> Iterator[tuple[Request, bytes | None, Reply | None]]:
    """Yield each request of a client, its line, None if it is too long, and its reply."""
    replies, lines = ReplyReader.of(profile), iter(reader.lines)
    replies.receive(got)
    for request in reader.requests:
        if not isinstance(request, Body):
            yield request, next(lines), _next(replies)


def _has_taken(sent: bytes, got: bytes, profile: Profile) -> bool:
    """Return whether a client's open line was answered otherwise than with a plain refusal."""
    reader = Lines(profile)
    reader.read(sent)
    if reader.is_too_long:
        return True
    for request, line, reply in answered(reader, got, profile):
        if line is not None and line.startswith(b"quit") and reply is None:
            return False
        if line is not None and (isinstance(request, Put) or is_decided(line, profile)):
            continue
        if line is None or line.startswith(b"put") or b"\r" in line:
            return True
        if reply not in (BAD_FORMAT, UNKNOWN_COMMAND):
            return True
    return False


def _next(replies: ReplyReader) -> Reply | None:
    try:
        return replies.next_reply()
    except ProtocolError:
        return None
