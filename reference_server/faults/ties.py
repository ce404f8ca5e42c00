"""Faults that show only where several timers are due in the very same instant."""

from __future__ import annotations

from reference_server.faults.registry import fault
from reference_server.faults.worker import PutsOffTtrs
from reference_server.model import Model
from reference_server.state import SECOND, Client, Job, Timer, Tube

_HOUR = 3600 * SECOND


class _FindsEqualTimers(Model):
    def _has_timer(self, at: int, kind: Timer) -> bool:
        """Tell whether a timer of this kind is due in this very instant."""
        return any((due, other) == (at, kind) for due, other, _ in self._timers)


@fault("reserve.equal-timeouts", "of two equal timeouts one is an hour late")
class EqualTimeouts(_FindsEqualTimers):
    def _start_waiting(self, conn: Client, timeout_at: int | None) -> None:
        if timeout_at is not None and self._has_timer(timeout_at, Timer.WAIT):
            timeout_at += _HOUR
        super()._start_waiting(conn, timeout_at)


@fault("reserve.equal-timeouts", "a timeout that ends with a TTR is an hour late")
class TimeoutBesideTtr(_FindsEqualTimers):
    def _start_waiting(self, conn: Client, timeout_at: int | None) -> None:
        if timeout_at is not None and self._has_timer(timeout_at, Timer.TTR):
            timeout_at += _HOUR
        super()._start_waiting(conn, timeout_at)


@fault("put.equal-ttrs", "of two TTRs that end together one is an hour late")
class EqualTtrs(_FindsEqualTimers):
    def _make_reserved(self, job: Job, conn: Client) -> None:
        is_taken = self._has_timer(self.now + job.ttr * SECOND, Timer.TTR)
        super()._make_reserved(job, conn)
        if is_taken:
            self._clear_deadline(job, conn)
            job.deadline += _HOUR
            conn.deadlines.add((job.deadline, job.id))
            self._timers.add((job.deadline, Timer.TTR, job.id))


@fault("put.equal-delays", "of two delays that end together one is an hour late")
class EqualDelays(_FindsEqualTimers):
    def _make_delayed(self, job: Job, deadline: int) -> None:
        later = _HOUR if self._has_timer(deadline, Timer.DELAY) else 0
        super()._make_delayed(job, deadline + later)


@fault("pause-tube.equal-pauses", "of two pauses that end together one is an hour late")
class EqualPauses(_FindsEqualTimers):
    def _pause(self, tube: Tube, length: int, end: int) -> None:
        later = _HOUR if self._has_timer(end, Timer.PAUSE) else 0
        super()._pause(tube, length, end + later)


@fault("reserve.expiry-while-holder-is-idle", "a TTR whose very end the clock shows never ends")
class MissesTheInstant(PutsOffTtrs):
    def _fire_timers(self, now: int) -> None:
        while self._timers and self._timers[0][:2] == (now, Timer.TTR):
            self._put_off(self.jobs[int(self._timers[0][2])], _HOUR)
        super()._fire_timers(now)
