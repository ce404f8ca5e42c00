"""The conversations before a crash: jobs in all states, files that are full, and so on.

A step says a line in which ``{name}`` is the id of the job that the put of that name has made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from reference_server.profiles import Profile


class Say(NamedTuple):
    """A command; ``job`` is the name of the job that it puts, ``body`` what it puts."""

    line: str
    body: bytes | None = None
    job: str = ""
    client: str = "A"

    @property
    def verb(self) -> str:
        """The command word."""
        return self.line.split(" ", 1)[0]

    def encoded(self, ids: dict[str, int]) -> bytes:
        """Return its bytes; raise KeyError if it names a job that has no id."""
        line = self.line.format_map(ids).encode()
        return line + b"\r\n" if self.body is None else b"%b\r\n%b\r\n" % (line, self.body)


class Pause(NamedTuple):
    """All clients say nothing for a while."""


Step = Say | Pause
DELAY = 1_000_000
"""Seconds of a delay that does not end while a state is inspected."""
TTR = 100_000
LARGEST = 2**16
"""Bytes of a body: longer ones show nothing else."""
MANY = 2000
"""The jobs of the scene that has thousands."""
_LONG = 10_000
"""Bytes of a few of their bodies, which small files do not hold."""
_POINTS = 12
TUBES = ("default", "orders", "a/b+c.d")
"""The tubes that jobs are put into."""


class CrashScene(NamedTuple):
    """A conversation, and what it is called.

    ``begin``: so many commands are answered before it is crashed. ``points``: it is crashed after
    so many operations at most, and has so many states of each kind; 0 if after all of them.
    """

    name: str
    steps: tuple[Step, ...]
    begin: int = 0
    points: int = 0


def put(job: str, body: bytes = b"x", pri: int = 0, delay: int = 0, ttr: int = TTR) -> Say:
    """Return the put of a job."""
    return Say(f"put {pri} {delay} {ttr} {len(body)}", body, job)


_RESERVE = Say("reserve-with-timeout 0")
"""The ready job with the smallest priority is reserved; a scene has one of that priority."""


def _lives() -> Iterator[Step]:
    """Yield jobs that go through all states, one after the other."""
    yield put("priority", b"first", pri=2**32 - 1)
    yield put("binary", bytes(range(256)), ttr=4_000_000_000)
    yield put("empty", b"", pri=7)
    yield from [_RESERVE] * 3
    yield Say("touch {binary}")
    yield Say("release {empty} 9 0")
    yield _RESERVE
    yield Say(f"release {{priority}} 6 {DELAY}")
    yield Say("kick 1")
    yield _RESERVE
    yield Say("bury {empty} 8")
    yield Say("bury {binary} 3")
    yield Say("release {priority} 1024 0")
    yield put("held", b"held", ttr=60_000)
    yield _RESERVE


def _tubes(deletes: bool) -> Iterator[Step]:
    """Yield jobs in other tubes; ``deletes``: some are deleted while they are delayed."""
    for line in (f"use {TUBES[1]}", f"watch {TUBES[1]}", "ignore default"):
        yield Say(line, client="B")
    for number, job in enumerate(("one", "two", "three", "four")):
        yield put(job, b"%d" % number, pri=5 + number)._replace(client="B")
    yield from [_RESERVE._replace(client="B")] * 3
    for line in ("bury {three} 2", "bury {one} 2", "delete {two}", "kick 1", "delete {four}"):
        yield Say(line, client="B")
    yield Say(f"use {TUBES[2]}")
    yield put("late", b"late\r\n", delay=DELAY)
    yield put("later", b"later", delay=2 * DELAY, pri=2)
    yield put("gone", b"gone", delay=3 * DELAY)
    yield Say("kick 1")
    if deletes:
        yield Say("delete {gone}")
    yield Say("delete {one}", client="B")
    yield Pause()


def _kicks() -> Iterator[Step]:
    """Yield jobs that are kicked by their ids."""
    yield put("delayed", b"delayed", delay=DELAY)
    yield put("buried", b"buried", pri=1)
    yield put("more", b"more", pri=2)
    yield from [_RESERVE] * 2
    yield Say("bury {more} 1")
    yield Say("bury {buried} 1")
    yield Say("kick-job {delayed}")
    yield Say("kick-job {buried}")
    yield Pause()


def _many(deletes: bool) -> Iterator[Step]:
    """Yield jobs that fill several small files, of which most are deleted, and the oldest stay."""
    yield put("old", b"o" * 100)
    yield _RESERVE
    yield Say("bury {old} 4")
    yield Say("use rotated")
    yield put("older", b"O" * 300, delay=DELAY, pri=3)
    yield Say("use default")
    for number in range(48):
        yield put(f"job{number}", b"%d" % (number % 10) * 200, pri=number % 5)
        if number >= 4:
            yield Say(f"delete {{job{number - 4}}}")
    yield Say("kick 1")
    if deletes:
        yield Say("delete {older}")
    yield Pause()


def _bodies(limit: int) -> Iterator[Step]:
    """Yield jobs with the largest bodies, and jobs before and after them."""
    yield put("before", b"before")
    yield put("nearly", b"n" * (limit - 1))
    yield put("between", b"between")
    yield put("largest", b"m" * limit)
    yield put("after", b"after")
    yield Say("delete {nearly}")
    yield put("last", b"last")
    yield Say("delete {largest}")


def _thousands() -> Iterator[Step]:
    """Yield thousands of jobs in all states, and delete enough of them to make files go."""
    for number in range(MANY):
        body = b"%d" % (number % 10) * (_LONG if number % 100 == 57 else number % 7 * 40)
        is_buried, is_delayed = number % 10 == 3, number % 10 in (6, 9)
        tube = TUBES[number * len(TUBES) // MANY]
        if number == 0 or tube != TUBES[(number - 1) * len(TUBES) // MANY]:
            yield from (Say(f"use {tube}"), Say(f"watch {tube}"))
        pri, delay = 0 if is_buried else 1 + number % 9, DELAY + number if is_delayed else 0
        yield put(f"n{number}", body, pri=pri, delay=delay)
        if is_buried:
            yield _RESERVE
            yield Say(f"bury {{n{number}}} {1 + number % 4}")
    for number in range(0, MANY, 10):
        yield from (Say(f"delete {{n{number + more}}}") for more in (0, 2, 4, 8))
    yield Pause()


def _at_work() -> Iterator[Step]:
    """Yield commands on the remaining jobs that make a server rotate and compact its files."""
    for number in range(5, MANY, MANY // 40):
        first = number - number % 10
        yield put(f"m{number}", b"new" * (number % 60), pri=0)
        yield _RESERVE
        yield Say(f"release {{m{number}}} 10 {DELAY if number % 3 else 0}")
        yield Say(f"delete {{n{first + 1}}}")
        yield Say("kick 1")
        yield Say(f"delete {{n{first + 5}}}")
    yield Pause()


def _large_scene() -> CrashScene:
    before, behind = (*_thousands(),), (*_at_work(),)
    begin = sum(isinstance(step, Say) for step in before)
    return CrashScene("thousands", before + behind, begin, _POINTS)


def scenes(profile: Profile, limit: int) -> tuple[CrashScene, ...]:
    """Return the conversations in a profile; ``limit``: the bytes that a body may have."""
    deletes = "delayed" in profile.deletes
    found = [
        CrashScene("lives", (*_lives(), *_tubes(deletes))),
        CrashScene("files", (*_many(deletes),)),
        CrashScene("bodies", (*_bodies(min(limit, LARGEST)),)),
        _large_scene(),
    ]
    if "kick-job" in profile.commands:
        found.insert(1, CrashScene("kick-job", (*_kicks(),)))
    return tuple(found)
