"""Faults of reserve, reserve-with-timeout, reserve-job, watch and ignore."""

from __future__ import annotations

from dataclasses import replace

from reference_server import wire
from reference_server.faults.registry import answered, asked, fault, profiled, takes, takes_like
from reference_server.lifecycle import SAFETY_MARGIN
from reference_server.model import Model
from reference_server.state import SECOND, Client, Job, JobState, Timer, Tube
from reference_server.wire import Command, Reply, Request, RequestReader

answered(
    "reserve.reserved",
    "reserve without timeout loses the body",
    "reserve",
    lambda _, __, ___, reply: reply._replace(body=b"") if reply.body == b"hello" else None,
)


@fault("reserve.reserved", "a reserved job is given to a second client as well")
class TwoHolders(Model):
    def _reserve(self, conn: Client, timeout: int | None) -> Reply | None:
        reply = super()._reserve(conn, timeout)
        if reply == wire.TIMED_OUT and timeout == 0:
            held = [
                job
                for job in self.jobs.values()
                if job.state is JobState.RESERVED and job.tube in conn.watch
                if job.reserver is not conn and job.ttr == 60
            ]
            if held:
                return wire.RESERVED(held[0].id, held[0].body)
        return reply


@fault("reserve.waits-for-job", "a kick wakes nobody")
class KickWakesNobody(Model):
    def _kick_one(self, job: Job) -> None:
        pause, job.tube.pause = job.tube.pause, 1
        super()._kick_one(job)
        job.tube.pause = pause


@fault("reserve.waits-for-job", "of several who wait only the first is woken")
class WakesOne(Model):
    def _serve(self, job: Job) -> None:
        super()._serve(job)
        for conn in list(job.tube.waiting):
            job.tube.waiting.remove(conn)
            job.tube.waiting.add(conn)
            if len(job.tube.waiting) == 4:
                self._stop_waiting(conn)


@fault("reserve.waiting-client-that-leaves", "a job goes down with the waiting client that left")
class Ghost(Model):
    def _half_close(self, conn: Client) -> None:
        if conn.waiting:
            ghost = Client(-1, conn.use, waiting=True)
            for tube in conn.watch:
                ghost.watch.add(tube)
                tube.waiting.add(ghost)
        super()._half_close(conn)


@fault("reserve.smallest-priority", "the first watched tube that has a job is served first")
class FirstTube(Model):
    def _next_ready(self, conn: Client) -> Job | None:
        for tube in conn.watch:
            if tube.ready and not tube.pause:
                return self.jobs[tube.ready[0][1]]
        return None


@fault("reserve.received-first", "within a priority the last job of thirty comes first")
class LastOfThirty(Model):
    def _next_ready(self, conn: Client) -> Job | None:
        job = super()._next_ready(conn)
        if job is not None and len(job.tube.ready) == 30:
            return self.jobs[job.tube.ready[-1][1]]
        return job


asked(
    "reserve.timeout-zero",
    "a timeout of zero waits a second",
    "reserve-with-timeout",
    lambda timeout: Command("reserve-with-timeout", (1 if timeout == 0 else timeout,)),
)


@fault("reserve.half-closed", "a client that half-closes goes on waiting")
class WaitsOn(Model):
    def _half_close(self, conn: Client) -> None:
        conn.half_closed = True


@fault("reserve.deadline-soon-when-asked", "a ttr of one second has no safety margin")
class NoMarginForOne(Model):
    def _reserve(self, conn: Client, timeout: int | None) -> Reply | None:
        reply = super()._reserve(conn, timeout)
        short = any(job.ttr == 1 for job in conn.reserved.values())
        if reply == wire.DEADLINE_SOON and short and timeout == 0:
            return wire.TIMED_OUT
        return reply


@fault("reserve.deadline-soon-in-margin", "inside the margin a timeout of zero is timed out")
class TimedOutInMargin(Model):
    def _reserve(self, conn: Client, timeout: int | None) -> Reply | None:
        reply = super()._reserve(conn, timeout)
        return wire.TIMED_OUT if reply == wire.DEADLINE_SOON and timeout == 0 else reply


@fault("reserve.deadline-soon-in-margin", "a client that deleted its job is still warned")
class WarnsForGood(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        job = conn.reserved.get(id)
        reply = super()._delete(conn, id)
        if job is not None and job.ttr == 2:
            conn.deadlines.add((job.deadline, 0))
        return reply


@fault("reserve.pending-reserve-aborted-by-deadline", "a reserve without timeout is not aborted")
class NotAborted(Model):
    def _set_wake_up(self, conn: Client) -> None:
        if conn.timeout_at is not None:
            super()._set_wake_up(conn)


@fault("reserve.pending-reserve-aborted-by-deadline", "the margin has half a second for who waits")
class HalfMargin(Model):
    def _set_wake_up(self, conn: Client) -> None:
        super()._set_wake_up(conn)
        if conn.wakes_at is not None and conn.wakes_at != conn.timeout_at:
            self._timers.remove((conn.wakes_at, Timer.WAIT, conn.id))
            conn.wakes_at += SECOND // 2
            self._timers.add((conn.wakes_at, Timer.WAIT, conn.id))


@fault("reserve.deadline-soon-leaves-job", "with DEADLINE_SOON the job is taken away")
class TakesAway(Model):
    def _wake_up(self, conn: Client) -> None:
        super()._wake_up(conn)
        for job in list(conn.reserved.values()):
            if job.deadline - SAFETY_MARGIN <= self.now and job.ttr == 2:
                self._unreserve(job)
                self._make_ready(job)


@fault("reserve.ready-job-in-margin", "inside the margin even a ready job times out")
class NothingInMargin(Model):
    def _reserve(self, conn: Client, timeout: int | None) -> Reply | None:
        ready = self._next_ready(conn)
        if ready and conn.deadlines and self.now >= conn.deadlines[0][0] - SAFETY_MARGIN:
            return wire.TIMED_OUT
        return super()._reserve(conn, timeout)


@fault("reserve.deadline-soon-beats-timeout", "a timeout beats the margin")
class TimeoutBeats(Model):
    def _wake_up(self, conn: Client) -> None:
        timeout_at = conn.timeout_at
        super()._wake_up(conn)
        if timeout_at is not None and self.now + SECOND // 100 >= timeout_at:
            self._outputs[-1] = (conn.id, wire.TIMED_OUT)


@fault("reserve.several-jobs-earliest-deadline", "of several jobs the last reserved one counts")
class LastCounts(Model):
    def _set_wake_up(self, conn: Client) -> None:
        deadlines = conn.deadlines
        if len(conn.reserved) > 1:
            last = list(conn.reserved.values())[-1]
            conn.deadlines = type(deadlines)([(last.deadline, last.id)])
        super()._set_wake_up(conn)
        conn.deadlines = deadlines


@fault("reserve.deadline-unblocks-connection", "commands behind an aborted reserve are dropped")
class DropsBehind(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        job = conn.reserved.get(id)
        in_margin = job is not None and job.deadline - SAFETY_MARGIN <= self.now
        if in_margin and job and job.body.startswith(b"this is"):
            return wire.NOT_FOUND
        return super()._delete(conn, id)


@fault("reserve.timeout-limits-wait", "a client that waits with a timeout gets no new job")
class DeafWaiter(Model):
    def _make_ready(self, job: Job) -> None:
        waiting = list(job.tube.waiting)
        if waiting and all(conn.timeout_at is not None for conn in waiting):
            self._queue(job)
            return
        super()._make_ready(job)


asked(
    "reserve.timed-out",
    "a timeout of three seconds is four",
    "reserve-with-timeout",
    lambda timeout: Command("reserve-with-timeout", (timeout + 1 if timeout == 3 else timeout,)),
)


@fault("reserve.any-watched-tube", "only the first watched tube is served")
class OnlyFirst(Model):
    def _next_ready(self, conn: Client) -> Job | None:
        tube = conn.watch.first()
        return self.jobs[tube.ready[0][1]] if tube.ready and not tube.pause else None


@fault("reserve.any-watched-tube", "an ignored tube is still served")
class IgnoredServed(Model):
    _ignored: Tube | None = None

    def _ignore(self, conn: Client, name: str) -> Reply:
        self._ignored = self._by_name.get(name)
        return super()._ignore(conn, name)

    def _next_ready(self, conn: Client) -> Job | None:
        tube = self._ignored
        if tube is not None and tube.ready and tube.name != "default" and not tube.watching:
            return self.jobs[tube.ready[0][1]]
        return super()._next_ready(conn)


takes(
    "reserve.bad-format",
    "reserve may have an argument",
    b"reserve 1",
    Command("reserve-with-timeout", (0,)),
)
takes(
    "reserve.timeout-argument-strict",
    "a negative timeout is zero",
    b"reserve-with-timeout -1",
    Command("reserve-with-timeout", (0,)),
)
profiled(
    "reserve.timeout-argument-strict",
    "timeouts are read as a C library does",
    lambda profile: replace(profile, timeout_argument="lenient"),
)


@fault("reserve.pipelined-behind-wait", "commands behind a pending reserve are answered at once")
class AnswersBehind(Model):
    def is_waiting(self, conn: int) -> bool:
        return False

    def _command(self, conn: Client, command: Command) -> None:
        if conn.waiting and command.verb in ("watch", "ignore"):
            # The queues of clients that wait are those of the tubes that they watch.
            self._stop_waiting(conn)
        super()._command(conn, command)

    def _reserve(self, conn: Client, timeout: int | None) -> Reply | None:
        return None if conn.waiting else super()._reserve(conn, timeout)


@fault("reserve.pipelined-behind-wait", "a command behind a pending reserve is lost")
class LosesBehind(RequestReader):
    def next_request(self) -> Request | None:
        request = super().next_request()
        if request == Command("reserve") and self.buffered:
            super().next_request()
        return request


@fault("reserve.expired-job-is-ready", "an expired job is given only to its old holder")
class OldHolderOnly(Model):
    def _make_ready(self, job: Job) -> None:
        if job.timeouts and job.timeouts == job.reserves and job.ttr < 60 and job.tube.waiting:
            pause, job.tube.pause = job.tube.pause, 1
            super()._make_ready(job)
            job.tube.pause = pause
            return
        super()._make_ready(job)


class PutsOffTtrs(Model):
    def _put_off(self, job: Job, length: int) -> None:
        """Let the TTR of a reserved job end so many nanoseconds later."""
        assert job.reserver is not None
        self._clear_deadline(job, job.reserver)
        job.deadline += length
        job.reserver.deadlines.add((job.deadline, job.id))
        self._timers.add((job.deadline, Timer.TTR, job.id))


@fault("reserve.expiry-while-holder-is-idle", "timers of idle clients get lost")
class LosesTimers(PutsOffTtrs):
    def _fire_timers(self, now: int) -> None:
        while self._timers and self._timers[0][0] <= now:
            _, kind, subject = self._timers[0]
            if kind is not Timer.TTR or not isinstance(subject, int):
                break
            job = self.jobs[subject]
            if job.id % 2 or job.body != b"a" or job.ttr != 1:
                break
            # As beanstalkd does: forgotten until its holder does something.
            self._put_off(job, 3600 * SECOND)
        super()._fire_timers(now)


@fault("reserve-job.ttr", "a job reserved by id never times out")
class NoTtrById(Model):
    def _reserve_job(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is not None and job.ttr < 60:
            job.ttr += 3600
        return super()._reserve_job(conn, id)


@fault("reserve-job.reserved", "reserve-job does not take buried jobs")
class NotBuried(Model):
    def _reserve_job(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is not None and job.state is JobState.BURIED:
            return wire.NOT_FOUND
        return super()._reserve_job(conn, id)


@fault("reserve-job.not-found", "reserve-job takes a job from another client")
class Steals(Model):
    def _reserve_job(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is not None and job.reserver not in (None, conn):
            self._unreserve(job)
            self._queue(job)
        return super()._reserve_job(conn, id)


takes_like(
    "reserve-job.bad-format",
    "reserve-job takes an id with garbage",
    rb"reserve-job ([0-9]+)[a-z]+",
    lambda id: Command("reserve-job", (id,)),
)
answered(
    "watch.watching",
    "watch counts to nine",
    "watch",
    lambda _, conn, __, reply: wire.WATCHING(min(len(conn.watch), 9)),
)


@fault("watch.twice", "watching a tube twice counts twice")
class WatchesTwice(Model):
    def _watch(self, conn: Client, name: str) -> Reply:
        again = any(tube.name == name for tube in conn.watch)
        reply = super()._watch(conn, name)
        return wire.WATCHING(len(conn.watch) + 1) if again else reply


profiled(
    "watch.name-limit",
    "watch takes names of 199 bytes",
    lambda profile: replace(profile, max_name=199),
)


@fault("watch.creates-tube", "a tube that is only watched is not found")
class WatchedUnknown(Model):
    def _stats_tube(self, conn: Client, name: str) -> Reply:
        tube = self._by_name.get(name)
        is_new = tube is not None and not (tube.using or tube.total_jobs)
        return wire.NOT_FOUND if is_new else super()._stats_tube(conn, name)


takes(
    "watch.bad-format", "watch takes the first of two names", b"watch a b", Command("watch", ("a",))
)
answered(
    "ignore.watching",
    "ignore tells the count of before",
    "ignore",
    lambda _, conn, command, reply: (
        wire.WATCHING(len(conn.watch) + 1)
        if reply.word == "WATCHING" and "default" not in command.args and len(conn.watch) == 2
        else None
    ),
)


@fault("ignore.not-ignored", "the last watched tube can be ignored")
class IgnoresAll(Model):
    def _ignore(self, conn: Client, name: str) -> Reply:
        reply = super()._ignore(conn, name)
        return wire.WATCHING(0) if reply == wire.NOT_IGNORED else reply


answered(
    "ignore.unwatched-tube",
    "a tube that is not watched cannot be found",
    "ignore",
    lambda model, conn, command, reply: (
        wire.NOT_FOUND if command.args[0] not in model._by_name else None
    ),
)
takes(
    "ignore.bad-format",
    "ignore takes a name of 201 bytes",
    b"ignore " + b"n" * 201,
    Command("ignore", ("n",)),
)
