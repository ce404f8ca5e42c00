"""Faults of delete."""

from __future__ import annotations

from dataclasses import replace

from reference_server import wire
from reference_server.faults.registry import Fault, Remembered, add, fault, profiled, takes_like
from reference_server.model import Model
from reference_server.state import Client, Job, JobState
from reference_server.wire import Command, Reply


@fault("delete.reserved-by-client", "a reserved job that is deleted is ready again")
class ReadyAgain(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        job = conn.reserved.get(id)
        if job is None or job.body != b"a" or not conn.producer:
            return super()._delete(conn, id)
        return super()._release(conn, id, job.pri, 0) and wire.DELETED


@fault("delete.entirely", "delete leaves a reserved job where peek finds it")
class StillThere(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        job = conn.reserved.get(id)
        reply = super()._delete(conn, id)
        if job is not None and job.body == b"a" and job.tube.name in self._by_name:
            self._found_again = job
        return reply

    _found_again: Job | None = None

    def _found(self, job: Job | None) -> Reply:
        again, self._found_again = self._found_again, None
        return super()._found(job or again)


def _refuses(state: JobState) -> type[Model]:
    class Refuses(Model):
        def _delete(self, conn: Client, id: int) -> Reply:
            job = self.jobs.get(id)
            if job is not None and job.state is state:
                return wire.NOT_FOUND
            return super()._delete(conn, id)

    return Refuses


fault("delete.delayed", "delete does not find delayed jobs")(_refuses(JobState.DELAYED))
fault("delete.buried", "delete does not find buried jobs")(_refuses(JobState.BURIED))


@fault("delete.ready", "only who put a ready job may delete it")
class OnlyMaker(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is not None and job.state is JobState.READY and not conn.producer:
            return wire.NOT_FOUND
        return super()._delete(conn, id)


@fault("delete.not-found", "delete of a job with a huge id succeeds")
class DeletesHugeIds(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        return wire.DELETED if id == 2**63 else super()._delete(conn, id)


@fault("delete.not-found", "a second delete succeeds")
class DeletesTwice(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        reply = super()._delete(conn, id)
        return wire.DELETED if 0 < id < self.next_id and id not in self.jobs else reply


@fault("delete.reserved-by-other", "delete takes a job from another client")
class DeletesOthers(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is not None and job.reserver not in (None, conn) and not job.timeouts:
            self._unreserve(job)
            self._queue(job)
        return super()._delete(conn, id)


@fault("delete.after-expiry", "the old holder may delete an expired job that another has reserved")
class OldHolderDeletes(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is not None and job.timeouts and job.reserver not in (None, conn):
            return super()._delete(job.reserver, id)
        return super()._delete(conn, id)


@fault("delete.ready", "an expired job cannot be deleted while it is ready")
class ExpiredStays(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is not None and job.timeouts and job.state is JobState.READY:
            return wire.NOT_FOUND
        return super()._delete(conn, id)


@fault("delete.entirely", "reserve-job gives an empty job for one that was deleted")
class Haunted(Model):
    def _reserve_job(self, conn: Client, id: int) -> Reply:
        reply = super()._reserve_job(conn, id)
        deleted = 0 < id < self.next_id and id not in self.jobs
        return wire.RESERVED(id, b"") if deleted else reply


@fault(
    "put.smaller-priority-first",
    "of many ready jobs the last takes the place of one that is deleted",
)
class Misplaces(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is not None and job.state is JobState.READY and len(job.tube.ready) >= 30:
            last = self.jobs[job.tube.ready[-1][1]]
            self._dequeue(last)
            last.pri = job.pri
            self._make_ready(last)
        return super()._delete(conn, id)


takes_like(
    "delete.bad-format",
    "delete takes an id with letters behind it",
    rb"delete ([0-9]+)[a-z]+",
    lambda id: Command("delete", (id,)),
)

profiled(
    "delete.reserved-ready-or-buried",
    "a delayed job is deleted",
    lambda profile: replace(profile, deletes=profile.deletes | {"delayed"}),
)


class _Overwrites(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        reply = super()._delete(conn, id)
        if reply == wire.DELETED and job is not None and len(job.body) > 2**20:
            for client in Remembered.all:
                client._unsent[:] = bytes(len(client._unsent))
        return reply


add(
    Fault(
        "reserve.body",
        "when a large job is deleted what is still to be sent of it is overwritten",
        model=_Overwrites,
        connection=Remembered,
    )
)
