"""Waiting for replies as long as some come, but not for ever."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from conformance.dialogue.awaiting import Awaiting
from conformance.target.silences import FEWER, LEAST_ALIVE, Awaited
from conformance.target.starvation import SEEN, Starvation
from conformance.target.target import Target

MOST = 12
"""Times the patience for one reply that is waited for many, as long as some come."""


class Waiting:
    """Waiting for replies that may take ``patience`` seconds each, but not for ever.

    ``time`` is a clock, in seconds, that stands still while it is not waited.
    """

    def __init__(self, patience: float, time: Callable[[], float]) -> None:
        self._patience = patience
        self._time = time
        self._end = time() + MOST * patience
        self.goes_on()

    def goes_on(self) -> None:
        """Note that something has come."""
        self._limit = min(self._time() + self._patience, self._end)

    @property
    def is_over(self) -> bool:
        return self._time() > self._limit


class Silence:
    """The wait for what a target owes to its clients, ``keys`` for what each has said last.

    It has up to ``seconds``, and less if it was waited for in vain before.
    """

    def __init__(self, target: Target, keys: Sequence[Awaited], seconds: float) -> None:
        self._silences = silences = target.learnt.silences
        self._is_known = len(keys) == 1
        self._full = full = target.limits.reply
        # Any of them may be the one that must be answered.
        self._key = max(keys, key=lambda key: silences.patience(key, full))
        # Who is in haste anyway waits no shorter for that, and proves nothing.
        self._is_full = seconds >= full
        least = seconds / FEWER if self._is_full else seconds
        if self._is_full and silences.is_hopeless(self._key):
            least = LEAST_ALIVE
        self._wait = Awaiting(target, self._key, seconds, least)
        self._starvation = Starvation(target.cpu_time)

    @property
    def is_over(self) -> bool:
        """Return whether it has gone on for so long that the reply is missing."""
        return self._wait.left <= 0

    def was_in_vain(self) -> None:
        """Note that the reply has not come, if nobody but the target can be to blame."""
        waited = self._wait.passed
        blameless = SEEN * self._starvation.since().seconds < waited
        if self._is_known and self._is_full and blameless:
            self._silences.note(self._key, self._full)
