"""Leaks: memory, descriptors or files that grow with each round of the same work, without end.

What a server allocates first, a table that doubles, and garbage that is collected later make steps,
or end at a plateau. So a leak is only what grows in each of many rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from conformance.target.resources import Resources
from conformance.target.starvation import CpuTime, Starvation

ROUNDS = 5
"""Rounds of work in which something without a leak has stopped growing once, as a rule."""
LEAST = 2**15
"""Bytes by which each two rounds let something grow that leaks: less may be chance."""
SLOW = 5
"""Times the CPU time of a server that work may take, where nobody waits for a CPU."""
SECONDS, MORE = 0.8, 6
"""Seconds of a server's CPU time for which a leak goes on growing, and the rounds it takes more."""

Work = Callable[[], object]
Measure = Callable[[], int]


def seems_to_grow(work: Work, measure: Measure, least: int = LEAST) -> bool:
    """Tell whether something grows in each round, as it may do until it has warmed up."""
    return _grows(_sizes(work, measure), least)


def growth(work: Work, measure: Measure, cpu_time: Callable[[], CpuTime]) -> int:
    """Return by how much each round of work lets something grow; 0 if it ever stops growing.

    On a busy machine it takes longer until a server has worked as much: see ``cpu_time``.
    """
    end = cpu_time().ran + SECONDS
    sizes = _sizes(work, measure)
    while _grows(sizes, LEAST):
        if cpu_time().ran > end and len(sizes) >= ROUNDS + MORE:
            return (sizes[-1] - sizes[0]) // (len(sizes) - 1)
        work()
        sizes.append(measure())
    return 0


def _sizes(work: Work, measure: Measure) -> list[int]:
    """Return what is measured after each round; the first one warms the server up."""
    work()
    sizes = [measure()]
    for _ in range(1, ROUNDS):
        work()
        sizes.append(measure())
    return sizes


def _grows(sizes: list[int], least: int) -> bool:
    """Tell whether each two rounds have added at least so much."""
    return all(after - before >= least for before, after in zip(sizes, sizes[2:], strict=False))


def paced(work: Callable[[int], object], seconds: float, most: int, resources: Resources) -> int:
    """Return how many times a server does some work in so many seconds of its CPU time.

    ``most`` at most, and of a server that sleeps no more than it does in :data:`SLOW` times as
    long.
    """
    count = 1
    while True:
        starvation = Starvation(resources.cpu_time)
        begun, ran = time.monotonic(), resources.cpu_time().ran
        work(count)
        passed = time.monotonic() - begun - starvation.since().seconds
        took = max(passed / SLOW, resources.cpu_time().ran - ran, 1e-6)
        if count == most or 4 * took >= seconds:
            return max(min(int(count * seconds / took), most), 1)
        count = min(4 * count, most)
