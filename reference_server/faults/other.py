"""Faults of peek, kick, kick-job, the lists, quit and pause-tube."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from sortedcontainers import SortedList

from reference_server import wire
from reference_server.events import Hangup
from reference_server.faults.registry import answered, asked, fault, says, takes, takes_like
from reference_server.model import Model
from reference_server.state import SECOND, Client, Job, JobState, Tube
from reference_server.wire import Command, Malformed, Put, Reply, Request, RequestReader

answered(
    "peek.found",
    "peek shows only jobs of the used tube",
    "peek",
    lambda model, conn, command, reply: (
        wire.NOT_FOUND
        if reply.word == "FOUND" and conn.use.name == "default" and len(conn.watch) == 1
        else None
    ),
)


def _hides(state: JobState) -> type[Model]:
    class Hides(Model):
        def _peek(self, conn: Client, id: int) -> Reply:
            job = self.jobs.get(id)
            hidden = job is not None and job.state is state
            return wire.NOT_FOUND if hidden else super()._peek(conn, id)

    return Hides


fault("peek.any-state", "peek does not show reserved jobs")(_hides(JobState.RESERVED))
fault("peek.any-state", "peek does not show delayed jobs")(_hides(JobState.DELAYED))
answered(
    "peek.not-found",
    "peek-buried shows an empty job where there is none",
    "peek-buried",
    lambda model, conn, command, reply: (
        wire.FOUND(0, b"") if reply == wire.NOT_FOUND and not conn.producer else None
    ),
)
asked(
    "peek.not-found",
    "ids are cut to 63 bits by peek",
    "peek",
    lambda *ids: (
        Malformed(wire.INTERNAL_ERROR) if max(ids, default=0) >= 2**63 else Command("peek", ids)
    ),
)


def _heads(state: JobState, count: int, key: Callable[[Job], int]) -> type[Model]:
    """Return a model whose queue of ``count`` jobs in this state begins with another job."""

    class Heads(Model):
        def _head(self, queue: SortedList[tuple[int, int]]) -> Job | None:
            job = super()._head(queue)
            if job is not None and job.state is state and len(queue) == count:
                return min((self.jobs[id] for _, id in queue), key=key)
            return job

    return Heads


fault("peek.ready", "peek-ready shows the job that was put last")(
    _heads(JobState.READY, 3, lambda job: -job.id)
)
fault("peek.delayed", "peek-delayed shows the smallest priority")(
    _heads(JobState.DELAYED, 3, lambda job: job.pri)
)
answered(
    "peek.buried",
    "peek-buried shows the smallest id",
    "peek-buried",
    lambda model, conn, command, reply: (
        model._found(model.jobs[min(conn.use.buried)]) if len(conn.use.buried) == 3 else None
    ),
)


@fault("peek.used-tube-only", "peek-delayed looks into all tubes")
class LooksAround(Model):
    def _peek_delayed(self, conn: Client) -> Reply:
        tubes = (conn.use, *conn.watch)
        return self._found(self._head(next((t.delayed for t in tubes if t.delayed), SortedList())))


takes_like(
    "peek.bad-format",
    "peek-ready ignores a number behind it",
    rb"peek-ready [0-9]+",
    lambda: Command("peek-ready"),
)
answered(
    "kick.count",
    "kick tells one too many",
    "kick",
    lambda _, __, ___, reply: wire.KICKED_COUNT(4) if reply == wire.KICKED_COUNT(3) else None,
)


@fault("stats-job.kicks", "a kick of nothing counts in the ready job")
class CountsReady(Model):
    def _kick(self, conn: Client, bound: int) -> Reply:
        reply = super()._kick(conn, bound)
        if reply == wire.KICKED_COUNT(0) and conn.use.ready:
            self.jobs[conn.use.ready[0][1]].kicks += 1
        return reply


@fault("kick.used-tube-only", "kick takes jobs of watched tubes, too")
class KicksWatched(Model):
    def _kick(self, conn: Client, bound: int) -> Reply:
        if not conn.use.buried and not conn.use.delayed:
            for tube in conn.watch:
                if tube.buried:
                    used, conn.use = conn.use, tube
                    reply = super()._kick(conn, bound)
                    conn.use = used
                    return reply
        return super()._kick(conn, bound)


@fault("kick.buried-only-if-any", "kick goes on with delayed jobs")
class KicksOn(Model):
    def _kick(self, conn: Client, bound: int) -> Reply:
        buried = len(conn.use.buried)
        reply = super()._kick(conn, bound)
        if 0 < buried < bound and conn.use.delayed:
            more = super()._kick(conn, bound - buried)
            return wire.KICKED_COUNT(buried + int(more.args[0]))
        return reply


fault("kick.otherwise-delayed", "kick takes the delayed job put first")(
    _heads(JobState.DELAYED, 2, lambda job: job.id)
)
asked(
    "kick.bound",
    "kick of nothing kicks one",
    "kick",
    lambda bound: Command("kick", (bound or 1,)),
)
asked(
    "kick.kicked",
    "a bound is read as if it were signed",
    "kick",
    lambda bound: Command("kick", (bound if bound < 2**31 else 0,)),
)
takes("kick.bad-format", "kick takes a letter for the number 0", b"kick x", Command("kick", (0,)))


@fault("kick-job.kicked", "kick-job leaves delayed jobs alone")
class NotDelayed(Model):
    def _kick_job(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is not None and job.state is JobState.DELAYED and not job.reserves:
            return wire.NOT_FOUND
        return super()._kick_job(conn, id)


@fault("kick-job.kicked", "a kicked job becomes ready a second time when its delay is over")
class Twice(Model):
    def _kick_one(self, job: Job) -> None:
        deadline, delayed = job.deadline, job.state is JobState.DELAYED
        super()._kick_one(job)
        if delayed and deadline - self.now <= 2 * SECOND:
            job.ttr = 1


@fault("kick-job.not-found", "kick-job of a ready job succeeds")
class KicksReady(Model):
    def _kick_job(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is not None and job.state is JobState.READY:
            return wire.KICKED
        return super()._kick_job(conn, id)


takes_like(
    "kick-job.bad-format",
    "kick-job takes an id with garbage",
    rb"kick-job ([0-9]+)[a-z]+",
    lambda id: Command("kick-job", (id,)),
)


says(
    "list-tubes.all",
    "the fifth tube is listed twice",
    "list-tubes",
    r"(---\n(?:- .*\n){4})(- .*\n)",
    r"\1\2\2",
)
says("list-tubes.all", "the last tube is not listed", "list-tubes", r"(- .*\n)\Z", "")
answered(
    "list-tube-used.using",
    "list-tube-used names a tube that is watched",
    "list-tube-used",
    lambda _, conn, __, ___: wire.USING(conn.watch.first().name),
)
says(
    "list-tubes-watched.list",
    "of the watched tubes only two are listed",
    "list-tubes-watched",
    r"(---\n- .*\n- .*\n)(- .*\n)+",
    r"\1",
)


for _verb in ("list-tubes", "list-tube-used", "list-tubes-watched"):
    takes(
        f"{_verb}.bad-format",
        f"{_verb} ignores its argument",
        f"{_verb} a".encode(),
        Command(_verb),
    )


@fault("quit.closes", "quit is answered")
class SaysBye(Model):
    def _quit(self, conn: Client) -> Hangup:
        self._outputs.append((conn.id, wire.DELETED))
        return super()._quit(conn)


@fault("quit.closes", "quit does not close")
class Stays(Model):
    def _command(self, conn: Client, command: Command) -> None:
        if command.verb != "quit":
            super()._command(conn, command)


@fault("pause-tube.paused", "a pause holds back waiting clients only")
class HalfPause(Model):
    def _next_ready(self, conn: Client) -> Job | None:
        best = min((t.ready[0] for t in conn.watch if t.ready), default=None)
        return None if best is None else self.jobs[best[1]]


@fault("pause-tube.paused", "a pause does not hold back a client that waits already")
class WaitersServed(Model):
    def _make_ready(self, job: Job) -> None:
        pause = job.tube.pause
        if job.tube.waiting and pause > 1800 * SECOND:
            job.tube.pause = 0
            super()._make_ready(job)
            job.tube.pause = pause
        else:
            super()._make_ready(job)


@fault("pause-tube.ends", "a pause lasts one second longer")
class LongerPause(Model):
    def _pause_tube(self, conn: Client, name: str, delay: int) -> Reply:
        now = self.now
        self.now += SECOND if delay == 2 else 0
        reply = super()._pause_tube(conn, name, delay)
        self.now = now
        return reply


@fault("pause-tube.waiting-client-served-after", "the end of a pause wakes nobody")
class WakesNobody(Model):
    def _unpause(self, tube: Tube) -> None:
        self._end_pause(tube)


@fault("pause-tube.zero-holds-nothing-back", "a pause of zero lasts for ever")
class ZeroIsForEver(Model):
    def _pause_tube(self, conn: Client, name: str, delay: int) -> Reply:
        return super()._pause_tube(conn, name, delay or 2**31)


@fault("pause-tube.again-replaces", "a second pause does not shorten the first")
class NotShorter(Model):
    def _pause_tube(self, conn: Client, name: str, delay: int) -> Reply:
        tube = self._by_name.get(name)
        if tube is not None and delay and tube.pause > delay * SECOND:
            return wire.PAUSED
        return super()._pause_tube(conn, name, delay)


@fault("pause-tube.timers-go-on", "delays do not end during a pause")
class PausesDelays(Model):
    def _pause_tube(self, conn: Client, name: str, delay: int) -> Reply:
        reply = super()._pause_tube(conn, name, delay)
        for _, id in list(self._by_name[name].delayed) if reply == wire.PAUSED else []:
            job = self.jobs[id]
            self._dequeue(job)
            job.delay += delay
            self._enqueue(job)
        return reply


says(
    "stats-tube.pause-time-left",
    "the time left of a pause is its length",
    "stats-tube",
    r"^pause: 100\npause-time-left: .*$",
    r"pause: 100\npause-time-left: 100",
)


@fault("pause-tube.only-reserve", "kick leaves the jobs of a paused tube")
class PausesKick(Model):
    def _kick(self, conn: Client, bound: int) -> Reply:
        return wire.KICKED_COUNT(0) if conn.use.pause else super()._kick(conn, bound)


@fault("pause-tube.not-reserve-job", "reserve-job takes no job of a paused tube")
class PausesReserveJob(Model):
    def _reserve_job(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        paused = job is not None and job.tube.pause
        return wire.NOT_FOUND if paused else super()._reserve_job(conn, id)


answered(
    "pause-tube.not-found",
    "pausing a tube that does not exist succeeds",
    "pause-tube",
    lambda _, __, ___, reply: wire.PAUSED if reply == wire.NOT_FOUND else None,
)
asked(
    "pause-tube.delay-limit",
    "a pause has 31 bits",
    "pause-tube",
    lambda name, delay: Command("pause-tube", (name, min(delay, 2**31 - 1))),
)
takes_like(
    "pause-tube.bad-format",
    "the delay of a pause may be missing",
    rb"pause-tube [^ ]+",
    lambda: Command("pause-tube", ("default", 0)),
)


@fault("peek.changes-nothing", "a peek counts as a reservation")
class PeekReserves(Model):
    def _peek(self, conn: Client, id: int) -> Reply:
        if id in self.jobs:
            self.jobs[id].reserves += 1
        return super()._peek(conn, id)


answered(
    "kick.count",
    "kick tells its bound when it kicks delayed jobs",
    "kick",
    lambda _, __, command, reply: (
        wire.KICKED_COUNT(int(command.args[0]))
        if command.args == (4,) and reply == wire.KICKED_COUNT(1)
        else None
    ),
)


@fault("kick.buried-in-order", "a kick of twenty takes those buried last")
class KicksLast(Model):
    def _kick(self, conn: Client, bound: int) -> Reply:
        if bound == 20:
            conn.use.buried = OrderedDict(reversed(conn.use.buried.items()))
        return super()._kick(conn, bound)


@fault("kick-job.any-tube", "kick-job finds jobs of the used tube only")
class KicksNear(Model):
    def _kick_job(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        far = job is not None and job.tube is not conn.use and not job.reserves
        return wire.NOT_FOUND if far else super()._kick_job(conn, id)


@fault("quit.lets-jobs-go", "jobs of a client that quits are buried")
class QuitBuries(Model):
    def _quit(self, conn: Client) -> Hangup:
        for id in list(conn.reserved):
            self._bury(conn, id, 0)
        return super()._quit(conn)


@fault("reserve.waits-for-job", "a job that is put together with quit wakes nobody")
class DelaysLastPuts(RequestReader):
    def next_request(self) -> Request | None:
        request = super().next_request()
        if isinstance(request, Put) and b"quit\r\n" in self._buffer:
            return request._replace(delay=3600)
        return request


@fault("quit.nothing-behind-it", "what came together with quit is done first")
class QuitLast(RequestReader):
    _quits = False

    def next_request(self) -> Request | None:
        request = super().next_request()
        if request == Command("quit") and self._buffer:
            self._quits = True
            request = super().next_request()
        return Command("quit") if request is None and self._quits else request
