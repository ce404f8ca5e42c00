"""Servers whose timers, and whose idea of now, are other than beanstalkd's."""

from __future__ import annotations

import re
from random import Random
from typing import Any

from reference_server import wire
from reference_server.model import Model
from reference_server.state import SECOND, Alarm, Client, JobState, Timer, Tube
from reference_server.wire import Reply
from tests.variants.variant import Variant, non_strict

MILLISECOND = SECOND // 1000
_MANY = 100
"""Timers that a server remembers though they were taken away."""


def _ticks(length: int) -> type[Model]:
    """Return a server that looks at its timers only at each tick of so many nanoseconds."""

    class Ticks(Model):
        def _fire_timers(self, now: int) -> None:
            super()._fire_timers(now // length * length)

        @property
        def next_due(self) -> int | None:
            due = super().next_due
            return None if due is None else -(-due // length) * length

    return Ticks


def _late(lateness: int) -> type[Model]:
    """Return a server whose timers fire so many nanoseconds late."""

    class Late(Model):
        def _fire_timers(self, now: int) -> None:
            super()._fire_timers(now - lateness)

        @property
        def next_due(self) -> int | None:
            due = super().next_due
            return None if due is None else due + lateness

    return Late


def late_at_random(most: int, but: frozenset[Timer] = frozenset()) -> type[Model]:
    """Return a server each timer of which fires up to so many nanoseconds late, ``but`` of these.

    It acts on a timer at the time that its clock then shows: a TTR that begins then is not cut
    short. Timers that fall due almost together may fire in either order.
    """

    class LateAtRandom(Model):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._chance = Random(7)
            self._lateness: dict[Alarm, int] = {}

        def _fires_at(self, alarm: Alarm) -> int:
            if alarm[1] in but:
                return alarm[0]
            return alarm[0] + self._lateness.setdefault(alarm, self._chance.randrange(most))

        def _fire_timers(self, now: int) -> None:
            if len(self._lateness) > 2 * len(self._timers) + _MANY:
                # Timers that were taken away are forgotten, or they would be a leak.
                self._lateness = {alarm: self._fires_at(alarm) - alarm[0] for alarm in self._timers}
            while due := [alarm for alarm in self._timers if self._fires_at(alarm) <= now]:
                alarm = min(due, key=self._fires_at)
                self.now = max(self.now, now)
                self._lateness.pop(alarm, None)
                self._fire(alarm)

        @property
        def next_due(self) -> int | None:
            return min(map(self._fires_at, self._timers), default=None)

    return LateAtRandom


def _keeps_statistics(span: int) -> type[Model]:
    """Return a server that makes its stats anew only so often."""

    class KeepsStatistics(Model):
        _kept: tuple[int, Reply] | None = None

        def _stats(self, conn: Client) -> Reply:
            if self._kept is None or self.now - self._kept[0] >= span:
                self._kept = self.now, super()._stats(conn)
            return self._kept[1]

    return KeepsStatistics


class _RoundsUp(Model):
    """Times left are rounded up, and ages to the nearest second."""

    def _stats_job(self, conn: Client, id: int) -> Reply:
        reply, job = super()._stats_job(conn, id), self.jobs.get(id)
        if job is None or reply.body is None:
            return reply
        body = reply.body
        if job.state in (JobState.RESERVED, JobState.DELAYED):
            left = -((self.now - job.deadline) // SECOND)
            body = re.sub(rb"time-left: .*", b"time-left: %d" % left, body)
        age = (self.now - job.created + SECOND // 2) // SECOND
        return wire.OK(re.sub(rb"\nage: .*", b"\nage: %d" % age, body))


class _TellsOtherTimes(Model):
    """The time left of jobs that are ready is their TTR, that of buried ones -1."""

    def _stats_job(self, conn: Client, id: int) -> Reply:
        reply, job = super()._stats_job(conn, id), self.jobs.get(id)
        if job is None or reply.body is None or job.state not in (JobState.READY, JobState.BURIED):
            return reply
        left = job.ttr if job.state is JobState.READY else -1
        return wire.OK(re.sub(rb"time-left: .*", b"time-left: %d" % left, reply.body))


class _TimedOutFirst(Model):
    """Who waits until both are due is told TIMED_OUT."""

    def _wake_up(self, conn: Client) -> None:
        over = conn.timeout_at is not None and conn.timeout_at <= self.now
        super()._wake_up(conn)
        if over:
            self._outputs[-1] = conn.id, wire.TIMED_OUT


class _PausesForAnInstant(Model):
    """A pause of 0 ends only after 20 milliseconds."""

    def _pause_tube(self, conn: Client, name: str, delay: int) -> Reply:
        reply = super()._pause_tube(conn, name, delay)
        tube = self._by_name.get(name)
        if tube is not None and not delay:
            self._lasts(tube, 20 * MILLISECOND)
        return reply

    def _lasts(self, tube: Tube, span: int) -> None:
        (alarm,) = [a for a in self._timers if a[2] == tube.name]
        self._timers.remove(alarm)
        tube.unpause_at = self.now + span
        self._timers.add((tube.unpause_at, *alarm[1:]))


class _PausesOfZeroNeverBegin(Model):
    """A pause of 0 ends the pause that is on, at once."""

    def _pause_tube(self, conn: Client, name: str, delay: int) -> Reply:
        reply = super()._pause_tube(conn, name, delay)
        tube = self._by_name.get(name)
        if tube is not None and not delay:
            self._unpause(tube)
        return reply


def _timed(summary: str, model: Any, *slugs: str) -> Variant:
    return Variant(summary, model, non_strict=non_strict(*slugs))


_OLD = ("stats.at-once", "stats.malformed-commands-do-not-count")

LATE = _timed("timers late by a tenth of a second", _late(100 * MILLISECOND))


class _RoundsAgesUp(Model):
    """The age of a job is one second as soon as the job is there."""

    def _stats_job(self, conn: Client, id: int) -> Reply:
        reply = super()._stats_job(conn, id)
        if reply.body is None:
            return reply
        age = -((self.jobs[id].created - self.now) // SECOND)
        return wire.OK(re.sub(rb"age: [0-9]+", b"age: %d" % age, reply.body))


class _FiresEqualTimersInReverse(Model):
    """Of timers that are due in the same instant, the last one fires first."""

    def _fire_timers(self, now: int) -> None:
        while self._timers and self._timers[0][0] <= now:
            at = self._timers[0][0]
            self.now = max(self.now, at)
            self._fire(max(alarm for alarm in self._timers if alarm[0] == at))


TIMES = (
    Variant("equal timers fire in reverse", _FiresEqualTimersInReverse),
    _timed("timers fire just after they are due", _late(1)),
    Variant("ages are rounded up", _RoundsAgesUp),
    _timed("a tick of a millisecond", _ticks(MILLISECOND)),
    _timed("a tick of 10 milliseconds", _ticks(10 * MILLISECOND)),
    _timed("a tick of 50 milliseconds", _ticks(50 * MILLISECOND)),
    _timed("a tick of 100 milliseconds", _ticks(100 * MILLISECOND)),
    _timed("timers late by 10 milliseconds", _late(10 * MILLISECOND)),
    LATE,
    _timed("timers late by a fifth of a second", _late(200 * MILLISECOND)),
    _timed("timers late by a random time", late_at_random(80 * MILLISECOND)),
    # Its clock can be moved: a pause of 0 ends without that.
    _timed(
        "timers late by a random time except those of pauses",
        late_at_random(80 * MILLISECOND, frozenset({Timer.PAUSE})),
    ),
    _timed("statistics kept for a tenth of a second", _keeps_statistics(SECOND // 10), *_OLD),
    _timed("statistics kept for a second", _keeps_statistics(SECOND), *_OLD),
    _timed("times rounded up", _RoundsUp),
    _timed("times left of jobs that have none", _TellsOtherTimes),
    _timed(
        "a timeout comes before a deadline", _TimedOutFirst, "reserve.deadline-soon-beats-timeout"
    ),
    _timed("a pause of 0 lasts for 20 milliseconds", _PausesForAnInstant),
    _timed("a pause of 0 is none", _PausesOfZeroNeverBegin),
)
