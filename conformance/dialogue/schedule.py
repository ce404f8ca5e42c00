"""The time of one scenario: the delays that its author planned, and those that passed.

A test lives in nominal time: commands take none, and only ``clock.advance(seconds)`` moves it. The
target lives in its own time, of which at least as much has passed. From both follows what may be
said of a reply to a command that was pending while time advanced:

- it is early if it came before the nominal time had passed since the scenario's first command;
- it is late if it came later than the allowed lateness after the end of the advance.

So a slow machine widens the interval and never causes a false alarm.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from conformance.dialogue.grace_period import STEP, TRIES, attempts
from conformance.target.clock import GRANULARITY, ControlledClock
from conformance.target.starvation import Starvation
from conformance.target.target import Target
from conformance.target.transport import Transport, wait_for
from conformance.transcript import Transcript
from conformance.verdict import (
    GOES_ON,
    Deviation,
    NotTestable,
    OutcomeKind,
    Step,
    TargetLost,
)
from reference_server.wire import Reply

APPROACH = 0.03
"""Where time can be moved, it stops this many seconds before the end, to see what comes early."""
OVERSHOOT = 0.001
"""Where time can be moved, it goes this much further: a deadline has passed, not only come."""
BELIEVABLE = 0.9
"""Seconds that a scenario may fall behind its own schedule before its failures prove nothing."""
DISTANT = 30
"""Seconds after which a timer is too far away to matter to a test that does not wait for it."""
MAX_REAL_WAIT = 10.0
"""Seconds of the longest single wait under a real clock."""


class Arrival(NamedTuple):
    """A reply, when it came (seconds of the target's clock), and where the transcript has it."""

    reply: Reply
    time: float
    position: int


class Timing(NamedTuple):
    """When a reply is due: not before ``earliest``, not after ``latest`` (None: no limit).

    Seconds of the target's clock. ``begun`` is the mark of the wait since the command was sent,
    ``due`` that of its end.
    """

    earliest: float
    latest: float | None
    begun: float | None = None
    due: float | None = None

    def judge(self, arrival: Arrival, expected: str, command: str) -> None:
        """Raise :class:`Deviation` if a reply came too early or too late."""
        early = self.earliest - arrival.time
        if early > 0:
            raise Deviation(
                f"{expected}, not before its time",
                f"{arrival.reply}, {early:.3f} s early",
                arrival.position,
                step=Step(OutcomeKind.TOO_EARLY, command, came=arrival.reply.word),
            )
        if self.latest is not None and arrival.time > self.latest:
            late = arrival.time - self.latest
            raise Deviation(
                f"{expected}, in time",
                f"{arrival.reply}, {late:.3f} s later than allowed",
                arrival.position,
                late=late,
                begun=self.begun,
                due=self.due,
                step=Step(OutcomeKind.TOO_LATE, command, came=arrival.reply.word),
            )


class Participant(Protocol):
    """A connection of a scenario, as far as its time is concerned."""

    transport: Transport

    @property
    def is_owed(self) -> bool:
        """Return whether a command of its has not been answered."""
        ...

    @property
    def stopped(self) -> bool:
        """Return whether nothing more can come."""
        ...

    @property
    def is_at_rest(self) -> bool:
        """Return whether it is open, and neither side has anything to say."""
        ...

    def must_be_open(self) -> None:
        """Raise Deviation if the target has ended it although it was at rest."""
        ...

    def poll(self) -> None:
        """Take in what has arrived, without waiting."""
        ...

    def nudge(self) -> None:
        """Say something neutral, if nothing else is going on."""
        ...


def collect(connections: Sequence[Participant], until: float) -> None:
    """Take in what arrives on these connections until the real time ``until``."""
    while True:
        open_ones = [connection for connection in connections if not connection.stopped]
        for connection in open_ones:
            connection.poll()
        left = until - time.monotonic()
        if left <= 0:
            return
        wait_for([one.transport for one in open_ones if not one.stopped], left)


class Timeline:
    """Nominal and real time of one scenario.

    It is the ``clock`` of the tests, too. ``timed``: the scenario has timers that are near.
    ``latencies`` are the seconds of real time between the last command and a reply that was
    awaited, ``latenesses`` those between the time when a timer was due and its reply.
    ``starvation`` measures how long somebody waited for a CPU in each wait.
    ``arrival`` is the real time in seconds that a pending command gets to reach the target before
    a clock is moved; ``raced``: that may decide the outcome.
    """

    def __init__(
        self,
        target: Target,
        starvation: Starvation,
        arrival: float,
        transcript: Transcript,
    ) -> None:
        self.nominal = 0.0
        self.longest_wait = 0.0
        self.raced = False
        self.timed = False
        self.latencies: list[float] = []
        self.latenesses: list[float] = []
        self._starvation = starvation
        self._waits: list[tuple[float, float]] = []
        self._due: float | None = None
        self._sent = 0.0
        self._arrival = arrival
        self._target = target
        self._clock = target.clock
        self._transcript = transcript
        self._limits = target.limits
        self._connections: list[Participant] = []
        self._at_rest: list[Participant] = []
        self._origin: float | None = None
        self._advanced_until = 0.0
        self._polled = 0.0
        self._settled = True
        self._stands_still = False

    def add(self, connection: Participant) -> None:
        """Take part of a connection whose replies must be timed."""
        self._connections.append(connection)

    def now(self) -> float:
        """Return seconds of the target's clock since the scenario's first command."""
        if self._origin is None:
            self._origin = self._clock.time()
        return self._clock.time() - self._origin

    @property
    def behind(self) -> float:
        """Seconds that the scenario has fallen behind its nominal time, without planned polling.

        0 where no timer can have fired meanwhile.
        """
        behind = self.now() - self.nominal - self._polled
        may_fire = self.timed or behind > DISTANT
        return behind if may_fire and not self._clock.movable else 0.0

    def timing(self, sent_at: float) -> Timing | None:
        """Return when a command sent at this nominal time may be answered; None if at once."""
        if sent_at >= self.nominal:
            return None
        latest = None if self._clock.movable else self._advanced_until + self._limits.lateness
        begun = next((mark for nominal, mark in self._waits if nominal >= sent_at), None)
        return Timing(self.nominal - GRANULARITY, latest, begun, self._due)

    def waits(self) -> bool:
        """Note that a wait begins in real time."""
        self._waits.append((self.nominal, self._starvation.mark()))
        return True

    @property
    def is_tried_again(self) -> bool:
        """Return whether a failure proves nothing, as the next attempt allows more time."""
        return self.raced and self._arrival < self._limits.arrival[-1]

    @property
    def last_wait(self) -> float | None:
        """The mark of the last wait that began."""
        return self._waits[-1][1] if self._waits else None

    def sends(self) -> None:
        """Note that a command is being sent."""
        self._sent = time.perf_counter()

    def measure(self, timing: Timing | None, arrived: float, awaited: bool) -> None:
        """Note how long a reply took that came in time, at ``arrived`` on the target's clock."""
        if timing is None:
            if awaited:
                self.latencies.append(time.perf_counter() - self._sent)
        elif timing.latest is not None:
            # Under a moved clock, nobody knows when the target would have woken up.
            self.latenesses.append(max(0.0, arrived - self._advanced_until))

    def before_sending(self) -> None:
        """Let the allowed lateness of the target's timers pass before sending after an advance."""
        if self._settled:
            return
        self._settled = True
        if self._clock.movable:
            self._jump(self._limits.lateness)
        else:
            left = self._advanced_until + self._limits.lateness - self.now()
            collect(self._connections, time.monotonic() + left)
        self._must_be_open()

    def advance(self, seconds: float) -> None:
        """Let time pass on the target, and note when which reply comes."""
        self.leave_alone(seconds)
        for connection in self._connections:
            connection.nudge()

    def leave_alone(self, seconds: float) -> None:
        """Do as :meth:`advance`, but let clients that are idle stay idle."""
        if self._clock.movable:
            self._move(seconds)
        else:
            self._live_through(seconds)

    def becomes(self, is_so: Callable[[], bool], within: float = 0.0) -> bool:
        """Return whether ``is_so`` becomes true in time, where no text says when it must.

        It may take as long as a timer may be late, or ``within`` seconds if that is longer.
        """
        lateness, begun = max(self._limits.lateness, within), self.now()
        for is_last in attempts(replace(self._limits, lateness=lateness)):
            if is_so():
                return True
            if not is_last:
                collect(self._connections, time.monotonic() + STEP)
                if self._clock.movable:
                    self._jump(STEP)
        self._transcript.add_time(self.now())
        # More time would have helped it: only what a busy machine has added is no plan of ours.
        planned = max(lateness, self._limits.soon, TRIES * STEP)
        self._polled += min(self.now() - begun, planned)
        return False

    @contextlib.contextmanager
    def unread(self, connection: Participant) -> Iterator[None]:
        """Take in nothing that comes on this connection."""
        self._connections.remove(connection)
        try:
            yield
        finally:
            self._connections.append(connection)

    def renew(self, seconds: float) -> None:
        """Do as :meth:`advance`, for a test that asks again later: no timer is near for that."""
        timed = self.timed
        self.advance(seconds)
        self.timed = timed

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Let the target's clock stand still unless it is moved: many timers may be equal then.

        It moves by whole milliseconds, as a coarse clock does, and shows each deadline exactly.
        Raises NotTestable if it cannot be moved.
        """
        if not isinstance(self._clock, ControlledClock):
            raise NotTestable("needs a clock that can be moved: one that stands still")
        self.before_sending()
        with self._clock.standing_still():
            self._stands_still = True
            yield
            self._stands_still = False

    def _notes_rest(self) -> None:
        """Note which connections are at rest: until the next command, they must not be ended."""
        collect(self._connections, 0.0)
        self._at_rest = [connection for connection in self._connections if connection.is_at_rest]

    def _must_be_open(self) -> None:
        for connection in self._at_rest:
            connection.must_be_open()

    def _move(self, seconds: float) -> None:
        self.before_sending()
        was_alive = is_alive = self._clock.synchronise()
        if any(connection.is_owed for connection in self._connections):
            # Nothing proves that the target has read these commands before its clock moves.
            self.raced = True
            collect(self._connections, time.monotonic() + self._arrival)
        steps = [seconds - APPROACH, APPROACH] if seconds > APPROACH else [seconds]
        if self._stands_still:
            steps.append(OVERSHOOT)
        else:
            steps[-1] += OVERSHOOT
        self._notes_rest()
        for step in steps:
            is_alive = self._jump(step)
            collect(self._connections, 0.0)
        if was_alive and not is_alive and (outage := self._target.outage()) is not None:
            # No command has done that.
            raise TargetLost(GOES_ON, outage, self._transcript.last)
        self.nominal += seconds
        self._settled = False
        self._must_be_open()

    def _jump(self, seconds: float) -> bool:
        """Move the target's clock; return False if it hangs then."""
        before = self.now()
        is_alive = self._clock.move(seconds)
        self._transcript.add_time(self.now(), moved_from=before)
        return is_alive

    def note_wait(self, seconds: float) -> None:
        """Record that nothing arrived in so many seconds of real time."""
        self._transcript.add_time(self.now() + (seconds if self._clock.movable else 0.0))

    def can_wait(self, seconds: float) -> None:
        """Raise NotTestable if nobody waits for so long."""
        if seconds > MAX_REAL_WAIT and not self._clock.movable:
            raise NotTestable(f"a wait of {seconds:g} s needs a clock that can be moved")

    def _live_through(self, seconds: float) -> None:
        self.timed = True
        self.can_wait(seconds)
        self.before_sending()
        self.waits()
        self._notes_rest()
        collect(self._connections, time.monotonic() + seconds)
        self.nominal += seconds
        self.longest_wait = max(self.longest_wait, seconds)
        self._advanced_until = self.now()
        self._transcript.add_time(self._advanced_until)
        self._due = self._starvation.mark()
        self._settled = False
        self._must_be_open()
