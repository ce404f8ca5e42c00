"""The time for tours: a slow target shortens them, a busy machine only delays them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from conformance.target.starvation import SEEN, CpuTime, Starvation

SPARE = 30.0
"""Seconds in which differences may be judged besides the time of all tours."""
LONGER = 10.0
"""Seconds for which a difference may be judged after the end of that time."""
_LOOK = 0.1
"""Seconds after which the pace of the tours is measured again."""
_BUSY = 10
"""The factor by which tours may take longer on a machine that is busy."""


class TourTime:
    """The time up to ``end``, in seconds of the monotonic clock.

    ``taken``: the transitions that all tours have taken so far.
    """

    def __init__(self, end: float) -> None:
        self.taken = 0
        self.spare = SPARE
        """Seconds left in which differences may be judged at no cost of the tours' own time."""
        self._end = end

    @property
    def is_over(self) -> bool:
        """Tell whether no more transitions should be taken."""
        return time.monotonic() > self._end

    @property
    def end_of_judging(self) -> float:
        """The time, of the monotonic clock, up to which a difference that is met now is judged."""
        return max(self._end, time.monotonic()) + LONGER

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        """Let the time that passes meanwhile be none of the tours."""
        begun = time.monotonic()
        yield
        self._end += time.monotonic() - begun

    def compensate(self, seconds: float) -> None:
        """Give back the time spent on a difference that is allowed, as far as there is any."""
        given = min(seconds, self.spare)
        self.spare -= given
        self._end += given

    def watch(self, cpu_time: Callable[[], CpuTime]) -> None:
        """Note whose CPU time is the target's from now on."""


class Allowance(TourTime):
    """At least so many ``seconds``, and all that tours need if they fit into ``whole`` seconds.

    Seconds in which we or the target had to wait for a CPU do not count. ``transitions``: those of
    all tours. Tours end early if they would not fit in at the pace that they have.
    """

    def __init__(self, seconds: float, whole: float, transitions: int) -> None:
        super().__init__(time.monotonic() + seconds)
        self._seconds, self._whole, self._transitions = seconds, whole, transitions
        self._starved = 0.0
        self._starvation: Starvation | None = None
        self._looked = 0.0
        self._was_over = False

    @property
    def is_over(self) -> bool:
        now = time.monotonic()
        if now > self._end and now - self._looked > _LOOK and not self._was_over:
            self._was_over = self._does_not_fit(self._seconds + now - self._end)
            self._looked = time.monotonic()
        return self._was_over

    def _does_not_fit(self, passed: float) -> bool:
        counted = passed - SEEN * (self._starved + self._starved_now())
        if counted < self._seconds:
            return passed > _BUSY * self._whole
        return counted * self._transitions > self._whole * self.taken

    def _starved_now(self) -> float:
        return self._starvation.since().seconds if self._starvation else 0.0

    def watch(self, cpu_time: Callable[[], CpuTime]) -> None:
        """Note whose CPU time is the target's from now on; call it where :meth:`is_over` is."""
        self._starved += self._starved_now()
        self._starvation = Starvation(cpu_time)
