"""The wait for one reply: a full one, or a shorter one if it was waited for in vain before."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from conformance.target.fate import hangs
from conformance.target.silences import LEAST, LEAST_ALIVE, SERVED, Awaited
from conformance.target.starvation import SEEN, Starvation, Starved
from conformance.target.target import Target

_PROMPT = 0.02
"""Seconds in which most replies come: until then, nobody looks who is kept from a CPU."""


@dataclass(slots=True)
class Awaiting:
    """The wait for a reply of a target, for so many seconds of real time at most.

    While others keep the target from a CPU, it goes on. If it was waited for in vain before, or
    much else was, it is shorter, unless somebody is kept from a CPU; but not shorter than ``least``
    seconds.
    """

    target: Target
    key: Awaited
    seconds: float
    least: float = LEAST
    _begun: float = field(default_factory=time.monotonic)
    _patience: float = field(init=False)
    _starvation: Starvation | None = field(init=False, default=None)
    _unseen: float = field(init=False, default=0.0)
    """The seconds that had passed when it was first looked who is kept from a CPU."""
    _has_looked: bool = field(init=False, default=False)
    """It was looked whether the target hangs."""

    def __post_init__(self) -> None:
        patience = self.target.learnt.silences.patience(self.key, self.seconds)
        self._patience = max(patience, self.least)

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
            self._starvation, self._unseen = Starvation(self.target.cpu_time), passed
        if passed < self._patience:
            return self._patience - passed
        return self._end(self._starvation.since()) - passed

    def finds_hang(self) -> bool:
        """Return whether the target serves nobody any more; only looks if it has hung before.

        It looks once, and the sooner, the more often it has hung.
        """
        silences = self.target.learnt.silences
        if self._has_looked or not silences.is_expected_in_vain(SERVED):
            return False
        if self.passed < max(silences.patience(SERVED, self.seconds), LEAST_ALIVE):
            return False
        self._has_looked = True
        return hangs(self.target.fate(self.key.verb.encode("latin-1")))

    def _end(self, starved: Starved) -> float:
        """Return the seconds after which it ends, if it was so until now."""
        if not self._is_short:
            return min(self._patience + starved.target, self.target.limits.starved)
        late = self._patience + self._unseen + SEEN * starved.seconds
        return min(late, self.seconds)

    @property
    def _is_short(self) -> bool:
        return self._patience < self.seconds

    def __str__(self) -> str:
        if not self._is_short:
            return f"nothing within {self.seconds:g} seconds"
        before = self.target.learnt.silences.is_expected_in_vain(self.key)
        return f"nothing within {self.passed:.2f} seconds{', as before' if before else ''}"
