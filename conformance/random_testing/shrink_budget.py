"""The time budget for shrinking findings: for each one, and for a whole run."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from conformance.target.starvation import CpuTime, Starvation

EACH, IN_ALL = 5.0, 15.0
"""Seconds that a run of the suite takes for each finding, and for all of them."""
BUSY = 4
"""The factor by which these seconds may grow, as long as we or the target wait for a CPU."""


@dataclass(slots=True)
class _Turn:
    """The time for one finding: ``seconds``, not counting waits for a CPU."""

    seconds: float
    begun: float
    starvation: Starvation

    @property
    def spent(self) -> float:
        """The seconds that count."""
        passed = time.monotonic() - self.begun
        return passed - min(self.starvation.since().seconds, passed * (1 - 1 / BUSY))


@dataclass(slots=True)
class ShrinkBudget:
    """Seconds for ``each`` finding, and those that are ``left`` for all."""

    each: float = 20.0
    left: float = math.inf
    _turn: _Turn | None = None

    @contextlib.contextmanager
    def spent(self, cpu_time: Callable[[], CpuTime]) -> Iterator[None]:
        """Count the time that passes meanwhile for one finding; calls may be nested.

        ``cpu_time``: what the target has had of a CPU, and waited for one, so far.
        """
        if self._turn is not None:
            yield
            return
        turn = _Turn(min(self.each, self.left), time.monotonic(), Starvation(cpu_time))
        self._turn = turn
        try:
            yield
        finally:
            self._turn = None
            self.left = max(self.left - turn.spent, 0.0)

    @property
    def remaining(self) -> float:
        """The seconds that are left for the finding at hand."""
        return max(self._turn.seconds - self._turn.spent, 0.0) if self._turn else 0.0
