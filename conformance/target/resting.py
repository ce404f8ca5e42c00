"""The rest of a server while nobody sends anything: its CPU time, and what it writes.

CPU time is what a busy machine does not change: a server that spins uses nearly all that it gets,
and one that waits uses nearly none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from conformance.target.starvation import CpuTime
from conformance.verdict import Deviation, OutcomeKind, Step

WINDOW = 0.1
"""Seconds in which it is observed whether a server rests."""
MOMENT = 0.03
"""Seconds in which a server that spins shows that it does."""
WINDOWS = 5
"""Windows after which it is taken not to."""
FIRST_WINDOWS = 50
"""The same for a server that has just been started, and may have something to prepare."""
BUSY, RUNS = 0.2, 0.04
"""Shares of a window, needing a CPU and running, from which on a server is not at rest."""
TALK = 1000
"""Bytes that it writes in a window, of which it may be kept from more by a slow disk."""


class Work(Protocol):
    """The work of a server: its CPU time, and the bytes that it has written."""

    def cpu_time(self) -> CpuTime: ...

    def written(self) -> int: ...


class Need(NamedTuple):
    """The parts of a window for which a server needed a CPU and ran, and the bytes it wrote."""

    wanted: float
    ran: float
    written: int

    @property
    def is_rest(self) -> bool:
        """Tell whether it rested.

        On a busy machine, a server with only a timer waits long for a CPU, but hardly runs.
        """
        return (self.wanted < BUSY or self.ran < RUNS) and self.written < TALK


def unrest(work: Work, windows: int = WINDOWS) -> list[Need]:
    """Return the windows in which a server worked for nobody; none if it rested in any."""
    return _unrest(work.cpu_time, work.written, windows)


def lasting_unrest(work: Work, windows: int) -> list[Need]:
    """Return the same as :func:`unrest`, but none at once if a moment shows that it rests."""
    return unrest(work, windows) if _seems_restless(work.cpu_time) else []


def rests(cpu_time: Callable[[], CpuTime]) -> bool:
    """Tell whether a server rests; a server of unknown CPU time is taken to."""
    is_known = cpu_time().ran > 0
    return not (is_known and _seems_restless(cpu_time) and spins(cpu_time))


def spins(cpu_time: Callable[[], CpuTime]) -> bool:
    """Tell whether a server runs all the time, though nobody sends anything."""
    return bool(_unrest(cpu_time, int, WINDOWS))


def _unrest(
    cpu_time: Callable[[], CpuTime], written: Callable[[], int], windows: int
) -> list[Need]:
    found: list[Need] = []
    for _ in range(windows):
        found.append(_need(cpu_time, written))
        if found[-1].is_rest:
            return []
    return found


def _seems_restless(cpu_time: Callable[[], CpuTime]) -> bool:
    """Tell whether a server needs a CPU for a moment, as it may still have something to do."""
    before = cpu_time().wanted
    time.sleep(MOMENT)
    return cpu_time().wanted - before > RUNS * MOMENT


def _need(cpu_time: Callable[[], CpuTime], written: Callable[[], int]) -> Need:
    begun, before, earlier = time.monotonic(), cpu_time(), written()
    time.sleep(WINDOW)
    seconds, now = time.monotonic() - begun, cpu_time()
    needed, ran = now.wanted - before.wanted, now.ran - before.ran
    return Need(needed / seconds, ran / seconds, written() - earlier)


def share(needs: list[Need]) -> str:
    """Return the part of some windows, at least, for which a server needed a CPU."""
    return f"{min(need.wanted for need in needs):.0%}"


def restless(needs: list[Need], when: str) -> Deviation:
    """Return the deviation of a server that worked for nobody in some windows."""
    return Deviation(
        "a server that rests when nobody sends anything",
        f"it needs {share(needs)} of a CPU {when}",
        conclusive=True,
        step=Step(OutcomeKind.WRONG_VALUE, subject="rest"),
    )


def rests_at_first(work: Work) -> None:
    """Raise :class:`Deviation` if a server that was just started does not rest.

    No client has left it yet: otherwise, a departure may be the reason.
    """
    if needs := lasting_unrest(work, FIRST_WINDOWS):
        deviation = restless(needs, "before any client has left")
        deviation.owner = "endurance.idle-cpu-unused"
        raise deviation
