"""What a client gets that asks for a job: one at once, or, if there is none, something later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sortedcontainers import SortedList

from reference_server import wire
from reference_server.events import Hangup, Output
from reference_server.profiles import Profile
from reference_server.state import SECOND, Alarm, Connection, Job, Timer
from reference_server.wire import Reply

SAFETY_MARGIN = SECOND
"""The last second of a TTR, in which a client is not made to wait for another job."""


class Waiting:
    """The part of the model that lets clients reserve jobs, and wait for them."""

    now: int
    profile: Profile
    choose: Callable[[Sequence[Any]], Any]
    _outputs: list[Output]
    _timers: SortedList[Alarm]
    _next_ready: Callable[[Connection], Job | None]
    _dequeue: Callable[[Job], None]
    _give: Callable[[Job, Connection], Reply]

    def _reserve_without_timeout(self, conn: Connection) -> Reply | None:
        return self._reserve(conn, None)

    def _reserve(self, conn: Connection, timeout: int | None) -> Reply | None:
        """Answers a reserve, or makes the client wait; ``timeout`` is in seconds, None for ever."""
        conn.worker = True
        job = self._next_ready(conn)
        safe_until = self._safe_until(conn)
        soon = safe_until is not None and self.now >= safe_until
        if job and (not soon or self.choose(("RESERVED", "DEADLINE_SOON")) == "RESERVED"):
            self._dequeue(job)
            job.tube.waiting.passed_by()
            return self._give(job, conn)
        if soon:
            return wire.DEADLINE_SOON
        if timeout == 0 or conn.half_closed:
            return self._give_up(conn)
        conn.waiting = True
        for tube in conn.watch:
            tube.waiting.add(conn)
        conn.timeout_at = None if timeout is None else self.now + timeout * SECOND
        self._set_wake_up(conn)
        return None

    def _give_up(self, conn: Connection) -> Reply | None:
        """What a client gets that cannot wait any more: an answer, or the end."""
        if self.profile.has_timeouts:
            return wire.TIMED_OUT
        self._outputs.append((conn.id, Hangup()))
        return None

    def _safe_until(self, conn: Connection) -> int | None:
        """When a client is not made to wait any more; None if it may be for ever."""
        if not (self.profile.deadline_soon and conn.deadlines):
            return None
        return conn.deadlines[0][0] - SAFETY_MARGIN

    def _set_wake_up(self, conn: Connection) -> None:
        due = [at for at in (conn.timeout_at, self._safe_until(conn)) if at is not None]
        if due:
            conn.wakes_at = min(due)
            self._timers.add((conn.wakes_at, Timer.WAIT, conn.id))

    def _stop_waiting(self, conn: Connection) -> None:
        conn.waiting = False
        for tube in conn.watch:
            tube.waiting.remove(conn)
        if conn.wakes_at is not None:
            self._timers.remove((conn.wakes_at, Timer.WAIT, conn.id))
            conn.wakes_at = conn.timeout_at = None

    def _wake_up(self, conn: Connection) -> None:
        safe_until = self._safe_until(conn)
        soon = safe_until is not None and safe_until <= self.now
        self._stop_waiting(conn)
        self._outputs.append((conn.id, wire.DEADLINE_SOON if soon else wire.TIMED_OUT))
