"""The time of one scenario: what its author advanced, and what really passed.

A test lives in nominal time: commands take none, and only ``clock.advance(seconds)`` moves it. The
target lives in its own time, of which at least as much has passed. From both follows what may be
said of a reply to a command that was pending while time advanced:

- it is early if it came before the nominal time had passed since the scenario's first command;
- it is late if it came later than the allowed lateness after the end of the advance.

So a slow machine widens the interval and never causes a false alarm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from conformance.clock import TargetClock
from conformance.soon import STEP, looks
from conformance.verdict import NotTestable

if TYPE_CHECKING:
    from conformance.connection import Connection

GRANULARITY = 0.01
"""Seconds by which the clocks of target and tester may differ over one scenario."""
APPROACH = 0.03
"""Where time can be moved, it stops this many seconds before the end, to see what comes early."""
OVERSHOOT = 0.001
"""Where time can be moved, it goes this much further: a deadline has passed, not only come."""
BELIEVABLE = 0.9
"""Seconds that a scenario may fall behind its own schedule before its failures prove nothing."""
MAX_REAL_WAIT = 10.0
"""Seconds of the longest single wait under a real clock."""


class Timing(NamedTuple):
    """When a reply is due: not before ``earliest``, not after ``latest`` (None: no limit).

    Seconds of the target's clock.
    """

    earliest: float
    latest: float | None


Wait = Callable[[Sequence["Connection"], float], None]
"""Takes in replies until a point of real time."""


class Timeline:
    """Nominal and real time of one scenario; ``lateness`` in seconds is what timers may be late.

    It is the ``clock`` of the tests, too. ``timed``: the scenario has timers that are near.
    ``latencies`` are the seconds of real time between the last command and a reply that was
    awaited, ``latenesses`` those between the time when a timer was due and its reply.
    ``patience`` is the real time in seconds that a pending command gets to reach the target before
    a clock is moved; ``raced`` tells whether that matters.
    """

    def __init__(
        self, clock: TargetClock, lateness: float, wait: Wait, patience: float = 0.0
    ) -> None:
        self.nominal = 0.0
        self.longest_wait = 0.0
        self.raced = False
        self.timed = False
        self.latencies: list[float] = []
        self.latenesses: list[float] = []
        self._sent = 0.0
        self._patience = patience
        self._clock = clock
        self._lateness = lateness
        self._wait = wait
        self._connections: list[Connection] = []
        self._origin: float | None = None
        self._advanced_until = 0.0
        self._settled = True

    def add(self, connection: Connection) -> None:
        """Takes part of a connection whose replies must be timed."""
        self._connections.append(connection)

    def now(self) -> float:
        """Seconds of the target's clock since the scenario's first command."""
        if self._origin is None:
            self._origin = self._clock.time()
        return self._clock.time() - self._origin

    @property
    def behind(self) -> float:
        """Seconds that the scenario has fallen behind its nominal time."""
        return self.now() - self.nominal if self.timed and not self._clock.movable else 0.0

    def timing(self, sent_at: float) -> Timing | None:
        """When a command sent at this nominal time may be answered; None if at once."""
        if sent_at >= self.nominal:
            return None
        latest = None if self._clock.movable else self._advanced_until + self._lateness
        return Timing(self.nominal - GRANULARITY, latest)

    def sends(self) -> None:
        """Notes that a command is being sent."""
        self._sent = time.perf_counter()

    def measure(self, timing: Timing | None, arrived: float, awaited: bool) -> None:
        """Notes how long a reply took that came in time, at ``arrived`` on the target's clock."""
        if timing is None:
            if awaited:
                self.latencies.append(time.perf_counter() - self._sent)
        elif timing.latest is not None:
            # Under a moved clock, nobody knows when the target would have woken up.
            self.latenesses.append(max(0.0, arrived - self._advanced_until))

    def before_sending(self) -> None:
        """After an advance, grants the target's timers their lateness before they are asked for."""
        if self._settled:
            return
        self._settled = True
        if self._clock.movable:
            self._wait(self._connections, 0.0)
            self._clock.move(self._lateness)
        else:
            left = self._advanced_until + self._lateness - self.now()
            self._wait(self._connections, time.monotonic() + left)

    def advance(self, seconds: float) -> None:
        """Lets time pass on the target, and notes when which reply comes."""
        if self._clock.movable:
            self._move(seconds)
        else:
            self._live_through(seconds)
            for connection in self._connections:
                connection.nudge()

    def becomes(self, is_so: Callable[[], bool]) -> bool:
        """Whether something becomes so that must, though no text says when."""
        for is_last in looks(self._lateness):
            if is_so():
                return True
            if not is_last:
                self._wait(self._connections, time.monotonic() + STEP)
                if self._clock.movable:
                    self._clock.move(STEP)
        return False

    def renew(self, seconds: float) -> None:
        """As :meth:`advance`, for who only asks again later: no timer is near for that."""
        timed = self.timed
        self.advance(seconds)
        self.timed = timed

    def leave_alone(self, seconds: float) -> None:
        """As :meth:`advance` under a real clock, but clients that are idle stay idle."""
        self._live_through(seconds)

    def _move(self, seconds: float) -> None:
        self.before_sending()
        self._clock.settle()
        if any(connection.is_owed for connection in self._connections):
            # Nothing proves that the target has read these commands before its clock moves.
            self.raced = True
            self._wait(self._connections, time.monotonic() + self._patience)
        steps = [seconds - APPROACH, APPROACH] if seconds > APPROACH else [seconds]
        steps[-1] += OVERSHOOT
        for step in steps:
            self._wait(self._connections, 0.0)
            self._clock.move(step)
        self.nominal += seconds
        self._settled = False

    def _live_through(self, seconds: float) -> None:
        self.timed = True
        if seconds > MAX_REAL_WAIT:
            raise NotTestable(f"a wait of {seconds:g} s needs a clock that can be moved")
        self.before_sending()
        self._wait(self._connections, time.monotonic() + seconds)
        self.nominal += seconds
        self.longest_wait = max(self.longest_wait, seconds)
        self._advanced_until = self.now()
        self._settled = False
