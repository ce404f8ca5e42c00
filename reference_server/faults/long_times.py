"""Faults of long times: products that overflow, and what is forgotten after hours."""

from __future__ import annotations

from typing import Any

from reference_server.events import Event, Hangup, Output
from reference_server.faults.registry import fault, takes_like
from reference_server.model import Model
from reference_server.state import SECOND, Client, Job, Tube
from reference_server.wire import TOUCHED, Command, Reply

_MILLISECOND = SECOND // 1000
_HOUR = 3600 * SECOND
_LONG = 2 * _HOUR


def _wrapped(span: int) -> int:
    """Return a span of nanoseconds that was counted in milliseconds of 32 bits."""
    return span // _MILLISECOND % 2**32 * _MILLISECOND


@fault("reserve.long-timeout", "timeouts are counted in milliseconds of 32 bits")
class ShortTimeouts(Model):
    def _start_waiting(self, conn: Client, timeout_at: int | None) -> None:
        if timeout_at is not None:
            timeout_at = self.now + _wrapped(timeout_at - self.now)
        super()._start_waiting(conn, timeout_at)


takes_like(
    "reserve.longest-timeout",
    "timeouts are counted in nanoseconds of 63 bits",
    rb"reserve-with-timeout (\d{10,19})",
    lambda seconds: Command("reserve-with-timeout", (seconds * SECOND % 2**63 // SECOND,)),
)


@fault("put.long-delay", "delays are counted in milliseconds of 32 bits")
class ShortDelays(Model):
    def _make_delayed(self, job: Job, deadline: int) -> None:
        super()._make_delayed(job, self.now + _wrapped(deadline - self.now))


@fault("put.long-ttr", "TTRs are counted in milliseconds of 32 bits")
class ShortTtrs(Model):
    def _set_deadline(self, job: Job, conn: Client) -> None:
        ttr, job.ttr = job.ttr, _wrapped(job.ttr * SECOND) // SECOND
        super()._set_deadline(job, conn)
        job.ttr = ttr


@fault("pause-tube.long-pause", "pauses are counted in milliseconds of 32 bits")
class ShortPauses(Model):
    def _pause(self, tube: Tube, length: int, end: int) -> None:
        super()._pause(tube, length, self.now + _wrapped(end - self.now))


class _Remembers(Model):
    """A model that remembers when something last happened to a client or a job."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._since: dict[int, int] = {}

    def _is_long_ago(self, number: int) -> bool:
        """Tell whether more than two hours have passed since then."""
        return self.now - self._since.get(number, self.now) > _LONG


@fault("reserve.after-long-wait", "a client that has waited for two hours is not served")
class ForgetsWaiting(_Remembers):
    def _start_waiting(self, conn: Client, timeout_at: int | None) -> None:
        self._since[conn.id] = self.now
        super()._start_waiting(conn, timeout_at)

    def _make_ready(self, job: Job) -> None:
        if any(self._is_long_ago(conn.id) for conn in job.tube.waiting):
            self._queue(job)
        else:
            super()._make_ready(job)


@fault("touch.for-a-long-time", "touch does nothing for a job that is held for two hours")
class ForgetsHolding(_Remembers):
    def _make_reserved(self, job: Job, conn: Client) -> None:
        self._since[job.id] = self.now
        super()._make_reserved(job, conn)

    def _touch(self, conn: Client, id: int) -> Reply:
        return TOUCHED if self._is_long_ago(id) else super()._touch(conn, id)


@fault("protocol.silent-for-a-long-time", "who was silent for two hours is hung up")
class ForgetsSilent(_Remembers):
    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        if isinstance(event, Command):
            before = self._since.get(conn, now)
            self._since[conn] = now
            if now - before > _LONG:
                return [(conn, Hangup())]
        return super().step(event, now, conn)


@fault("pause-tube.ends-after-a-long-time", "a pause of more than two hours ends an hour late")
class LongPauses(Model):
    def _pause(self, tube: Tube, length: int, end: int) -> None:
        later = _HOUR if end - self.now > _LONG else 0
        super()._pause(tube, length, end + later)


@fault("bury.untouched-for-a-long-time", "a job that was buried for two hours is ready")
class DigsOut(_Remembers):
    def _make_buried(self, job: Job) -> None:
        self._since[job.id] = self.now
        super()._make_buried(job)

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        for tube in self.tubes:
            for job in [job for job in tube.buried.values() if self._is_long_ago(job.id)]:
                self._dequeue(job)
                self._make_ready(job)
        return super().step(event, now, conn)
