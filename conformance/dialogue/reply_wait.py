"""The wait for one reply, with its full timeout."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from conformance.target.starvation import ENOUGH, CpuTime
from conformance.target.target import Target

_PROMPT = 0.02
"""Seconds in which most replies come: until then, the target's CPU time is not read."""


@dataclass(slots=True)
class Awaiting:
    """The wait for a reply of a target, with a timeout of so many seconds of real time.

    Time for which the target ran, or waited for a CPU, extends the timeout: it may be at work on
    the reply. That ends when it has run for longer than any reply needs.
    """

    target: Target
    seconds: float
    _begun: float = field(default_factory=time.monotonic)
    _used: CpuTime | None = field(init=False, default=None)

    @property
    def passed(self) -> float:
        """The seconds since it began."""
        return time.monotonic() - self._begun

    @property
    def left(self) -> float:
        """The seconds that it may go on for; none if it is over."""
        passed = self.passed
        if self._used is None:
            if passed < _PROMPT:
                return _PROMPT - passed
            self._used = self.target.cpu_time()
        if passed < self.seconds:
            return self.seconds - passed
        used = self.target.cpu_time()
        if used.ran - self._used.ran > ENOUGH * self.seconds:
            return 0.0
        busy = used.wanted - self._used.wanted
        return min(self.seconds + busy, self.target.limits.starved) - passed
