"""The measurements of one thing that grows: levels, repetitions in turn, latencies, budget."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import NamedTuple, TypeVar

from conformance.scale.growth import SizeCosts, typical
from conformance.scale.histogram import Histogram
from conformance.scale.jobs import WrongAnswer
from conformance.scale.populated_server import NoAnswer, PopulatedServer, Taken
from conformance.scale.servers import MeasuredServer, most_connections
from conformance.scale.workloads import POPULATIONS, WORKLOADS, Growth, Workload
from conformance.target.launch import LaunchError
from reference_server.commands import COMMANDS
from reference_server.profiles import NEWEST

T = TypeVar("T")

SMALLEST = 10
"""The first size, and that of the small server; each size is ten times the one before."""
TIMES = 50
"""Times that a step is taken at once, so that reading the clock does not matter."""
_BUSY, _IDLE = 0.75, 0.6
"""The shares of the time that we use a CPU, and the server, where we are the bottleneck."""
_NOISE, _BUSY_NOISE = 0.03, 0.5
"""The part of a cost by which runs differ, and by how much more on a machine that is busy."""
_NOTICEABLE = 0.1
"""Seconds from which on the time that growing takes shows how that time grows."""
_LOAD = 0.4
"""The part of the rate at which requests are answered one by one, at which latencies are taken."""


@dataclass
class CostPoint:
    """A command at a size; ``costs`` and ``rates`` are per command, one for each repetition.

    ``own`` and ``used``: the shares of the time that we, and the server, used a CPU; ``waits``:
    the share in which it waited for one, of the time for which it was not idle.
    """

    costs: list[float] = field(default_factory=list)
    small_costs: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    latencies: Histogram = field(default_factory=Histogram)

    @property
    def is_limited_by_us(self) -> bool:
        """Return whether the server could have done more."""
        return median(self.own) > _BUSY and median(self.used) < _IDLE

    def add(self, taken: Taken) -> None:
        """Add one repetition; nothing can be said of one that cost nothing."""
        if taken.cost <= 0:
            return
        self.costs.append(taken.cost / taken.times)
        self.rates.append(taken.times / taken.seconds)
        self.own.append(taken.own / taken.seconds)
        self.used.append(taken.cost / taken.seconds)
        self.waits.append(taken.waited / (taken.waited + taken.cost))

    @property
    def noise(self) -> float:
        """The part by which all costs may be wrong: where a CPU is shared, caches are empty."""
        return _NOISE + _BUSY_NOISE * median(self.waits)


@dataclass
class GrowthCosts:
    """All that was measured of a server while one thing grew."""

    points: dict[str, dict[int, CostPoint]] = field(default_factory=dict)
    """By command and size."""
    expected: dict[str, float] = field(default_factory=dict)
    memory: dict[int, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def point(self, command: str, size: int, expected: float) -> CostPoint:
        """Return the point of a command at a size, a new one if there is none."""
        self.expected[command] = expected
        return self.points.setdefault(command, {}).setdefault(size, CostPoint())

    def costs(self, command: str) -> list[SizeCosts]:
        """Return the costs by size, as if the machine had been equally fast at all times.

        The small server, which does not grow, shows how fast it was.
        """
        points = self.points[command]
        usual = typical([cost for point in points.values() for cost in point.small_costs] or [1.0])
        found = []
        for size, point in points.items():
            slower = typical(point.small_costs or [usual]) / usual
            if point.costs:
                costs = [cost / slower for cost in point.costs]
                found.append(SizeCosts(size, costs, point.noise))
        return found


class Subject:
    """A server that is measured; ``start`` gives one that is empty, by ``command`` if any.

    ``small``: a second one may run beside it, which stays small.
    """

    version = ""
    profile = NEWEST

    def __init__(
        self, name: str, command: str, start: Callable[[], MeasuredServer], small: bool
    ) -> None:
        self.name, self.command = name, command
        self.start = start
        self.has_small = small
        self.measured: dict[Growth, GrowthCosts] = {}
        self.missing: set[str] = set()
        self.unit = ""


_DELETE_DELAYED = "delete of a delayed job"


class _ServerPair:
    """A server that grows, and a small one beside it, if there is one.

    ``rows``: the workloads whose commands it has. ``is_lost``: it is measured no more.
    """

    def __init__(self, subject: Subject, growth: Growth, limit: float) -> None:
        self._subject, self._growth, self._limit = subject, growth, limit
        self.measured = subject.measured.setdefault(growth, GrowthCosts())
        self.is_lost = False
        self._servers: list[MeasuredServer] = []
        self._sites: list[PopulatedServer] = []
        self._slowest: dict[Workload, float] = {}
        self.rows: Sequence[Workload] = []

    def start(self, rows: Sequence[Workload]) -> None:
        """Start the servers, and choose among the rows."""
        for _ in range(1 + self._subject.has_small):
            self._servers.append(self._subject.start())
            self._sites.append(PopulatedServer(self._servers[-1], self._growth, self._limit))
        self._subject.unit = self._servers[0].unit
        self._choose(rows)

    @property
    def is_shared(self) -> bool:
        """Return whether others use the server, too."""
        return any(server.is_shared for server in self._servers)

    def _choose(self, rows: Sequence[Workload]) -> None:
        verbs = {verb for row in rows for step in row.steps for verb in step.verbs}
        probes = {v: probe for v in verbs & {*COMMANDS} if (probe := COMMANDS[v].probe)}
        self._subject.missing |= self._sites[0].unknown(probes)
        missing = self._subject.missing
        if self._growth is Growth.DELAYED and "delayed" not in self._subject.profile.deletes:
            missing.add(_DELETE_DELAYED)
            return
        self.rows = [
            row for row in rows if not missing & {verb for s in row.steps for verb in s.verbs}
        ]

    def attempt(self, act: Callable[[], T]) -> T | None:
        """Do something with the servers; note if one fails, and measure them no more."""
        try:
            return act()
        except (NoAnswer, WrongAnswer, LaunchError, OSError) as error:
            status = self._servers[0].status() if self._servers else ""
            why = f"{error}; the server {status}" if status else str(error)
            size = self._sites[0].size if self._sites else 0
            self.measured.violations.append(f"{size:,} {self._growth}: {why}")
            self.is_lost = True
            self.close()
            return None

    def grow(self, size: int, end: float) -> bool:
        """Make the server so large by ``end``, and the small one small; return whether it is."""
        for site in self._sites[1:]:
            site.grow(SMALLEST, end)
        if not self._sites[0].grow(size, end):
            return False
        if (memory := self._servers[0].memory()) is not None:
            self.measured.memory[size] = memory
        return True

    def repeat(self, row: Workload, size: int, batch: float) -> None:
        """Take a cycle, each step many times at once."""
        most = round(max(2, min(TIMES, batch / self._slowest[row])))
        for site in self._sites:
            for step, taken in site.run(row.steps, site.times(row.steps, most)):
                point = self.measured.point(step.name, size, row.expected)
                if site is self._sites[0]:
                    point.add(taken)
                elif taken.cost > 0:
                    point.small_costs.append(taken.cost / taken.times)

    def pace(self, row: Workload, size: int, seconds: float) -> None:
        """Take latencies below the rate at which the server is busy all the time."""
        site = self._sites[0]
        begun = time.perf_counter()
        taken = site.pace(row.steps, 0.0, seconds / 10)
        self._slowest[row] = (time.perf_counter() - begun) / taken

        def add(name: str, latency: float) -> None:
            self.measured.point(name, size, row.expected).latencies.add(latency)

        site.pace(row.steps, self._slowest[row] / _LOAD, seconds, add)

    def finish(self) -> None:
        """Look what has become of the jobs."""
        self._sites[0].finish()

    def close(self) -> None:
        """End the servers, or leave nothing on them."""
        for end in (*(site.close for site in self._sites), *(s.close for s in self._servers)):
            end()
        self._sites, self._servers = self._sites[:1], self._servers[:1]


class Effort(NamedTuple):
    """The amount that is measured, in about ``seconds``.

    ``fewest`` and ``most`` repetitions at each size, which is ``factor`` times the one before;
    ``paced``: the seconds for which latencies are taken of each row; ``largest``: the largest size;
    ``batch``: the seconds that a slow step needs to take at once.
    """

    seconds: float
    largest: int | None = None
    fewest: int = 5
    most: int = 20
    factor: int = 10
    paced: float = 0.0
    batch: float = 0.02


class ScaleCampaign:
    """Measures subjects, all in turn.

    ``limit``: the seconds that a reply may take. ``progress`` takes the share of the time.
    ``unmeasured`` names what there was no time for.
    """

    def __init__(
        self,
        subjects: Sequence[Subject],
        effort: Effort,
        limit: float = 10.0,
        workloads: Sequence[Workload] = WORKLOADS,
    ) -> None:
        self.subjects = subjects
        self.unmeasured: list[str] = []
        self._effort, self._limit = effort, limit
        self.progress: Callable[[float], object] = lambda share: None
        self._workloads = workloads
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds since it began."""
        return time.monotonic() - self._begun

    def run(self) -> None:
        """Measure everything, as far as there is time; what is interrupted keeps what it has."""
        growths = [g for g in Growth if any(row.grows is g for row in self._workloads)]
        for number, growth in enumerate(growths):
            left = self._effort.seconds - self.seconds
            try:
                self._measure(growth, time.monotonic() + left / (len(growths) - number))
            except KeyboardInterrupt:
                self.unmeasured += [f"{one}: interrupted" for one in growths[number:]]
                raise

    def _measure(self, growth: Growth, end: float) -> None:
        rows = [row for row in self._workloads if row.grows is growth]
        with contextlib.ExitStack() as stack:
            pairs: list[_ServerPair] = []
            for subject in self.subjects:
                pairs.append(_ServerPair(subject, growth, self._limit))
                stack.callback(pairs[-1].close)
                pairs[-1].attempt(partial(pairs[-1].start, rows))
            if any(pair.rows for pair in pairs):
                self._grow(growth, pairs, end)
            for pair in pairs:
                if pair.rows and not pair.is_lost:
                    pair.attempt(pair.finish)

    def _grow(self, growth: Growth, pairs: Sequence[_ServerPair], end: float) -> None:
        sizes = self._sizes(growth, pairs)
        grew, measured, factor = 0.0, 0.0, float(self._effort.factor)
        for number, size in enumerate(sizes):
            begun = time.monotonic()
            is_large = begun + factor * grew + 2 * measured <= end and all(
                pair.attempt(partial(pair.grow, size, end)) is not False
                for pair in pairs
                if not pair.is_lost
            )
            if not is_large:
                self._note(growth, sizes[number:], "no time left")
                return
            took = time.monotonic() - begun
            if grew > _NOTICEABLE:
                factor = max(float(self._effort.factor), took / grew)
            grew = took
            # Larger sizes need their time, too.
            spare = (end - time.monotonic()) / (3 * (len(sizes) - number))
            measured = self._level(pairs, size, time.monotonic() + spare)
            self.progress(min(self.seconds / self._effort.seconds, 1.0))

    def _sizes(self, growth: Growth, pairs: Sequence[_ServerPair]) -> list[int]:
        population = POPULATIONS[growth]
        is_shared = any(pair.is_shared for pair in pairs)
        usual = population.shared if is_shared else population.largest
        asked = self._effort.largest
        most = usual if asked is None else min(asked, population.largest)
        sizes = [SMALLEST]
        while sizes[-1] * self._effort.factor <= most:
            sizes.append(sizes[-1] * self._effort.factor)
        room = most_connections() // len(pairs) if population.connects else most
        if too_large := [size for size in sizes if size > room]:
            self._note(growth, too_large, f"this system lets us open {room:,} connections")
        return [size for size in sizes if size <= room]

    def _note(self, growth: Growth, sizes: Sequence[int], why: str) -> None:
        self.unmeasured.append(f"{growth}: {', '.join(f'{size:,}' for size in sizes)}: {why}")

    def _level(self, pairs: Sequence[_ServerPair], size: int, end: float) -> float:
        """Measure all at a size, the servers in turn, until ``end`` or often enough.

        Return the seconds that were needed for it at least.
        """
        begun, needed = time.monotonic(), 0.0
        for pair, row in self._turns(pairs):
            pair.attempt(partial(pair.pace, row, size, self._effort.paced))
        for repetition in range(self._effort.most):
            if repetition >= self._effort.fewest and time.monotonic() > end:
                break
            for pair, row in self._turns(pairs):
                pair.attempt(partial(pair.repeat, row, size, self._effort.batch))
            if repetition < self._effort.fewest:
                needed = time.monotonic() - begun
        return needed

    def _turns(self, pairs: Sequence[_ServerPair]) -> Iterator[tuple[_ServerPair, Workload]]:
        for row in self._workloads:
            for pair in pairs:
                if row in pair.rows and not pair.is_lost:
                    yield pair, row
