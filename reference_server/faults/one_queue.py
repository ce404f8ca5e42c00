"""Faults of a server without tubes, as profile 0.6 describes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reference_server import stats, wire
from reference_server.faults.registry import (
    always_says,
    answered,
    fault,
    profiled,
    says,
    takes,
    takes_like,
)
from reference_server.model import Model
from reference_server.state import Client, Job, JobState, Tube
from reference_server.wire import Command, Put, Reply

takes("protocol.no-command-to-close", "quit closes the connection", b"quit", wire.Command("quit"))
answered(
    "put.buried-when-queue-is-full",
    "a job for which there is no room is said to be inserted",
    "put",
    lambda model, _, __, reply: wire.INSERTED(model.next_id - 1) if reply == wire.BURIED else None,
)
answered(
    "release.buried-when-queue-is-full",
    "a job for which there is no room is said to be released",
    "release",
    lambda _, __, ___, reply: wire.RELEASED if reply == wire.BURIED else None,
)
profiled(
    "put.body-below-64-kib",
    "a body of 65535 bytes is too big",
    lambda profile: replace(profile, max_job_size=65534),
)
profiled(
    "put.too-big-at-once",
    "a job that is too big is refused after its body",
    lambda profile: replace(profile, skips_big_bodies=True),
)
profiled(
    "delete.only-reserved-or-buried",
    "a buried job is not deleted",
    lambda profile: replace(profile, deletes=frozenset({"reserved"})),
)
profiled(
    "delete.not-found-if-ready-or-delayed",
    "a job is deleted though it is delayed",
    lambda profile: replace(profile, deletes=profile.deletes | {"delayed"}),
)
takes_like(
    "reserve.next-in-the-queue",
    "a priority of 2000 is taken for 0",
    rb"put 2000 (\d+) (\d+) (\d+)",
    lambda delay, ttr, size: Put(0, delay, ttr, size),
)


def _with_31_bits(_: Model, __: Client, ___: Command, reply: Reply) -> Reply | None:
    """Return the reply with its priority cut to 31 bits."""
    if len(reply.args) < 2:
        return None
    return reply._replace(args=(reply.args[0], int(reply.args[1]) % 2**31))


answered(
    "reserve.reserved-with-priority",
    "reserve tells priorities of 31 bits only",
    "reserve",
    _with_31_bits,
)
answered("peek.found-with-priority", "peek tells priorities of 31 bits only", "peek", _with_31_bits)


class _SaysFirstPriority(Model):
    """A server with a reply that has the priority of put, though it has changed since."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._first: dict[int, int] = {}

    def _told(self, job: Job) -> tuple[int, ...]:
        return (self._first.setdefault(job.id, job.pri),)

    def _enqueue(self, job: Job) -> None:
        self._first.setdefault(job.id, job.pri)
        super()._enqueue(job)


@fault("reserve.told-priority", "reserve tells the priority that put gave")
class _ReserveSaysFirst(_SaysFirstPriority):
    def _found(self, job: Job | None) -> Reply:
        return wire.NOT_FOUND if job is None else wire.FOUND(job.id, job.body, job.pri)


@fault("peek.told-priority", "peek tells the priority that put gave")
class _PeekSaysFirst(_SaysFirstPriority):
    def _give(self, job: Job, conn: Client) -> Reply:
        return super()._give(job, conn)._replace(args=(job.id, job.pri))


@fault("lifecycle.one-queue", "jobs of the clients from the tenth on wait in another queue")
class _TwoQueues(Model):
    def _connect(self, number: int) -> None:
        super()._connect(number)
        if len(self.connections) > 10:
            self._use(self.connections[number], "second")


@fault("put.into-the-queue", "the fiftieth job is not in the queue")
class _LosesFiftieth(Model):
    def _enqueue(self, job: Job) -> None:
        if self.total_jobs == 50 and not job.releases:
            job.tube = Tube(job.tube.name, refs=2)
        super()._enqueue(job)


@fault("peek.without-id-shows-buried", "peek without an id shows the job that was buried last")
class _ShowsLastBuried(Model):
    def _peek_buried(self, conn: Client) -> Reply:
        return self._found(next(reversed(conn.use.buried.values()), None))


@fault("peek.without-id-not-found", "peek without an id shows a delayed job if none is buried")
class _ShowsDelayed(Model):
    def _peek_buried(self, conn: Client) -> Reply:
        return super()._peek_buried(conn) if conn.use.buried else self._peek_delayed(conn)


@fault("kick.all-jobs", "kick leaves the jobs that others have buried")
class _KicksOwn(Model):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._buriers: dict[int, int] = {}

    def _bury(self, conn: Client, id: int, pri: int) -> Reply:
        self._buriers[id] = conn.id
        return super()._bury(conn, id, pri)

    def _kick(self, conn: Client, bound: int) -> Reply:
        if any(self._buriers.get(id) != conn.id for id in conn.use.buried):
            return wire.KICKED_COUNT(0)
        return super()._kick(conn, bound)


@fault("stats.of-a-job-not-found", "stats of a job that is not there is about the system")
class _AboutTheSystem(Model):
    def _stats_job(self, conn: Client, id: int) -> Reply:
        return super()._stats_job(conn, id) if id in self.jobs else self._stats(conn)


@fault("stats.job-state", "a job that was kicked and is reserved is said to be ready")
class _SaysReady(Model):
    def _stats_job(self, conn: Client, id: int) -> Reply:
        reply = super()._stats_job(conn, id)
        job = self.jobs.get(id)
        if job is None or job.state is not JobState.RESERVED or not job.kicks:
            return reply
        return wire.OK(stats.job(self, job).replace(b"state: reserved", b"state: ready"))


says(
    "stats.of-a-job",
    "stats of a job tells of the queue, too",
    "stats",
    "^kicks: ",
    "current-jobs-ready: 0\nkicks: ",
)
says("stats.of-the-system", "stats tells of a job, too", "stats", "^pid: ", "state: ready\npid: ")
says("stats.job-id", "stats tells the last digit of an id", "stats", r"^id: \d*(\d)$", r"id: \1")
always_says(
    "stats.limit-max-jobs-ready",
    "the ready queue is said to hold nothing",
    "stats",
    "limit-max-jobs-ready",
    "0",
)
for _slug, _key in (
    *(("age", "age"), ("time-left", "time-left"), ("timeouts-of-one", "timeouts")),
    *(("releases", "releases"), ("buries", "buries"), ("kicks", "kicks")),
):
    always_says(f"stats.job-{_slug}", f"stats of a job tells {_key} 0", "stats", _key, "0")
