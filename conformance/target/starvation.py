"""CPU starvation: how long our threads and the target's processes waited for a CPU.

Linux reports for each thread how long it ran, and how long it was runnable but had to wait. Where
that is missing, or the whole machine was stopped, a thread that takes short naps measures how late
it wakes up.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

ENOUGH = 2
"""Times its timeout that a server may use a CPU and serve nobody, until it counts as hanging."""
SEEN = 4
"""By how much starvation may be more than what is seen of it: not every system shows all."""
_PROC = Path("/proc")
_NAP, _PROMPT = 0.01, 0.002
"""Seconds for which the watch sleeps, and by which it is always woken up too late."""
_IDLE, _TICKS = slice(3, 5), os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
"""The columns of ``/proc/stat`` that count idle time, and their parts of a second."""
_SHARES = (
    (Path("/sys/fs/cgroup/cpu.stat"), "throttled_usec", 1e6),
    (Path("/sys/fs/cgroup/cpu/cpu.stat"), "throttled_time", 1e9),
)
"""The files in which control groups of either version report throttled CPU time."""
_STEP = 0.1
"""Seconds after which CPU starvation is checked again."""


class CpuTime(NamedTuple):
    """Seconds that threads ran on a CPU, and that they waited for one."""

    ran: float = 0.0
    waited: float = 0.0

    @property
    def wanted(self) -> float:
        """Seconds for which they were not idle."""
        return self.ran + self.waited


class Meter:
    """The CPU time of threads, of which some may begin and some may end meanwhile.

    ``threads`` gives the folder of each in /proc.
    """

    def __init__(self, threads: Callable[[], Iterable[Path]]) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._last: dict[Path, CpuTime] = {}
        self._ended = CpuTime()

    def read(self) -> CpuTime:
        """Return the CPU time up to now; nothing if the system does not report it."""
        with self._lock:
            times = {thread: time for thread in self._threads() if (time := _cpu_time(thread))}
            gone = [time for thread, time in self._last.items() if thread not in times]
            self._ended = _sum([self._ended, *gone])
            self._last = times
            return _sum([self._ended, *times.values()])


def _sum(times: Iterable[CpuTime]) -> CpuTime:
    ran, waited = zip(*times, strict=True)
    return CpuTime(sum(ran), sum(waited))


def _cpu_time(thread: Path) -> CpuTime | None:
    try:
        ran, waited, *_ = (thread / "schedstat").read_text().split()
    except (OSError, ValueError):
        return None
    return CpuTime(int(ran) / 1e9, int(waited) / 1e9)


def thread_meter(number: int) -> Meter:
    """Return the meter of a thread of ours."""
    folder = _PROC / "self" / "task" / str(number)
    return Meter(lambda: [folder])


def session(leader: int) -> Meter:
    """Return the meter of a process that leads a session, and of all that it has started."""
    return Meter(_Threads(leader))


def processes(leader: int) -> Iterable[Path]:
    """Yield the folders in /proc of the processes of a session."""
    for name in os.listdir(_PROC) if _PROC.exists() else ():
        with contextlib.suppress(OSError):
            if name.isdecimal() and os.getsid(int(name)) == leader:
                yield _PROC / name


class _Threads:
    """The threads of a session; the system is looked through again only if any thread is new."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._newest = ""
        self._known: list[Path] = []

    def __call__(self) -> list[Path]:
        newest = _newest_thread()
        if newest != self._newest or not newest:
            self._known = [*_threads_of(self._leader)]
            self._newest = newest
        return self._known


def _newest_thread() -> str:
    """Return the number of the thread that was begun last on this machine; empty if unknown."""
    try:
        return (_PROC / "loadavg").read_text().split()[-1]
    except (OSError, IndexError):
        return ""


def _threads_of(leader: int) -> Iterable[Path]:
    for folder in processes(leader):
        with contextlib.suppress(OSError):
            yield from (folder / "task").iterdir()


def processors() -> frozenset[int]:
    """Return the CPUs that this process, and what it starts, may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def idle_time() -> float:
    """Return the seconds for which :func:`processors` were idle; 0 if unknown.

    Where a container has used up its share of them, nobody in it could have had that time.
    """
    idle = 0
    with contextlib.suppress(OSError, ValueError):
        names = {f"cpu{number}" for number in processors()}
        for line in (_PROC / "stat").read_text().splitlines():
            name, *ticks = line.split()
            if name in names:
                # While it waits for a disk, anybody may have it.
                idle += sum(map(int, ticks[_IDLE]))
    return idle / _TICKS - _throttled()


def _throttled() -> float:
    """Return the seconds for which our container has been kept from CPUs; 0 if it is not."""
    for file, key, unit in _SHARES:
        with contextlib.suppress(OSError, ValueError, KeyError):
            fields = dict(line.split(maxsplit=1) for line in file.read_text().splitlines())
            return int(fields[key]) / unit
    return 0.0


def pressure() -> float:
    """Return for how many seconds anybody had to wait for a CPU since this machine started."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        some = (_PROC / "pressure" / "cpu").read_text().partition("\n")[0]
        return int(some.rpartition("total=")[2]) / 1e6
    return 0.0


class StarvationWatch:
    """A thread that takes naps, and sees by how much too late it is woken up.

    It needs what our other threads need, so that it sees, too, when one keeps the others waiting.
    """

    def __init__(self) -> None:
        self._overslept = 0.0
        self._woken = time.monotonic()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(_NAP)
            self._overslept, self._woken = self.overslept(), time.monotonic()

    def overslept(self) -> float:
        """Return by how many seconds it was woken up too late so far, the present nap included."""
        late = time.monotonic() - self._woken - _NAP
        return self._overslept + (late if late > _PROMPT else 0.0)


_starting = threading.Lock()
_watches: list[StarvationWatch] = []


def watch() -> StarvationWatch:
    """Return the watch of this process, which begins when it is first asked for."""
    with _starting:
        if not _watches:
            _watches.append(StarvationWatch())
        return _watches[0]


class Starved(NamedTuple):
    """Seconds for which this thread was kept from a CPU, of so many; and those of the target."""

    own: float
    of: float
    target: float
    target_of: float

    @property
    def seconds(self) -> float:
        """Seconds for which one of them was kept from it."""
        return self.own + self.target

    def __str__(self) -> str:
        sentence = f"this process waited {self.own:.1f} s of {self.of:.1f} s for a CPU"
        if self.target < 0.05:
            return sentence
        # Several of its threads may have waited at the same time.
        target = min(self.target, self.target_of)
        return f"{sentence}, the target {target:.1f} s of {self.target_of:.1f} s"


class _Reading(NamedTuple):
    """Seconds of waiting for a CPU up to a moment; of the target, those that it ran, too.

    ``idle``: seconds for which CPUs had nothing to do; None if no time of the target is known.
    """

    time: float
    own: float
    overslept: float
    target: CpuTime
    idle: float | None


class Starvation:
    """Measures how long this thread, or the target, was kept from a CPU since its creation.

    ``target`` gives the CPU time of the target so far; where it is unknown for how long it
    ran, that is 0. All is to be called by the thread that made this.
    """

    def __init__(self, target: Callable[[], CpuTime]) -> None:
        self._target = target
        self._own = thread_meter(threading.get_native_id())
        self._first = self._read()
        self._marks: dict[float, _Reading] = {}

    def _read(self) -> _Reading:
        now, own = time.monotonic(), self._own.read().waited
        target = self._target()
        idle = idle_time() if target.ran else None
        return _Reading(now, own, watch().overslept(), target, idle)

    def mark(self) -> float:
        """Note that something begins now; return its name, for :meth:`since`."""
        reading = self._read()
        self._marks[reading.time] = reading
        return reading.time

    def since(self, begun: float | None = None, due: float | None = None) -> Starved:
        """Return the CPU starvation since a mark (default: since creation); ours since ``due``."""
        first = self._first if begun is None else self._marks[begun]
        ours = first if due is None else self._marks[due]
        now = self._read()
        own = max(now.own - ours.own, now.overslept - ours.overslept)
        target = _kept_waiting(first, now)
        return Starved(own, now.time - ours.time, target, now.time - first.time)


def _kept_waiting(before: _Reading, now: _Reading) -> float:
    """Return the seconds for which other processes have kept a target from a CPU.

    Its threads may have waited for each other: that is the target's own doing. Others have kept it
    waiting for no longer than they ran, which is what it and idle CPUs have left of all CPU time.
    """
    # Another process may have taken its place meanwhile.
    ran, waited = (
        max(0.0, after - at) for after, at in zip(now.target, before.target, strict=True)
    )
    if not ran or before.idle is None or now.idle is None:
        # How long it ran is unknown, or others have let it do nothing at all.
        return waited
    capacity = (now.time - before.time) * len(processors())
    others = capacity - ran - (now.idle - before.idle)
    return min(waited, max(0.0, others))


class Timeout:
    """Waiting for a server that we have started: only the time counts in which it is idle.

    ``idle`` is how many seconds of that it gets. What it needs a CPU for takes as long as a busy
    machine needs, but ``longest`` seconds at most. ``running``: the seconds for which it may have
    one.
    """

    def __init__(
        self, meter: Meter, idle: float, longest: float, running: float = math.inf
    ) -> None:
        self._meter = meter
        self._left = idle
        self._longest = longest
        used = meter.read()
        self._wanted, self._most = used.wanted, used.ran + running
        self._begun = self._looked = time.monotonic()

    @property
    def is_over(self) -> bool:
        now = time.monotonic()
        passed = now - self._looked
        if passed < _STEP:
            return False
        used = self._meter.read()
        wanted = used.wanted
        # Not more than two steps, as we may have been kept waiting ourselves.
        self._left -= max(0.0, min(passed, 2 * _STEP) * _share() - (wanted - self._wanted))
        self._looked, self._wanted = now, wanted
        is_idle, is_long = self._left <= 0, now - self._begun > self._longest
        return is_idle or is_long or used.ran > self._most


def _share() -> float:
    """Return the share of a CPU for each process that wants one, where only the load is known."""
    if (_PROC / "self" / "schedstat").exists():
        return 1.0
    if not hasattr(os, "getloadavg"):
        return 1.0
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return 1 / max(1.0, load)
