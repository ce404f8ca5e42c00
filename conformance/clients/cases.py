"""The cases as rows of data: what is asked, how the server's reply is altered, what must come.

A job of ``jobs`` is in the tube ``default`` before the library connects; the first has the id 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from conformance.clients.checks import (
    Check,
    does_not_succeed,
    fails,
    gives,
    has,
    has_sent,
    in_step,
    nothing,
    refuses,
    restores,
    rests,
    returns,
    sends,
    sends_once,
    sends_or_fails,
    stays_small,
    succeeds,
)
from conformance.clients.protocol import data
from conformance.clients.server import PLAIN, Change, End
from reference_server.commands import COMMANDS

NONE: tuple[str, ...] = ()
OR = " | "
"""Between questions of which the first supported one is asked."""
TAKE = "reserve-with-timeout 0 | reserve"
PEEK = "peek 1 | peek-ready"
RESERVE = (TAKE,)
PUT = "put 0 0 60 x68656c6c6f"


@dataclass(frozen=True, slots=True)
class ClientCase:
    """A row: ``check`` judges the answer to ``ask``, under each of ``changes`` in turn.

    ``before`` is asked first, and must succeed; ``after`` is asked then, each with its own check.
    ``differs`` is a reply whose answer must be another one. ``settles``: a late reply has come
    before ``after`` is asked. ``refused``: the server does not listen. ``has_short_timeout``: a
    missing answer is no mismatch. ``name`` distinguishes cases of a requirement.
    ``simpler``: a requirement that explains a mismatch if it is broken.
    """

    slug: str
    ask: str
    check: Check
    changes: tuple[Change, ...] = (PLAIN,)
    before: tuple[str, ...] = ()
    jobs: tuple[bytes, ...] = ()
    after: tuple[tuple[str, Check], ...] = ()
    differs: bytes | None = None
    settles: bool = False
    refused: bool = False
    has_short_timeout: bool = False
    name: str = ""
    simpler: str = ""

    @property
    def is_weighed(self) -> bool:
        """Tell whether the memory of a new driver is measured, as long as it reads."""
        return self.check is stays_small

    @property
    def id(self) -> str:
        """The name of the case in results."""
        name = self.name or self.ask
        return f"client::{self.slug}: {name if len(name) <= 60 else name[:60] + '…'}"


def says(reply: bytes) -> tuple[Change, ...]:
    """Return the change of a reply into another one."""
    return (Change(says=reply),)


def cuts(reply: bytes, end: End = "close") -> tuple[Change, ...]:
    """Return a change for each place inside a reply where the connection may end."""
    step = 1 if len(reply) < 24 else 3
    return tuple(Change(says=reply, cut=n, end=end) for n in range(0, len(reply), step))


def splits(reply: bytes) -> tuple[Change, ...]:
    """Return a change for each place where a reply may come in two parts."""
    return tuple(Change(says=reply, delay=0.02, pause=n) for n in range(1, len(reply)))


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
    "blanks": b" \ta\r\r b \n\r",
    "zero": b"0",
}
"""Bodies that a library may damage."""
SEND = {
    "reserve": ("reserve", b"reserve\r\n", NONE, _JOB),
    "reserve-with-timeout": (
        "reserve-with-timeout 1",
        b"reserve-with-timeout 1\r\n",
        NONE,
        _JOB,
    ),
    "reserve-job": ("reserve-job 1", b"reserve-job 1\r\n", NONE, _JOB),
    "delete": ("delete 1", b"delete 1\r\n", RESERVE, _JOB),
    "release": ("release 1 7 9", b"release 1 7 9\r\n", RESERVE, _JOB),
    "bury": ("bury 1 7", b"bury 1 7\r\n", RESERVE, _JOB),
    "touch": ("touch 1", b"touch 1\r\n", RESERVE, _JOB),
    "peek": ("peek 2", b"peek 2\r\n", NONE, (b"first", b"work")),
    "peek-ready": ("peek-ready", b"peek-ready\r\n", NONE, _JOB),
    "peek-delayed": ("peek-delayed", b"peek-delayed\r\n", NONE, ()),
    "peek-buried": ("peek-buried", b"peek-buried\r\n", NONE, ()),
    "kick": ("kick 5", b"kick 5\r\n", NONE, ()),
    "kick-job": ("kick-job 1", b"kick-job 1\r\n", NONE, _JOB),
    "stats-job": ("stats-job 1", b"stats-job 1\r\n", NONE, _JOB),
    "stats-tube": ("stats-tube x64656661756c74", b"stats-tube default\r\n", NONE, ()),
    "stats": ("stats", b"stats\r\n", NONE, ()),
    "list-tubes": ("list-tubes", b"list-tubes\r\n", NONE, ()),
    "quit": ("quit", b"quit\r\n", NONE, ()),
    "pause-tube": ("pause-tube x64656661756c74 5", b"pause-tube default 5\r\n", NONE, ()),
}
"""For each command its question, its bytes, what is asked before, and the jobs that are there."""
LATER = {
    "use": (("use x7562",), b"use ub\r\n", PUT),
    "longest-name": ((f"use {data(b'n' * 200)}",), b"use %b\r\n" % (b"n" * 200), PUT),
    "watch": (("watch x7562",), b"watch ub\r\n", TAKE),
}
"""Commands that a library may put off: what is asked, what is sent, and what needs it at last."""
NAMES = {
    "crlf": b"a\r\ndelete 1",
    "long": b"n" * 201,
    "hyphen": b"-a",
    "space": b"a b",
    "empty": b"",
    "charset": "tübe".encode(),
}
NUMBERS = {
    "negative": (
        *("put -1 0 60 x61", "put 0 -1 60 x61", "put 0 0 -1 x61", "delete -1", "kick -1"),
        *("release 1 -1 0", "release 1 0 -1", "bury 1 -1", "pause-tube x64656661756c74 -1"),
    ),
    "fraction": ("put 1.5 0 60 x61", "put 0 1.5 60 x61", "put 0 0 1.5 x61", "release 1 1.5 0"),
    "huge": (
        *("put 4294967296 0 60 x61", "put 0 4294967296 60 x61", "put 0 0 4294967296 x61"),
        *("release 1 4294967296 0", "release 1 0 4294967296", "bury 1 4294967296"),
        *("pause-tube x64656661756c74 4294967296", "delete 18446744073709551616"),
    ),
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
    "number": b"1.50",
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
    "reserve-reserved": (TAKE, b"RESERVED 31 3\r\nabc\r\n", gives("31", b"abc")),
    "reserve-largest-id": (
        TAKE,
        b"RESERVED 18446744073709551615 1\r\nx\r\n",
        gives("18446744073709551615", b"x"),
    ),
    "reserve-timed-out": ("reserve-with-timeout 0", b"TIMED_OUT\r\n", fails),
    "reserve-deadline-soon": ("reserve-with-timeout 0", b"DEADLINE_SOON\r\n", fails),
    "reserve-bare-deadline-soon": ("reserve", b"DEADLINE_SOON\r\n", fails),
    "reserve-job-not-found": ("reserve-job 9", b"NOT_FOUND\r\n", fails),
    "delete-deleted": ("delete 9", b"DELETED\r\n", succeeds),
    "delete-not-found": ("delete 9", b"NOT_FOUND\r\n", fails),
    "release-released": ("release 1 2 0", b"RELEASED\r\n", succeeds),
    "release-buried": ("release 1 2 0", b"BURIED\r\n", fails),
    "release-not-found": ("release 1 2 0", b"NOT_FOUND\r\n", fails),
    "bury-buried": ("bury 1 0", b"BURIED\r\n", succeeds),
    "bury-not-found": ("bury 1 0", b"NOT_FOUND\r\n", fails),
    "touch-touched": ("touch 1", b"TOUCHED\r\n", succeeds),
    "touch-not-found": ("touch 1", b"NOT_FOUND\r\n", fails),
    "use-using": ("use x6161", b"USING aa\r\n", succeeds),
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
SUCCESSES = {
    "put": "reply.put-inserted",
    "reserve": "reply.reserve-reserved",
    "reserve-with-timeout": "reply.reserve-reserved",
    "use": "reply.use-using",
    "watch": "reply.watch-watching",
    "ignore": "reply.ignore-watching",
}
"""For operations that prepare others, the requirements about their success."""
ERRORS = {
    "out-of-memory": b"OUT_OF_MEMORY\r\n",
    "internal-error": b"INTERNAL_ERROR\r\n",
    "bad-format": b"BAD_FORMAT\r\n",
    "unknown-command": b"UNKNOWN_COMMAND\r\n",
}
ANY = (
    *(PUT, TAKE, "delete 1", "release 1 0 0", "bury 1 0", "touch 1", "peek 1", "peek-ready"),
    *("kick 3", "kick-job 1", "stats-job 1", "stats", "list-tubes", "list-tube-used"),
    *("use x6161", "watch x6161", "pause-tube x64656661756c74 0"),
)
"""Questions whose commands may get any error."""
SEGMENTS: dict[str, tuple[Change, ...]] = {
    "bytes": (Change(every=True, chunk=1, delay=0.005),),
    "slow-bytes": (Change(every=True, chunk=1, delay=0.02),),
    "pairs": (Change(every=True, chunk=2, delay=0.01),),
    "slow": (Change(every=True, delay=0.3),),
    "split": tuple(Change(every=True, delay=0.02, pause=n) for n in range(1, 22)),
}
_LIE = b"OK %b\r\n---\na: 1\n\r\n"
LIES = {
    "negative-size": (TAKE, says(b"RESERVED 1 -5\r\nabcde\r\n"), fails),
    "size-no-number": (TAKE, says(b"RESERVED 1 abc\r\nabcde\r\n"), fails),
    "wrong-end": (TAKE, says(b"RESERVED 1 3\r\nabcXY\r\n"), fails),
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
    TAKE: b"RESERVED 12 5\r\nhello\r\n",
    "delete 9": b"DELETED\r\n",
    PEEK: b"FOUND 1 5\r\nhello\r\n",
    "kick 100": b"KICKED 12\r\n",
    "stats": body(b"---\nuptime: 5\ncurrent-tubes: 1\n"),
    "list-tubes": body(b"---\n- default\n- ab\n"),
    "list-tube-used": b"USING abc\r\n",
    "watch x6162": b"WATCHING 12\r\n",
}
"""Replies inside of which the connection ends."""


IN_STEP = ((PUT, in_step),) * 3
"""After an error: a put shows an answer that was left over from the one before."""


def _sent() -> Iterator[ClientCase]:
    yield ClientCase("send.put", "put 3 2 50 x6162", sends(b"put 3 2 50 2\r\nab\r\n"))
    yield ClientCase("send.largest-numbers", f"put {2**32 - 1} {2**32 - 1} {2**32 - 1} x6162",
               sends(b"put 4294967295 4294967295 4294967295 2\r\nab\r\n"))  # fmt: skip
    yield ClientCase("send.zeros", "put 0 0 0 x6162", sends_or_fails(b"put 0 0 0 2\r\nab\r\n"))
    yield ClientCase(
        "send.zeros", "release 1 0 0", sends(b"release 1 0 0\r\n"), before=RESERVE, jobs=_JOB
    )
    yield ClientCase("send.zeros", "reserve-with-timeout 0", sends(b"reserve-with-timeout 0\r\n"),
               jobs=_JOB)  # fmt: skip
    yield ClientCase(
        "send.largest-id", f"delete {2**64 - 1}", sends(b"delete 18446744073709551615\r\n")
    )
    yield ClientCase("send.kick-none", "kick 0", sends_or_fails(b"kick 0\r\n"))
    for verb, (ask, raw, before, jobs) in SEND.items():
        yield ClientCase(f"send.{verb}", ask, sends(raw), before=before, jobs=jobs)
    for verb, (before, raw, ask) in LATER.items():
        yield ClientCase(f"send.{verb}", ask, has_sent(raw), before=before, jobs=_JOB)
    yield ClientCase("send.ignore", "watch x7562", nothing, after=(
               (TAKE, nothing), ("ignore x7562", nothing), (TAKE, has_sent(b"ignore ub\r\n"))),
               jobs=_JOB)  # fmt: skip
    yield ClientCase(
        "send.watch-adds", TAKE, gives("1", b"work"), before=("watch x7562",), jobs=_JOB
    )
    for name, content in BODIES.items():
        raw = b"put 0 0 60 %d\r\n%b\r\n" % (len(content), content)
        yield ClientCase(f"send.body-{name}", f"put 0 0 60 {data(content)}", sends(raw))
    for name, content in NAMES.items():
        word, slug = data(content), f"refuse.name-{name}"
        yield ClientCase(slug, f"use {word}", refuses("use"), after=((PUT, refuses("use")),))
        yield ClientCase(slug, f"watch {word}", refuses("watch"), jobs=_JOB,
                   after=((TAKE, refuses("watch")),))  # fmt: skip
        for ask in (f"ignore {word}", f"stats-tube {word}", f"pause-tube {word} 1"):
            yield ClientCase(slug, ask, refuses(ask.split()[0]))
    for name, questions in NUMBERS.items():
        for ask in questions:
            before = RESERVE if ask.startswith(("release", "bury")) else ()
            yield ClientCase(f"refuse.number-{name}", ask, refuses(ask.split()[0]), before=before,
                       jobs=_JOB)  # fmt: skip
    yield ClientCase("send.one-connection", "release 1 0 0", succeeds, before=RESERVE, jobs=_JOB)


def _read() -> Iterator[ClientCase]:
    for name, (ask, reply, check) in REPLIES.items():
        before = RESERVE if ask.startswith(("release", "bury", "touch")) else ()
        yield ClientCase(f"reply.{name}", ask, check, says(reply), before=before, jobs=_JOB)
        # All segments of replies to these are below.
        if check is fails or ask in (PUT, TAKE):
            continue
        in_bytes = tuple(replace(one, says=reply) for one in SEGMENTS["bytes"])
        for kind, changes in (("bytes", in_bytes), ("split", splits(reply))):
            yield ClientCase(f"segments.{kind}", ask, check, changes, before=before, jobs=_JOB,
                   name=f"{ask}: {name}", simpler=f"reply.{name}")  # fmt: skip
    for ask, check in (("list-tube-used", gives(b"abc")), ("watch x6162", gives("12"))):
        yield ClientCase("segments.split", ask, check, splits(CUT[ask]))
    watched = ("watch x6161", "watch x6162")
    yield ClientCase("reply.watch-watching", "watch x6163", gives("4"), before=watched)
    yield ClientCase("reply.ignore-watching", "ignore x6162", gives("2"), before=watched)
    yield ClientCase("reply.ignore-not-ignored", "ignore x64656661756c74", fails,
               says(b"NOT_IGNORED\r\n"))  # fmt: skip
    used = ("use x6162",)
    yield ClientCase("reply.list-tube-used-using", "list-tube-used", gives(b"ab"), before=used)
    for name, reply in ERRORS.items():
        for ask in ANY:
            before = RESERVE if ask.startswith(("delete", "release", "bury", "touch")) else ()
            yield ClientCase(f"reply.{name}", ask, fails, says(reply), before=before, jobs=_JOB)
    yield ClientCase("reply.deadline-soon-distinct", TAKE, returns,
               says(b"DEADLINE_SOON\r\n"), differs=b"TIMED_OUT\r\n")  # fmt: skip
    yield ClientCase("reply.timed-out-distinct", "reserve-with-timeout 0", returns,
               says(b"TIMED_OUT\r\n"), differs=b"INTERNAL_ERROR\r\n")  # fmt: skip
    yield ClientCase("reply.reserve-late", "reserve-with-timeout 3", gives("31", b"abc"),
               (Change(says=b"RESERVED 31 3\r\nabc\r\n", delay=2.0),),
               simpler="reply.reserve-reserved")  # fmt: skip
    for name, content in BODIES.items():
        for ask in (TAKE, PEEK):
            yield ClientCase(f"reply.body-{name}", ask, gives("1", content), jobs=(content,))
    for name, (text, pair) in STATS.items():
        yield ClientCase(f"stats.{name}", "stats", has(*pair), says(body(text)))
    for name, tube in TUBES.items():
        listed = body(b"---\n- default\n- %b\n" % tube)
        yield ClientCase(f"stats.tube-{name}", "list-tubes", has(b"default", tube), says(listed))
    yield ClientCase("stats.tube-named", "stats-tube x6e756c6c", has(b"name", b"null"),
               says(body(b"---\nname: null\ncurrent-jobs-ready: 0\n")))  # fmt: skip
    for name, changes in SEGMENTS.items():
        numbered = tuple(replace(change, says=b"INSERTED 5822\r\n") for change in changes)
        yield ClientCase(f"segments.{name}", PUT, gives("5822"), numbered)
        yield ClientCase(f"segments.{name}", TAKE, gives("1", b"a b"), changes, jobs=(b"a b",))
        found = tuple(replace(change, says=CUT["stats"]) for change in changes)
        yield ClientCase(f"segments.{name}", "stats", has(b"uptime", b"5"), found)


def _afterwards() -> Iterator[ClientCase]:
    for name, reply in {**ERRORS, "not-found": b"NOT_FOUND\r\n"}.items():
        yield ClientCase(f"step.after-{name}", "delete 9", returns, says(reply), after=IN_STEP)
    for name, reply in {"job-too-big": b"JOB_TOO_BIG\r\n", "draining": b"DRAINING\r\n"}.items():
        yield ClientCase(f"step.after-{name}", PUT, returns, says(reply), after=IN_STEP)
    yield ClientCase(
        "step.after-job-too-big",
        f"put 0 0 60 {data(b'm' * 65536)}",
        returns,
        after=IN_STEP,
        name="a body of 65,536 bytes",
    )
    yield ClientCase("step.after-timed-out", TAKE, returns, says(b"TIMED_OUT\r\n"), after=IN_STEP)
    yield ClientCase(
        "step.after-use",
        "use x7562",
        returns,
        after=IN_STEP,
        changes=(Change(says=b"OUT_OF_MEMORY\r\n", at="use", times=1),),
    )
    for settles, when in ((True, "before"), (False, "after")):
        name = f"the rest comes {when} the next command"
        yield ClientCase(
            "step.late-reply",
            "delete 1",
            returns,
            (Change(delay=2.5),),
            jobs=_JOB,
            after=IN_STEP,
            settles=settles,
            name=name,
        )
        yield ClientCase(
            "step.late-body",
            TAKE,
            returns,
            (Change(delay=2.5, pause=18),),
            jobs=(b"w" * 40,),
            after=IN_STEP,
            settles=settles,
            name=name,
        )
    ends: tuple[End, ...] = ("close", "reset")
    lost = tuple(Change(cut=n, end=end) for n in (0, 4) for end in ends)
    yield ClientCase("step.put-once", PUT, sends_once(b"put"), lost, has_short_timeout=True)
    yield ClientCase(
        "step.use-restored",
        "delete 9",
        nothing,
        (Change(cut=0, at="delete", times=1),),
        before=("use x7562",),
        after=((PUT, restores(b"use ub\r\n", "put")),),
    )
    yield ClientCase(
        "step.watch-restored",
        "delete 9",
        nothing,
        (Change(cut=0, at="delete", times=1),),
        before=("watch x7562",),
        jobs=_JOB,
        after=((TAKE, restores(b"watch ub\r\n", "reserve")),),
    )
    for ask, reply in CUT.items():
        verb = ask.split()[0].removesuffix("-with-timeout")
        yield ClientCase(
            f"gone.{verb}-is-incomplete",
            ask,
            does_not_succeed,
            cuts(reply),
            jobs=_JOB,
            has_short_timeout=True,
        )


def _gone() -> Iterator[ClientCase]:
    ends: tuple[End, ...] = ("close", "reset")
    for end in ends:
        for ask in ("delete 9", TAKE, PUT):
            reply = CUT[ask]
            places = tuple(Change(says=reply, cut=n, end=end) for n in (0, 4, len(reply) - 1))
            yield ClientCase(f"gone.{end}-returns", ask, returns, places)
        yield ClientCase(f"gone.{end}-returns", PUT, returns, (Change(leaves=True, end=end),),
                   name="put on a connection that has ended")  # fmt: skip
    for ask in ("stats", "list-tubes", "list-tube-used", "peek-ready", "kick 3"):
        yield ClientCase("gone.close-returns", ask, returns, (Change(cut=0),))
    yield ClientCase("gone.no-busy-loop", TAKE, rests, cuts(CUT[TAKE])[::7])
    yield ClientCase("gone.refused-returns", "delete 1", returns, refused=True)
    yield ClientCase("gone.silence-returns", "delete 9", returns, (Change(cut=0, end="silence"),))
    yield ClientCase("gone.silence-returns", "reserve-with-timeout 1", returns,
               (Change(cut=0, end="silence"),))  # fmt: skip
    yield ClientCase("gone.silence-in-line-returns", PUT, returns,
               (Change(says=b"INSERTED 12", cut=11, end="silence"),))  # fmt: skip
    yield ClientCase("gone.silence-in-body-returns", PEEK, returns, jobs=_JOB, changes=(
               Change(says=b"FOUND 9 50\r\nhello", cut=17, end="silence"),))  # fmt: skip


def _hardening() -> Iterator[ClientCase]:
    for name, (ask, change, check) in LIES.items():
        yield ClientCase(f"lies.{name}", ask, check, change)
    for name, check in {
        "endless-line-memory": stays_small,
        "endless-line-returns": returns,
    }.items():
        yield ClientCase(
            f"lies.{name}",
            "delete 9",
            check,
            (Change(says=b"x" * 65536, repeat=1024),),
            name="64 MiB without a line end",
        )
    yield ClientCase("lies.gigantic-size", PEEK, stays_small,
               says(b"FOUND 9 99999999999\r\nabc\r\n"))  # fmt: skip
    yield ClientCase(
        "lies.surplus-reply",
        "delete 1",
        returns,
        says(b"DELETED\r\nDELETED\r\n"),
        jobs=_JOB,
        after=IN_STEP,
    )
    yield ClientCase("lies.early-reply", "delete 9", fails, (Change(early=b"DELETED\r\n"),))


def all_cases() -> list[ClientCase]:
    """Return all cases, in the order of the sections."""
    return [*_sent(), *_read(), *_afterwards(), *_gone(), *_hardening()]


def for_self_test() -> Iterator[tuple[str, ...]]:
    """Yield the questions that each operation is tried with, against a well-behaved server."""
    yield (PUT,)
    for verb in COMMANDS:
        if verb in SEND:
            ask, _, before, _ = SEND[verb]
            yield (*before, ask.split(OR)[0])
    for ask in ("use x7562", "watch x7562", "list-tube-used", "list-tubes-watched"):
        yield (ask,)
    yield ("watch x7562", "watch x7563", "ignore x7562")
