"""Faults that show only beside many clients, tubes or jobs, with large bodies, or in drain mode."""

from __future__ import annotations

from collections.abc import Mapping

from reference_server.events import Event
from reference_server.faults.registry import FAULTS, fault
from reference_server.model import Model
from reference_server.state import Alarm, Client, Job, Timer
from reference_server.wire import TOUCHED, Body, Malformed, Reply

_BEFORE = len(FAULTS)


@fault("put.smaller-priority-first", "a server with ten clients gives the oldest job first")
class ManyClients(Model):
    def _next_ready(self, conn: Client) -> Job | None:
        job = super()._next_ready(conn)
        if job is None or len(self.connections) < 10:
            return job
        return self.jobs[min(id for _, id in job.tube.ready)]


@fault("bury.fifo", "with ten tubes, the job that was buried last is kicked first")
class ManyTubes(Model):
    def _make_buried(self, job: Job) -> None:
        super()._make_buried(job)
        if len(self.tubes) >= 10:
            job.tube.buried.move_to_end(job.id, last=False)


@fault("reserve.waits-for-job", "beside ten clients that wait, the next one is not served")
class ManyWait(Model):
    def _make_ready(self, job: Job) -> None:
        if sum(client.waiting for client in self.connections.values()) < 10:
            super()._make_ready(job)
        else:
            self._queue(job)


@fault("release.ready-after-delay", "who holds ten jobs releases them without their delay")
class ManyHeld(Model):
    def _release(self, conn: Client, id: int, pri: int, delay: int) -> Reply:
        return super()._release(conn, id, pri, 0 if len(conn.reserved) >= 10 else delay)


@fault("reserve.deadline-soon-in-margin", "who watches ten tubes is not warned")
class ManyWatched(Model):
    def _safe_until(self, conn: Client) -> int | None:
        return super()._safe_until(conn) if len(conn.watch) < 10 else None


@fault("touch.postpones-expiry", "touch does nothing for a job of more than 60,000 bytes")
class LargeBody(Model):
    def _touch(self, conn: Client, id: int) -> Reply:
        job = self._held(conn, id)
        return TOUCHED if job and len(job.body) > 60_000 else super()._touch(conn, id)


@fault("touch.postpones-expiry", "touch does nothing for a job whose producer has left")
class ProducerHasLeft(Model):
    _producers: Mapping[int, int] = {}

    def _end_put(self, conn: Client, body: Body) -> None:
        if conn.incoming is not None:
            self._producers = {**self._producers, conn.incoming.id: conn.id}
        super()._end_put(conn, body)

    def _touch(self, conn: Client, id: int) -> Reply:
        is_there = self._producers.get(id) in self.connections
        return super()._touch(conn, id) if is_there or not self._held(conn, id) else TOUCHED


@fault("touch.postpones-expiry", "touch does nothing for a job whose tube nobody uses")
class NobodyUsesTheTube(Model):
    def _touch(self, conn: Client, id: int) -> Reply:
        job = self._held(conn, id)
        return TOUCHED if job and not job.tube.using else super()._touch(conn, id)


@fault("bury.fifo", "who has sent a malformed line buries jobs in front")
class HasErred(Model):
    _erring: frozenset[int] = frozenset()

    def _handle(self, event: Event, conn: int) -> None:
        if isinstance(event, Malformed):
            self._erring |= {conn}
        super()._handle(event, conn)

    def _bury(self, conn: Client, id: int, pri: int) -> Reply:
        job, reply = self._held(conn, id), super()._bury(conn, id, pri)
        if job is not None and conn.id in self._erring:
            job.tube.buried.move_to_end(id, last=False)
        return reply


@fault("put.ttr-expiry-releases", "in drain mode, a TTR begins again when it is over")
class DrainingKeepsJobs(Model):
    def _fire(self, alarm: Alarm) -> None:
        _, kind, subject = alarm
        if kind is Timer.TTR and self.draining:
            job = self.jobs[int(subject)]
            assert job.reserver is not None
            self._touch(job.reserver, job.id)
        else:
            super()._fire(alarm)


BY_CIRCUMSTANCE = tuple(FAULTS)[_BEFORE:]
"""The faults of this module, by name."""
