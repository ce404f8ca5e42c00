"""Faults of release, bury and touch, and of the order in which clients get jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reference_server import wire
from reference_server.commands import U32, U64
from reference_server.faults.registry import asked, fault, takes_like
from reference_server.model import Model
from reference_server.state import SECOND, Client, Job, JobState
from reference_server.wire import Command, Reply


@fault("release.released", "a job released into a tube that no client refers to is lost")
class LostWithItsTube(Model):
    def _release(self, conn: Client, id: int, pri: int, delay: int) -> Reply:
        job = self._held(conn, id)
        is_lost = job is not None and job.tube.refs == job.tube.reserved
        reply = super()._release(conn, id, pri, delay)
        if is_lost:
            self._delete(conn, id)
        return reply


@fault("release.released", "a released job is given back only to the client that released it")
class StaysMine(Model):
    _owner: Client | None = None

    def _release(self, conn: Client, id: int, pri: int, delay: int) -> Reply:
        self._owner = conn
        return super()._release(conn, id, pri, delay)

    def _next_ready(self, conn: Client) -> Job | None:
        job = super()._next_ready(conn)
        mine = job is None or not job.releases or self._owner is conn
        return job if mine else None


@fault("release.new-priority", "release keeps the priority")
class ReleaseKeeps(Model):
    def _release(self, conn: Client, id: int, pri: int, delay: int) -> Reply:
        job = self._held(conn, id)
        return super()._release(conn, id, job.pri if job else pri, delay)


@fault("release.new-priority", "stats-job shows a new priority that does not count")
class ReleaseOrdersOld(Model):
    def _release(self, conn: Client, id: int, pri: int, delay: int) -> Reply:
        job = self._held(conn, id)
        old = job.pri if job else pri
        reply = super()._release(conn, id, pri, delay)
        if job is not None and job.state is JobState.READY and pri != old:
            job.tube.ready.remove((job.pri, job.id))
            job.tube.ready.add((old, job.id))
            self._old = (old, job.id)
        return reply

    _old: tuple[int, int] | None = None

    def _dequeue(self, job: Job) -> None:
        if self._old and self._old[1] == job.id and self._old in job.tube.ready:
            job.tube.ready.remove(self._old)
            job.tube.ready.add((job.pri, job.id))
        super()._dequeue(job)


asked(
    "release.delay",
    "release ignores a long delay",
    "release",
    lambda id, pri, delay: Command("release", (id, pri, 0 if delay == 3600 else delay)),
)
asked(
    "release.ready-after-delay",
    "release adds a second to its delay",
    "release",
    lambda id, pri, delay: Command("release", (id, pri, delay and delay + 1)),
)


def _claims(verb: str, *, expired: bool) -> type[Model]:
    """Let a client change a job that it does not hold, or not any more."""

    class Claims(Model):
        def _held(self, conn: Client, id: int) -> Job | None:
            job = self.jobs.get(id)
            if job is None or id in conn.reserved or self._verb != verb:
                return super()._held(conn, id)
            if bool(job.timeouts) is expired and job.state is JobState.READY and not job.releases:
                self._dequeue(job)
                self._give(job, conn)
            return super()._held(conn, id)

        _verb = ""

        def _command(self, conn: Client, command: Command) -> None:
            self._verb = command.verb
            super()._command(conn, command)

    return Claims


for _verb in ("release", "bury", "touch"):
    fault(f"{_verb}.after-expiry", f"the old holder may {_verb} an expired job")(
        _claims(_verb, expired=True)
    )
    fault(f"{_verb}.not-found", f"{_verb} finds a ready job")(_claims(_verb, expired=False))
    asked(
        f"{_verb}.not-found",
        f"{_verb} of a job with a huge id is not well-formed",
        _verb,
        lambda *arguments, verb=_verb: (
            wire.Malformed(wire.BAD_FORMAT)
            if arguments[0] == 2**64 - 1
            else Command(verb, arguments)
        ),
    )

takes_like(
    "release.bad-format",
    "release takes a delay of 33 bits",
    rb"release ([0-9]+) ([0-9]+) ([0-9]+)",
    lambda id, pri, delay: Command("release", (id, pri, 0)) if delay > U32 >= pri else None,
)
takes_like(
    "bury.bad-format",
    "bury takes a priority of 33 bits",
    rb"bury ([0-9]+) ([0-9]+)",
    lambda id, pri: Command("bury", (id, 0)) if pri > U32 else None,
)
takes_like(
    "touch.bad-format",
    "touch takes an id of 65 bits",
    rb"touch ([0-9]+)",
    lambda id: Command("touch", (id & U64,)) if id > U64 else None,
)


@fault("bury.buried", "bury makes a job delayed for a year")
class BuryDelays(Model):
    def _bury(self, conn: Client, id: int, pri: int) -> Reply:
        job = self._held(conn, id)
        if job is None or job.pri or pri or job.releases:
            return super()._bury(conn, id, pri)
        self._release(conn, id, pri, 31_536_000)
        return wire.BURIED


@fault("bury.untouched-until-kick", "a buried job is given to a client that has nothing else")
class GivesBuried(Model):
    def _next_ready(self, conn: Client) -> Job | None:
        job = super()._next_ready(conn)
        if job is None:
            buried = [j for tube in conn.watch for j in tube.buried.values() if j.reserves == 1]
            job = buried[0] if buried and not conn.reserved else None
        return job


@fault("bury.fifo", "buried jobs are kept by id")
class ById(Model):
    def _bury(self, conn: Client, id: int, pri: int) -> Reply:
        reply = super()._bury(conn, id, pri)
        if reply == wire.BURIED and len(self.jobs[id].tube.buried) >= 20:
            for other in sorted(self.jobs[id].tube.buried):
                self.jobs[id].tube.buried.move_to_end(other)
        return reply


@fault("bury.new-priority", "bury keeps the priority")
class BuryKeeps(Model):
    def _bury(self, conn: Client, id: int, pri: int) -> Reply:
        job = self._held(conn, id)
        return super()._bury(conn, id, job.pri if job else pri)


@fault("touch.touched", "touch lets the job go")
class TouchReleases(Model):
    def _touch(self, conn: Client, id: int) -> Reply:
        reply = super()._touch(conn, id)
        job = conn.reserved.get(id)
        if job is not None and job.ttr == 60:
            self._unreserve(job)
            self._make_ready(job)
        return reply


@fault("touch.postpones-expiry", "touch gives one second")
class TouchGivesOne(Model):
    def _touch(self, conn: Client, id: int) -> Reply:
        job = self._held(conn, id)
        now = self.now
        if job is not None and job.ttr == 2:
            self.now -= SECOND
        reply = super()._touch(conn, id)
        self.now = now
        return reply


@fault("touch.postpones-expiry", "touch postpones all jobs of the client")
class TouchesAll(Model):
    def _touch(self, conn: Client, id: int) -> Reply:
        reply = super()._touch(conn, id)
        if reply == wire.TOUCHED:
            for job in conn.reserved.values():
                self._clear_deadline(job, conn)
                self._set_deadline(job, conn)
        return reply


@fault("touch.ends-margin", "a touched job stays in the margin")
class TouchKeepsMargin(Model):
    _touched = 0

    def _touch(self, conn: Client, id: int) -> Reply:
        reply = super()._touch(conn, id)
        self._touched = conn.id if reply == wire.TOUCHED else 0
        return reply

    def _reserve(self, conn: Client, timeout: int | None) -> Reply | None:
        reply = super()._reserve(conn, timeout)
        mine = self._touched == conn.id and bool(conn.reserved)
        return wire.DEADLINE_SOON if reply == wire.TIMED_OUT and mine else reply


asked(
    "release.priority-limit",
    "release cuts priorities to 31 bits",
    "release",
    lambda id, pri, delay: Command("release", (id, pri & 2**31 - 1, delay)),
)
asked(
    "release.delay-limit",
    "release cuts delays to 31 bits",
    "release",
    lambda id, pri, delay: Command("release", (id, pri, min(delay, 2**31 - 1))),
)
asked(
    "bury.priority-limit",
    "bury cuts priorities to 31 bits",
    "bury",
    lambda id, pri: Command("bury", (id, pri & 2**31 - 1)),
)


def _goes_to_the_end(requirement: str, summary: str, count: Callable[[Job], int]) -> None:
    """Register a fault: within a priority, jobs with a larger ``count`` come later."""

    class ToTheEnd(Model):
        def _next_ready(self, conn: Client) -> Job | None:
            job = super()._next_ready(conn)
            if job is None:
                return None
            same = [self.jobs[id] for pri, id in job.tube.ready if pri == job.pri]
            return min(same, key=lambda job: (count(job), job.id))

    fault(requirement, summary)(ToTheEnd)


_goes_to_the_end(
    "reserve.expiry-keeps-place",
    "an expired job goes to the end of its priority",
    lambda job: job.timeouts,
)
_goes_to_the_end("release.keeps-place", "a released job goes to the end", lambda job: job.releases)
_goes_to_the_end("kick.keeps-place", "a kicked job goes to the end", lambda job: job.kicks)
_goes_to_the_end(
    "lifecycle.close-keeps-place",
    "a job of a client that has left goes to the end",
    lambda job: job.reserves - job.releases - job.buries - job.timeouts,
)


@fault("reserve.several-jobs-on-a-connection", "of many reserved jobs only the first is found")
class FindsFirst(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        held = list(conn.reserved)
        if len(held) > 15 and id in held[1:]:
            return wire.NOT_FOUND
        return super()._delete(conn, id)


@fault("reserve.second-reserve-waits", "a second reserve does not wait")
class WaitsOnce(Model):
    def _reserve(self, conn: Client, timeout: int | None) -> Reply | None:
        held = next(iter(conn.reserved.values()), None)
        if timeout is None and held is not None and held.ttr == 60 and not self._next_ready(conn):
            return wire.TIMED_OUT
        return super()._reserve(conn, timeout)


@fault("reserve.ready-job-in-margin-is-given", "in the margin no ready job is given")
class WarnsFirst(Model):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.choose = lambda options: options["RESERVED" in options]


@fault("reserve-job.any-tube", "reserve-job takes jobs of watched tubes only")
class WatchedById(Model):
    def _reserve_job(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is not None and job.tube not in conn.watch:
            return wire.NOT_FOUND
        return super()._reserve_job(conn, id)


@fault("lifecycle.commands-by-state", "a buried job that is reserved by its id stays buried, too")
class InTwoPlaces(Model):
    def _reserve_job(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        buried = job is not None and job.state is JobState.BURIED
        reply = super()._reserve_job(conn, id)
        self._haunting = job if buried else None
        return reply

    def _stats_job(self, conn: Client, id: int) -> Reply:
        reply = super()._stats_job(conn, id)
        if self._haunting is not None and self._haunting.id == id and reply.body is not None:
            return wire.OK(reply.body.replace(b"state: reserved", b"state: buried"))
        return reply

    _haunting: Job | None = None
