"""Servers that read lines differently where the text leaves open what they mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from reference_server.commands import ABOUT_A_TUBE, U32, VERBS, any_of
from reference_server.events import Event, Hangup, Output
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.state import Client
from reference_server.wire import (
    BAD_FORMAT,
    CRLF,
    EXPECTED_CRLF,
    JOB_TOO_BIG,
    NOT_FOUND,
    UNKNOWN_COMMAND,
    Body,
    Command,
    Malformed,
    Put,
    Request,
    RequestReader,
)
from tests.variants.variant import RANDOM, Variant, non_strict

_BAD, _UNKNOWN = Malformed(BAD_FORMAT), Malformed(UNKNOWN_COMMAND)
_WORDS = frozenset(verb.encode() for verb in VERBS)


def _reads(
    summary: str, change: Callable[[bytes, Request], Request | None], *slugs: str
) -> Variant:
    """Return a variant that may read a line as something else; None: as beanstalkd does."""

    class Reads(RequestReader):
        def parse(self, line: bytes) -> Request:
            request = super().parse(line)
            return change(line, request) or request

    return Variant(summary, reader=Reads, non_strict=non_strict(*slugs))


def _bare_word(line: bytes, _: Request) -> Request | None:
    return _BAD if line in _WORDS and line.decode() in _TAKE_ARGUMENTS else None


_TAKE_ARGUMENTS = frozenset(VERBS) - {
    *("list-tube-used", "list-tubes", "list-tubes-watched", "peek-buried", "peek-delayed"),
    *("peek-ready", "quit", "reserve", "stats"),
}


def _whole_words(line: bytes, _: Request) -> Request | None:
    """Know a command by its whole word only."""
    return _UNKNOWN if line.split(b" ")[0] not in _WORDS else None


def _quit_alone(reply: Malformed) -> Callable[[bytes, Request], Request | None]:
    return lambda line, _: reply if line.startswith(b"quit") and line != b"quit" else None


def _empty(line: bytes, _: Request) -> Request | None:
    return None if line.strip() else _BAD


def _strict_blanks(line: bytes, request: Request) -> Request | None:
    """Take one blank before each argument, none at the end."""
    known = not isinstance(request, Malformed)
    return _BAD if known and (b"  " in line or line.endswith(b" ")) else None


_ZEROS = re.compile(rb" 0[0-9]")
_ABOUT_A_TUBE = re.compile(rb"\A%b +[^ ]+" % any_of(*ABOUT_A_TUBE))


def _no_zeros(line: bytes, _: Request) -> Request | None:
    return _BAD if _ZEROS.search(_ABOUT_A_TUBE.sub(b"", line)) else None


_COUNT = re.compile(rb"[a-z-]+ +([0-9]+)")


def _strict_counts(line: bytes, _: Request) -> Request | None:
    """What kick and reserve-with-timeout take is a number of 32 bits, and nothing else."""
    if not line.startswith((b"kick ", b"reserve-with-timeout ")):
        return None
    match = _COUNT.fullmatch(line)
    return None if match and int(match[1]) <= U32 else _BAD


def _strict(line: bytes, request: Request) -> Request | None:
    for change in (_whole_words, _strict_blanks, _no_zeros, _strict_counts):
        changed = change(line, request)
        if changed is not None:
            return changed
    return None


def _extra(line: bytes, _: Request) -> Request | None:
    """Read commands of its own."""
    word, blank, _rest = line.partition(b" ")
    if word in (b"peek-reserved", b"stats-version"):
        return Command("peek-ready") if not blank else _BAD
    return Command("list-tube-used") if line == b"ping" else None


def _no_tube(line: bytes, request: Request) -> Request | None:
    """What cannot be the name of a tube does not exist."""
    about_one = re.fullmatch(rb"stats-tube [!-~]{1,200}|pause-tube [!-~]{1,200} [0-9]{1,9}", line)
    return Malformed(NOT_FOUND) if about_one and isinstance(request, Malformed) else None


def _long_delay(line: bytes, _: Request) -> Request | None:
    match = re.fullmatch(rb"release ([0-9]+) ([0-9]+) ([0-9]+)", line)
    id, pri, delay = map(int, match.groups()) if match else (0, 0, 0)
    return Command("release", (id, pri, U32)) if delay > U32 >= pri else None


def _long_timeout(line: bytes, _: Request) -> Request | None:
    match = re.fullmatch(rb"reserve-with-timeout +([0-9]+)", line)
    return Command("reserve-with-timeout", (int(match[1]),)) if match else None


class _AnyCase(RequestReader):
    def parse(self, line: bytes) -> Request:
        word = line.partition(b" ")[0]
        return super().parse(word.lower() + line[len(word) :])


class _LineFeeds(RequestReader):
    """A line ends with LF, whether or not CR is before it."""

    def _next_line(self) -> Request | None:
        end = self._buffer.find(b"\n")
        if end >= 0 and self._buffer[end - 1 : end] != b"\r" and not self._overlong:
            self._buffer[end:end] = b"\r"
        return super()._next_line()


class _SkipsBodies(RequestReader):
    """The body of a put whose line is malformed is skipped, if the line tells how long it is."""

    def parse(self, line: bytes) -> Request:
        request, size = super().parse(line), _SIZE.fullmatch(line)
        if isinstance(request, Malformed) and size:
            self._skip = int(size[1]) + len(CRLF)
        return request

    def next_request(self) -> Request | None:
        self._drop_refused()
        return super().next_request()


class _RefusesPutsLate(_SkipsBodies):
    """A put whose line is malformed is refused when its body has come."""

    _refused: Request | None = None

    def next_request(self) -> Request | None:
        if self._refused is None:
            self._refused = super().next_request()
        self._drop_refused()
        request, self._refused = self._refused, None
        if isinstance(request, Malformed) and self._skip:
            self._refused, request = request, None
        return request


_SIZE = re.compile(rb"put [^ ]+ [^ ]+ [^ ]+ ([0-9]{1,9})")


class _MarksLongLines(RequestReader):
    def next_request(self) -> Any:
        size = self._buffer.find(b"\r\n") + 2
        long = self._body is None and (self._overlong or size > self._profile.max_line)
        request = super().next_request()
        if long and request == _BAD:
            return Malformed(BAD_FORMAT, "long")
        return request


class _KnowsNoLimit(RequestReader):
    """What kind of command it is comes first: of none, a line may be as long as it likes."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self._is_unknown = False

    def next_request(self) -> Request | None:
        if self._body is None and not self._overlong:
            word = (
                bytes(self._buffer[: self._profile.max_line]).partition(CRLF)[0].partition(b" ")[0]
            )
            self._is_unknown = word not in _WORDS
        request = super().next_request()
        return _UNKNOWN if request == _BAD and self._is_unknown else request


class _LooksForTheEnd(Model):
    """A body that is too big must be followed by CR LF, too, or that is what is wrong with it."""

    def _end_put(self, conn: Client, body: Body) -> None:
        super()._end_put(conn, body)
        if not body.is_ended:
            self._outputs[-1] = (conn.id, EXPECTED_CRLF)
            # It is counted as little as others that fail, there.
            self.commands["put"] -= 1


class _ClosesAfterLongLine(Model):
    """The connection ends after the error for a line that is too long."""

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        outputs = super().step(event, now, conn)
        if event == Malformed(BAD_FORMAT, "long"):
            outputs.append((conn, Hangup()))
        return outputs


class _RefusesAtOnce(Model):
    """JOB_TOO_BIG comes with the line of the put; the body is skipped when it comes."""

    def _put(self, conn: Client, put: Put) -> None:
        super()._put(conn, put)
        if put.size > self.max_job_size:
            self._outputs.append((conn.id, JOB_TOO_BIG))

    def _end_put(self, conn: Client, body: Body) -> None:
        is_refused = conn.incoming is None
        super()._end_put(conn, body)
        if is_refused:
            self._outputs.pop()


LINES = (
    _reads("a word without its argument is malformed", _bare_word, "error.word-without-argument"),
    _reads("commands are known by whole words", _whole_words, *RANDOM),
    _reads("quit with more is malformed", _quit_alone(_BAD), "quit.nothing-behind-it"),
    _reads("quit with more is unknown", _quit_alone(_UNKNOWN), "quit.nothing-behind-it"),
    _reads("an empty line is malformed", _empty, "error.empty-line"),
    _reads(
        "one blank before each argument",
        _strict_blanks,
        *("protocol.several-blanks", "protocol.blank-at-the-end"),
    ),
    _reads("no leading zeros", _no_zeros, "protocol.leading-zeros"),
    _reads("counts are numbers", _strict_counts, "reserve.longest-timeout"),
    _reads(
        "a strict grammar",
        _strict,
        *("protocol.several-blanks", "protocol.blank-at-the-end", "protocol.leading-zeros"),
        "reserve.longest-timeout",
    ),
    _reads("commands of its own", _extra),
    Variant(
        "commands in any case",
        reader=_AnyCase,
        non_strict=non_strict("error.commands-are-lower-case"),
    ),
    Variant(
        "LF ends a line",
        reader=_LineFeeds,
        non_strict=non_strict("protocol.line-ends-with-crlf"),
    ),
    _reads("timeouts of any length", _long_timeout),
    _reads("what cannot name a tube is not found", _no_tube, *RANDOM),
    Variant(
        "skips the body of a malformed put",
        reader=_SkipsBodies,
        non_strict=non_strict("put.malformed-line-has-no-body"),
    ),
    Variant(
        "refuses a malformed put when its body has come",
        reader=_RefusesPutsLate,
        non_strict=non_strict("put.malformed-line-has-no-body", "put.size-of-32-bits"),
    ),
    Variant(
        "long lines end the connection",
        _ClosesAfterLongLine,
        _MarksLongLines,
        non_strict=non_strict("error.long-line-resynchronises"),
    ),
    Variant(
        "a long line of no command is unknown",
        reader=_KnowsNoLimit,
        non_strict=non_strict("error.long-line-resynchronises"),
    ),
    Variant("says at once that a job is too big", _RefusesAtOnce),
    Variant(
        "looks for the end of a body that is too big",
        _LooksForTheEnd,
        non_strict=non_strict("put.too-big-body-needs-no-end", "stats.failed-commands-count"),
    ),
    Variant("larger jobs", profile=lambda profile: replace(profile, max_job_size=2**20)),
    Variant("smaller jobs", profile=lambda profile: replace(profile, max_job_size=66000)),
    Variant("jobs of 1000 bytes", profile=lambda profile: replace(profile, max_job_size=1000)),
    Variant("jobs of 100 bytes", profile=lambda profile: replace(profile, max_job_size=100)),
)
LONG_DELAYS = _reads("jobs may be released for longer than 32 bits tell", _long_delay)
