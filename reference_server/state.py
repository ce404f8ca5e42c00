"""The records of a server: jobs, tubes, connections. Times are integer nanoseconds."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Generic, NamedTuple, TypeVar

from sortedcontainers import SortedList

SECOND = 1_000_000_000
URGENT = 1024
"""Jobs with a smaller priority value count as urgent."""

T = TypeVar("T")


class Bag(Generic[T]):
    """An unordered set in beanstalkd's order: what is removed is replaced by the last item.

    The text leaves these orders open (list-tubes, which waiting client is served); this is the
    one that clients of beanstalkd see.
    """

    __slots__ = ("_cursor", "_items")

    def __init__(self) -> None:
        self._items: list[T] = []
        self._cursor = 0

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def first(self) -> T:
        return self._items[0]

    def add(self, item: T) -> None:
        self._items.append(item)

    def remove(self, item: T) -> None:
        index = self._items.index(item)
        last = self._items.pop()
        if index < len(self._items):
            self._items[index] = last

    def turn(self) -> T:
        """Return the item that is next, in beanstalkd's way of going round; remove nothing."""
        self._cursor %= len(self._items)
        return self._items[self._cursor]

    def took_turn(self) -> None:
        self._cursor += 1

    def passed_by(self) -> None:
        """Note that a client was served at once: to beanstalkd, the only one of a bag of one."""
        self._cursor = 1


class Deadlines(list[tuple[int, int]]):
    """When the TTRs of one client's jobs end, sorted: (deadline, id); quick to copy while short."""

    def add(self, entry: tuple[int, int]) -> None:
        insort(self, entry)

    def remove(self, entry: tuple[int, int]) -> None:
        index = bisect_left(self, entry)
        if self[index : index + 1] != [entry]:
            raise ValueError(f"{entry} is no deadline of it")
        del self[index]


class JobState(Enum):
    """The four states of the job lifecycle."""

    READY = "ready"
    RESERVED = "reserved"
    DELAYED = "delayed"
    BURIED = "buried"


class Timer(IntEnum):
    """The kinds of timers, in the order in which simultaneous ones fire."""

    DELAY = 0
    PAUSE = 1
    WAIT = 2
    TTR = 3


Alarm = tuple[int, Timer, int | str]
"""A timer: when it falls due (nanoseconds), its kind, and the job, tube or connection it is for."""


@dataclass(eq=False, slots=True)
class Job:
    """A job; ``delay`` and ``ttr`` are in seconds, ``created`` and ``deadline`` points in time."""

    id: int
    pri: int
    delay: int
    ttr: int
    tube: Tube
    created: int
    body: bytes = b""
    state: JobState = JobState.READY
    deadline: int = 0
    reserver: Client | None = None
    reserves: int = 0
    timeouts: int = 0
    releases: int = 0
    buries: int = 0
    kicks: int = 0


class KeptJob(NamedTuple):
    """A job as it outlives its server. ``place``: the order in which jobs were buried."""

    id: int
    tube: str
    body: bytes
    state: JobState
    pri: int
    delay: int
    ttr: int
    created: int
    deadline: int
    place: int
    reserves: int
    timeouts: int
    releases: int
    buries: int
    kicks: int


def kept(job: Job, place: int = 0) -> KeptJob:
    """Return a job as it outlives its server."""
    return KeptJob(
        *(job.id, job.tube.name, job.body, job.state, job.pri, job.delay, job.ttr),
        *(job.created, job.deadline, place),
        *(job.reserves, job.timeouts, job.releases, job.buries, job.kicks),
    )


@dataclass(eq=False, slots=True)
class Tube:
    """A tube: ready jobs by (pri, id), delayed jobs by (deadline, id), buried jobs in a FIFO.

    ``refs`` counts what keeps it alive: its jobs, and the connections that use or watch it.
    ``pause`` is the length of the pause in nanoseconds, 0 if none is on.
    """

    name: str
    refs: int = 0
    ready: SortedList[tuple[int, int]] = field(default_factory=SortedList)
    delayed: SortedList[tuple[int, int]] = field(default_factory=SortedList)
    buried: OrderedDict[int, Job] = field(default_factory=OrderedDict)
    waiting: Bag[Client] = field(default_factory=Bag)
    urgent: int = 0
    reserved: int = 0
    using: int = 0
    watching: int = 0
    total_jobs: int = 0
    deletes: int = 0
    pauses: int = 0
    pause: int = 0
    unpause_at: int = 0


@dataclass(eq=False, slots=True)
class Client:
    """A client; ``reserved`` holds its jobs in the order in which it got them.

    While it waits for a job, ``timeout_at`` is when it gives up (None: never) and ``wakes_at``
    when it must be told something even if no job comes. ``incoming`` is the job whose body has
    not arrived yet.
    """

    id: int
    use: Tube
    watch: Bag[Tube] = field(default_factory=Bag)
    reserved: dict[int, Job] = field(default_factory=dict)
    deadlines: Deadlines = field(default_factory=Deadlines)
    incoming: Job | None = None
    producer: bool = False
    worker: bool = False
    half_closed: bool = False
    waiting: bool = False
    timeout_at: int | None = None
    wakes_at: int | None = None
