"""The records of a server: jobs, tubes, connections. Times are integer nanoseconds."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Generic, NamedTuple, TypeVar, overload

from sortedcontainers import SortedList

SECOND = 1_000_000_000
URGENT = 1024
"""Jobs with a smaller priority value count as urgent."""

T = TypeVar("T")


class Bag(Generic[T]):
    """An unordered set in beanstalkd's order: what is removed is replaced by the last item.

    The text leaves these orders open (list-tubes, which waiting client is served); this is the
    one that clients of beanstalkd see. A large bag has a table of places; a small one is copied
    more often than it is searched.
    """

    LARGE = 64
    __slots__ = ("_cursor", "_items", "_places")

    def __init__(self) -> None:
        self._items: list[T] = []
        self._cursor = 0
        self._places: dict[T, int] | None = None

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __contains__(self, item: object) -> bool:
        return item in (self._items if self._places is None else self._places)

    def first(self) -> T:
        return self._items[0]

    def add(self, item: T) -> None:
        self._items.append(item)
        if self._places is not None:
            self._places[item] = len(self._items) - 1
        elif len(self._items) > self.LARGE:
            self._places = {item: place for place, item in enumerate(self._items)}

    def remove(self, item: T) -> None:
        places = self._places
        index = self._items.index(item) if places is None else places.pop(item)
        last = self._items.pop()
        if index < len(self._items):
            self._items[index] = last
            if places is not None:
                places[last] = index

    def turns(self) -> Sequence[T]:
        """Return all items, the one that is next first, in beanstalkd's way of going round.

        It is a view, for as long as nothing is added or removed.
        """
        self._cursor %= len(self._items)
        return _Turns(self._items, self._cursor)

    def took_turn(self) -> None:
        self._cursor += 1

    def passed_by(self) -> None:
        """Note that a client was served at once: to beanstalkd, the only one of a bag of one."""
        self._cursor = 1


class _Turns(Sequence[T]):
    """The items of a list, one of them first."""

    def __init__(self, items: list[T], first: int) -> None:
        self._items, self._first = items, first

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        place = range(len(self))[index]
        return self._items[self._first if place == 0 else place - (place <= self._first)]


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
