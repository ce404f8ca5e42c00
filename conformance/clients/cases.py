"""The cases as rows of data: what is asked, how the server's reply is altered, what must come.

A job of ``jobs`` is in the tube ``default`` before the library connects; the first has the id 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from conformance.clients.checks import (
    Check,
    does_not_succeed,
    fails,
    fails_or_gives,
    gives,
    has,
    returns,
    sends,
    sends_nothing,
    sends_once,
    stays_small,
    succeeds,
)
from conformance.clients.protocol import data
from conformance.clients.server import PLAIN, Change, End
from reference_server.commands import COMMANDS, Kind

NONE: tuple[str, ...] = ()
RESERVE = ("reserve-with-timeout 0",)
PUT = "put 0 0 60 x68656c6c6f"


@dataclass(frozen=True, slots=True)
class Case:
    """A row: ``check`` judges the answer to ``ask``, under each of ``changes`` in turn.

    ``before`` is asked first, and must succeed; ``then`` is asked afterwards, and its own check
    judges it. ``differs`` is a reply whose answer must be another one. ``refused``: the server
    does not listen. ``wait``: the seconds that an answer has where a missing one is no difference,
    0 for the usual timeout. ``name`` tells cases of a requirement apart.
    """

    slug: str
    ask: str
    check: Check
    changes: tuple[Change, ...] = (PLAIN,)
    before: tuple[str, ...] = ()
    jobs: tuple[bytes, ...] = ()
    then: tuple[str, Check] | None = None
    differs: bytes | None = None
    refused: bool = False
    wait: float = 0.0
    name: str = ""

    @property
    def id(self) -> str:
        """The name of the case in results."""
        name = self.name or self.ask
        return f"client::{self.slug}: {name if len(name) <= 60 else name[:60] + '…'}"


def says(reply: bytes, at: str = "") -> tuple[Change, ...]:
    """Return the change of a reply into another one."""
    return (Change(says=reply, at=at),)


def cuts(reply: bytes, end: End = "close") -> tuple[Change, ...]:
    """Return a change for each place inside a reply where the connection may end."""
    return tuple(Change(says=reply, cut=n, end=end) for n in range(len(reply)))


def body(content: bytes) -> bytes:
    """Return the reply of statistics with this body."""
    return b"OK %d\r\n%b\r\n" % (len(content), content)


_JOB = (b"work",)
BODIES = {
    "empty": b"",
    "crlf": b"one\r\ntwo\r\n",
    "binary": bytes(range(256)),
    "reply": b"\r\nINSERTED 77\r\nDELETED\r\n",
    "maximal": b"m" * 65535,
    "utf8": "zürich €".encode(),
}
"""Bodies that a library may damage."""
SEND = {
    "use": ("use x7562", b"use ub\r\n", NONE, ()),
    "reserve": ("reserve", b"reserve\r\n", NONE, _JOB),
    "reserve-with-timeout": (
        "reserve-with-timeout 3",
        b"reserve-with-timeout 3\r\n",
        NONE,
        _JOB,
    ),
    "reserve-job": ("reserve-job 1", b"reserve-job 1\r\n", NONE, _JOB),
    "delete": ("delete 1", b"delete 1\r\n", RESERVE, _JOB),
    "release": ("release 1 7 9", b"release 1 7 9\r\n", RESERVE, _JOB),
    "bury": ("bury 1 7", b"bury 1 7\r\n", RESERVE, _JOB),
    "touch": ("touch 1", b"touch 1\r\n", RESERVE, _JOB),
    "watch": ("watch x7562", b"watch ub\r\n", NONE, ()),
    "ignore": ("ignore x64656661756c74", b"ignore default\r\n", ("watch x7562",), ()),
    "peek": ("peek 1", b"peek 1\r\n", NONE, _JOB),
    "peek-ready": ("peek-ready", b"peek-ready\r\n", NONE, _JOB),
    "peek-delayed": ("peek-delayed", b"peek-delayed\r\n", NONE, ()),
    "peek-buried": ("peek-buried", b"peek-buried\r\n", NONE, ()),
    "kick": ("kick 5", b"kick 5\r\n", NONE, ()),
    "kick-job": ("kick-job 1", b"kick-job 1\r\n", NONE, _JOB),
    "stats-job": ("stats-job 1", b"stats-job 1\r\n", NONE, _JOB),
    "stats-tube": ("stats-tube x64656661756c74", b"stats-tube default\r\n", NONE, ()),
    "stats": ("stats", b"stats\r\n", NONE, ()),
    "list-tubes": ("list-tubes", b"list-tubes\r\n", NONE, ()),
    "list-tube-used": ("list-tube-used", b"list-tube-used\r\n", NONE, ()),
    "list-tubes-watched": ("list-tubes-watched", b"list-tubes-watched\r\n", NONE, ()),
    "quit": ("quit", b"quit\r\n", NONE, ()),
    "pause-tube": ("pause-tube x64656661756c74 5", b"pause-tube default 5\r\n", NONE, ()),
}
"""For each command its question, its bytes, what is asked before, and the jobs that are there."""
SILENT = ("list-tube-used", "list-tubes-watched")
"""Commands that a library need not send: it may remember what it was answered before."""
NAMES = {
    "crlf": b"a\r\ndelete 1",
    "long": b"n" * 201,
    "hyphen": b"-a",
    "space": b"a b",
    "empty": b"",
    "charset": "tübe".encode(),
}
NUMBERS = {
    "negative": ("put -1 0 60 x61", "put 0 -1 60 x61", "delete -1"),
    "fraction": ("put 1.5 0 60 x61", "put 0 0 1.5 x61"),
    "huge": ("put 4294967296 0 60 x61", "put 0 4294967296 60 x61", "put 0 0 4294967296 x61"),
}
STATS = {
    "plain": (b"---\nversion: 1.12\ncurrent-jobs-ready: 7\n", (b"current-jobs-ready", b"7")),
    "quoted": (b'---\nversion: "1.13"\nhostname: "box"\n', (b"hostname", b"box")),
    "os": (
        b"---\nos: #1 SMP Debian 6.1\nplatform: x86_64\n",
        (b"os", b"#1 SMP Debian 6.1"),
    ),
    "version": (b"---\nversion: 1.10\nuptime: 5\n", (b"version", b"1.10")),
    "unknown-key": (b"---\nuptime: 5\nnew-key-of-a-fork: 9\n", (b"new-key-of-a-fork", b"9")),
    "large-number": (
        b"---\ntotal-jobs: 18446744073709551615\n",
        (b"total-jobs", b"18446744073709551615"),
    ),
    "order": (b"---\nuptime: 5\ncurrent-tubes: 1\n", (b"current-tubes", b"1")),
}
TUBES = {
    "null": b"null",
    "number": b"1.5",
    "boolean": b"yes",
    "zeros": b"007",
    "brackets": b"(a);$/+",
}
REPLIES: dict[str, tuple[str, bytes, Check]] = {
    "put-inserted": (PUT, b"INSERTED 4711\r\n", gives("4711")),
    "put-largest-id": (
        PUT,
        b"INSERTED 18446744073709551615\r\n",
        gives("18446744073709551615"),
    ),
    "put-expected-crlf": (PUT, b"EXPECTED_CRLF\r\n", fails),
    "put-job-too-big": (PUT, b"JOB_TOO_BIG\r\n", fails),
    "put-draining": (PUT, b"DRAINING\r\n", fails),
    "reserve-reserved": ("reserve", b"RESERVED 31 3\r\nabc\r\n", gives("31", b"abc")),
    "reserve-largest-id": (
        "reserve-with-timeout 0",
        b"RESERVED 18446744073709551615 1\r\nx\r\n",
        gives("18446744073709551615", b"x"),
    ),
    "reserve-timed-out": ("reserve-with-timeout 0", b"TIMED_OUT\r\n", fails),
    "reserve-deadline-soon": ("reserve-with-timeout 0", b"DEADLINE_SOON\r\n", fails),
    "reserve-job-not-found": ("reserve-job 9", b"NOT_FOUND\r\n", fails),
    "delete-deleted": ("delete 9", b"DELETED\r\n", succeeds),
    "delete-not-found": ("delete 9", b"NOT_FOUND\r\n", fails),
    "release-released": ("release 9 0 0", b"RELEASED\r\n", succeeds),
    "release-buried": ("release 9 0 0", b"BURIED\r\n", fails),
    "release-not-found": ("release 9 0 0", b"NOT_FOUND\r\n", fails),
    "bury-buried": ("bury 9 0", b"BURIED\r\n", succeeds),
    "bury-not-found": ("bury 9 0", b"NOT_FOUND\r\n", fails),
    "touch-touched": ("touch 9", b"TOUCHED\r\n", succeeds),
    "touch-not-found": ("touch 9", b"NOT_FOUND\r\n", fails),
    "watch-watching": ("watch x6161", b"WATCHING 17\r\n", gives("17")),
    "ignore-watching": ("ignore x6161", b"WATCHING 16\r\n", gives("16")),
    "peek-found": ("peek 9", b"FOUND 9 2\r\nhi\r\n", gives("9", b"hi")),
    "peek-not-found": ("peek 9", b"NOT_FOUND\r\n", fails),
    "peek-ready-found": ("peek-ready", b"FOUND 8 2\r\nhi\r\n", gives("8", b"hi")),
    "peek-ready-not-found": ("peek-ready", b"NOT_FOUND\r\n", fails),
    "peek-delayed-found": ("peek-delayed", b"FOUND 8 2\r\nhi\r\n", gives("8", b"hi")),
    "peek-buried-found": ("peek-buried", b"FOUND 8 2\r\nhi\r\n", gives("8", b"hi")),
    "kick-kicked": ("kick 10", b"KICKED 6\r\n", gives("6")),
    "kick-job-kicked": ("kick-job 9", b"KICKED\r\n", succeeds),
    "kick-job-not-found": ("kick-job 9", b"NOT_FOUND\r\n", fails),
    "stats-job-not-found": ("stats-job 9", b"NOT_FOUND\r\n", fails),
    "stats-tube-not-found": ("stats-tube x6161", b"NOT_FOUND\r\n", fails),
    "pause-tube-paused": ("pause-tube x6161 0", b"PAUSED\r\n", succeeds),
    "pause-tube-not-found": ("pause-tube x6161 0", b"NOT_FOUND\r\n", fails),
    "put-buried": (PUT, b"BURIED 12\r\n", fails),
    "put-buried-bare": (PUT, b"BURIED\r\n", fails),
}
"""The documented replies: what is asked, what comes, and what the caller must learn."""
ERRORS = {
    "out-of-memory": b"OUT_OF_MEMORY\r\n",
    "internal-error": b"INTERNAL_ERROR\r\n",
    "bad-format": b"BAD_FORMAT\r\n",
    "unknown-command": b"UNKNOWN_COMMAND\r\n",
}
ANY = (PUT, "reserve", "delete 9", "release 9 0 0", "bury 9 0", "touch 9", "peek 9", "kick 3")
"""Questions whose commands may get any error."""
SEGMENTS = {
    "bytes": Change(every=True, chunk=1),
    "slow-bytes": Change(every=True, chunk=1, delay=0.005),
    "pairs": Change(every=True, chunk=2),
    "slow": Change(every=True, delay=0.3),
}
_LIE = b"OK %b\r\n---\na: 1\n\r\n"
LIES = {
    "negative-size": ("reserve", says(b"RESERVED 1 -5\r\nabcde\r\n"), fails),
    "size-no-number": ("reserve", says(b"RESERVED 1 abc\r\nabcde\r\n"), fails),
    "wrong-end": ("reserve", says(b"RESERVED 1 3\r\nabcXY\r\n"), fails),
    "id-no-number": (PUT, says(b"INSERTED abc\r\n"), fails),
    "unknown-reply": ("delete 9", says(b"FINE_THANKS\r\n"), fails),
    "empty-line": ("delete 9", says(b"\r\n"), fails),
    "binary-line": ("delete 9", says(b"\xff\xfe\x00\r\n"), fails),
    "other-reply": ("delete 9", says(b"TOUCHED\r\n"), fails),
    "stats-no-number": ("stats", says(_LIE % b"x"), fails),
    "yaml-object": (
        "stats",
        says(body(b"---\na: !!python/object/apply:os._exit [3]\n")),
        returns,
    ),
    "yaml-aliases": (
        "stats",
        says(
            body(
                b"---\na: &a [x,x,x,x,x,x,x,x,x]\n"
                + b"".join(
                    b"%c: &%c [%b]\n" % (n, n, b",".join([b"*%c" % (n - 1)] * 9))
                    for n in range(ord("b"), ord("j"))
                )
            )
        ),
        returns,
    ),
    "yaml-broken": ("stats", says(body(b'---\na: "b')), returns),
}
"""Replies of servers that lie."""
CUT = {
    PUT: b"INSERTED 12345\r\n",
    "reserve": b"RESERVED 12 5\r\nhello\r\n",
    "delete 9": b"DELETED\r\n",
    "peek 9": b"FOUND 9 5\r\nhello\r\n",
    "kick 100": b"KICKED 12\r\n",
    "stats": body(b"---\nuptime: 5\ncurrent-tubes: 1\n"),
}
"""Replies inside of which the connection ends."""


def _sent() -> Iterator[Case]:
    yield Case("send.put", "put 3 2 50 x6162", sends(b"put 3 2 50 2\r\nab\r\n"))
    yield Case("send.largest-numbers", f"put {2**32 - 1} {2**32 - 1} {2**32 - 1} x6162",
               sends(b"put 4294967295 4294967295 4294967295 2\r\nab\r\n"))  # fmt: skip
    yield Case("send.largest-id", f"delete {2**64 - 1}", sends(b"delete 18446744073709551615\r\n"))
    for verb, (ask, raw, before, jobs) in SEND.items():
        if verb not in SILENT:
            yield Case(f"send.{verb}", ask, sends(raw), before=before, jobs=jobs)
    for name, content in BODIES.items():
        raw = b"put 0 0 60 %d\r\n%b\r\n" % (len(content), content)
        yield Case(f"send.body-{name}", f"put 0 0 60 {data(content)}", sends(raw))
    for name, content in NAMES.items():
        for verb in ("use", "watch", "ignore", "stats-tube"):
            yield Case(f"refuse.name-{name}", f"{verb} {data(content)}", sends_nothing)
        pause = f"pause-tube {data(content)} 1"
        yield Case(f"refuse.name-{name}", pause, sends_nothing)
    for name, questions in NUMBERS.items():
        for ask in questions:
            yield Case(f"refuse.number-{name}", ask, sends_nothing)
    yield Case("send.longest-name", f"use {data(b'n' * 200)}", sends(b"use %b\r\n" % (b"n" * 200)))
    yield Case("send.one-connection", "release 1 0 0", succeeds, before=RESERVE, jobs=_JOB)


def _read() -> Iterator[Case]:
    for name, (ask, reply, check) in REPLIES.items():
        yield Case(f"reply.{name}", ask, check, says(reply))
    yield Case("reply.ignore-not-ignored", "ignore x6161", fails, says(b"NOT_IGNORED\r\n"))
    used = ("use x6162",)
    yield Case("reply.list-tube-used-using", "list-tube-used", gives(b"ab"), before=used)
    for name, reply in ERRORS.items():
        for ask in ANY:
            yield Case(f"reply.{name}", ask, fails, says(reply))
    yield Case("reply.deadline-soon-distinct", "reserve-with-timeout 0", fails,
               says(b"DEADLINE_SOON\r\n"), differs=b"TIMED_OUT\r\n")  # fmt: skip
    yield Case("reply.timed-out-distinct", "reserve-with-timeout 0", fails,
               says(b"TIMED_OUT\r\n"), differs=b"INTERNAL_ERROR\r\n")  # fmt: skip
    for name, content in BODIES.items():
        yield Case(f"reply.body-{name}", "reserve", gives("1", content), jobs=(content,))
    for name, (text, pair) in STATS.items():
        yield Case(f"stats.{name}", "stats", has(*pair), says(body(text)))
    for name, tube in TUBES.items():
        listed = body(b"---\n- default\n- %b\n" % tube)
        yield Case(f"stats.tube-{name}", "list-tubes", has(b"default", tube), says(listed))
    yield Case("stats.tube-named", "stats-tube x6e756c6c", has(b"name", b"null"),
               says(body(b"---\nname: null\ncurrent-jobs-ready: 0\n")))  # fmt: skip
    for name, change in SEGMENTS.items():
        yield Case(f"segments.{name}", PUT, succeeds, (change,))
        yield Case(f"segments.{name}", "reserve", gives("1", b"a\r\nb"), (change,),
                   jobs=(b"a\r\nb",))  # fmt: skip


def _afterwards() -> Iterator[Case]:
    for name, reply in {**ERRORS, "not-found": b"NOT_FOUND\r\n"}.items():
        yield Case(f"step.after-{name}", "delete 9", returns, says(reply), jobs=_JOB,
                   then=("peek 1", fails_or_gives("1", b"work")))  # fmt: skip
    yield Case("step.after-job-too-big", PUT, returns, says(b"JOB_TOO_BIG\r\n"), jobs=_JOB,
               then=("peek 1", fails_or_gives("1", b"work")))  # fmt: skip
    yield Case("step.after-draining", PUT, returns, says(b"DRAINING\r\n"), jobs=_JOB,
               then=("peek 1", fails_or_gives("1", b"work")))  # fmt: skip
    yield Case("step.after-timed-out", "reserve-with-timeout 0", returns, says(b"TIMED_OUT\r\n"),
               jobs=_JOB, then=("peek 1", fails_or_gives("1", b"work")))  # fmt: skip
    yield Case("step.late-reply", "delete 1", returns, (Change(delay=2.5),),
               jobs=(b"work", b"next"), then=("peek 2", fails_or_gives("2", b"next")))  # fmt: skip
    yield Case("step.put-once", PUT, sends_once(b"put"), (Change(cut=0),))
    for ask, reply in CUT.items():
        verb = ask.split()[0]
        yield Case(f"gone.{verb}-is-incomplete", ask, does_not_succeed, cuts(reply), wait=1.5)


def _gone() -> Iterator[Case]:
    ends: tuple[End, ...] = ("close", "reset")
    for end in ends:
        for ask in ("delete 9", "reserve", PUT):
            reply = CUT[ask]
            places = tuple(Change(says=reply, cut=n, end=end) for n in (0, 4, len(reply) - 1))
            yield Case(f"gone.{end}-returns", ask, returns, places)
    yield Case("gone.refused-returns", "delete 1", returns, refused=True)
    yield Case("gone.silence-returns", "delete 9", returns, (Change(cut=0, end="silence"),))
    yield Case("gone.silence-in-line-returns", PUT, returns,
               (Change(says=b"INSERTED 12", end="silence"),))  # fmt: skip
    yield Case("gone.silence-in-body-returns", "peek 9", returns,
               (Change(says=b"FOUND 9 50\r\nhello", end="silence"),))  # fmt: skip


def _hardening() -> Iterator[Case]:
    for name, (ask, change, check) in LIES.items():
        yield Case(f"lies.{name}", ask, check, change)
    for name, check in {
        "endless-line-memory": stays_small,
        "endless-line-returns": returns,
    }.items():
        yield Case(f"lies.{name}", "delete 9", check, (Change(says=b"x" * 65536, repeat=1024),),
                   name="64 MiB without a line end")  # fmt: skip
    yield Case("lies.gigantic-size", "peek 9", stays_small,
               says(b"FOUND 9 99999999999\r\nabc\r\n"))  # fmt: skip
    yield Case("lies.surplus-reply", "delete 1", returns, says(b"DELETED\r\nDELETED\r\n"),
               jobs=_JOB, then=("peek 1", fails_or_gives("1", b"work")))  # fmt: skip
    yield Case("lies.early-reply", "delete 9", fails, (Change(early=b"DELETED\r\n"),))


def all_cases() -> list[Case]:
    """Return all cases, in the order of the sections."""
    return [*_sent(), *_read(), *_afterwards(), *_gone(), *_hardening()]


def for_self_test() -> Iterator[tuple[str, ...]]:
    """Yield the questions that each operation is tried with, against a well-behaved server."""
    yield ("put 0 0 60 x68656c6c6f",)
    for verb in COMMANDS:
        if verb in SEND and Kind.TIMEOUT not in COMMANDS[verb].kinds:
            ask, _, before, _ = SEND[verb]
            yield (*before, ask)
