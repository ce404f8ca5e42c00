"""The wait for one reply, with its full timeout."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from conformance.target.starvation import Starvation
from conformance.target.target import Target

_PROMPT = 0.02
"""Seconds in which most replies come: until then, CPU starvation is not checked."""


@dataclass(slots=True)
class Awaiting:
    """The wait for a reply of a target, with a timeout of so many seconds of real time.

    Time for which others keep the target from a CPU extends the timeout.
    """

    target: Target
    seconds: float
    _begun: float = field(default_factory=time.monotonic)
    _starvation: Starvation | None = field(init=False, default=None)

    @property
    def passed(self) -> float:
        """The seconds since it began."""
        return time.monotonic() - self._begun

    @property
    def left(self) -> float:
        """The seconds that it may go on for; none if it is over."""
        passed = self.passed
        if self._starvation is None:
            if passed < _PROMPT:
                return _PROMPT - passed
            self._starvation = Starvation(self.target.cpu_time)
        if passed < self.seconds:
            return self.seconds - passed
        starved = self._starvation.since().target
        return min(self.seconds + starved, self.target.limits.starved) - passed
