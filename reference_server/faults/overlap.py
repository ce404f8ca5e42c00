"""Faults that show when many clients are at work at the same time, some of them now and then."""

from __future__ import annotations

from reference_server import wire
from reference_server.faults.registry import fault
from reference_server.model import Model
from reference_server.state import Client, Job, Tube
from reference_server.wire import Command, Put, Reply

SELDOM = 500
"""The number of jobs of which one shows a fault."""


@fault("protocol.any-overlap", "one job in 500 is handed to two clients")
class HandedToTwo(Model):
    _handed = 0

    def _give(self, job: Job, conn: Client) -> Reply:
        self._handed += 1
        if self._handed % SELDOM:
            return super()._give(job, conn)
        self._make_ready(job)
        return wire.RESERVED(job.id, job.body)


@fault("protocol.any-overlap", "the second of two clients that wait is not woken")
class SecondSleeps(Model):
    _asleep: Tube | None = None

    def _serve(self, job: Job) -> None:
        super()._serve(job)
        if len(job.tube.waiting) == 1:
            self._asleep = job.tube

    def _make_ready(self, job: Job) -> None:
        tube, self._asleep = self._asleep, None
        if tube is not job.tube or tube.pause:
            super()._make_ready(job)
            return
        tube.pause = 1
        super()._make_ready(job)
        tube.pause = 0


@fault("protocol.any-overlap", "one put in 500 is acknowledged and dropped")
class Dropped(Model):
    _taken = 0

    def _body(self, conn: Client, data: bytes | None) -> Reply:
        job = conn.incoming
        if job is not None and data is not None:
            self._taken += 1
            if self._taken % SELDOM == 0:
                conn.incoming = None
                self._deref(job.tube)
                return wire.INSERTED(job.id)
        return super()._body(conn, data)


@fault("protocol.any-overlap", "a job goes to a client that waited for it and is gone")
class GivenToTheGone(Model):
    _owed: Tube | None = None

    def _close(self, conn: Client) -> None:
        waited = conn.half_closed and conn.worker and len(conn.watch) == 1
        self._owed = conn.watch.first() if waited else self._owed
        super()._close(conn)

    def _enqueue(self, job: Job) -> None:
        if job.tube is self._owed and not job.delay:
            self._owed = None
            del self.jobs[job.id]
            self._deref(job.tube)
            return
        super()._enqueue(job)


@fault("protocol.any-overlap", "the id of a deleted job is given again to one job in 50")
class IdsReused(Model):
    _last = 0

    def _delete(self, conn: Client, id: int) -> Reply:
        reply = super()._delete(conn, id)
        self._last = id if reply == wire.DELETED else self._last
        return reply

    def _put(self, conn: Client, put: Put) -> None:
        super()._put(conn, put)
        if conn.incoming is not None and self._last and self.total_jobs % 50 == 0:
            conn.incoming.id, self._last = self._last, 0


@fault("peek.body", "the body of a large job is told only when another has asked something")
class LateBody(Model):
    _late: tuple[int, Job] | None = None

    def _command(self, conn: Client, command: Command) -> None:
        super()._command(conn, command)
        if command.verb != "peek":
            return
        _, reply = self._outputs[-1]
        if isinstance(reply, Reply) and reply.body is not None and len(reply.body) == 3000:
            self._outputs.pop()
            self._late = conn.id, self.jobs[int(reply.args[0])]

    def _body(self, conn: Client, data: bytes | None) -> Reply:
        if self._late is not None and data is not None:
            receiver, job = self._late
            self._late = None
            self._outputs.append((receiver, wire.FOUND(job.id, data)))
        return super()._body(conn, data)
