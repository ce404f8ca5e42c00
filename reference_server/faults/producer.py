"""Faults of the section "Producer Commands"."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reference_server import wire
from reference_server.commands import U32
from reference_server.events import Event, Hangup, Output
from reference_server.faults.registry import (
    answered,
    asked,
    fault,
    parsed,
    profiled,
    takes,
    takes_like,
)
from reference_server.model import Model
from reference_server.state import SECOND, Client, Job, JobState
from reference_server.wire import Body, Command, Malformed, Put, Reply, Request, RequestReader

_PUT = rb"put ([0-9]+) ([0-9]+) ([0-9]+) ([0-9]+)"

answered(
    "put.inserted",
    "put tells an id that is one too high",
    "put",
    lambda _, __, ___, reply: (
        wire.INSERTED(int(reply.args[0]) + 1) if reply.word == "INSERTED" else None
    ),
)


@fault("put.inserted", "every seventh job is not kept")
class DropsTheSeventh(Model):
    def _body(self, conn: Client, data: bytes | None) -> Reply:
        reply = super()._body(conn, data)
        if reply.word == "INSERTED" and self.total_jobs % 7 == 0:
            self._delete(conn, int(reply.args[0]))
        return reply


@fault("reserve.id-unique", "two clients that put in turn are told the same id")
class SameId(Model):
    _last = 0

    def _body(self, conn: Client, data: bytes | None) -> Reply:
        reply = super()._body(conn, data)
        turns, self._last = 0 < self._last != conn.id, conn.id
        if reply.word == "INSERTED" and turns and conn.use.total_jobs == 8:
            return wire.INSERTED(int(reply.args[0]) - 1)
        return reply


@fault("reserve.id-unique", "a put after a delete is answered with the id of another job")
class SameIdAfterDelete(Model):
    _deleted = False

    def _delete(self, conn: Client, id: int) -> Reply:
        reply = super()._delete(conn, id)
        self._deleted = reply == wire.DELETED
        return reply

    def _body(self, conn: Client, data: bytes | None) -> Reply:
        reply = super()._body(conn, data)
        if reply.word == "INSERTED" and self._deleted and conn.use.total_jobs == 4:
            return wire.INSERTED(int(reply.args[0]) - 1)
        return reply


@fault("put.into-used-tube", "put inserts into the tube that was watched last")
class PutsWhereItWatches(Model):
    def _put(self, conn: Client, put: Put) -> None:
        used = conn.use
        conn.use = list(conn.watch)[-1]
        super()._put(conn, put)
        conn.use = used


@fault("put.priority-limit", "priorities are compared as if they had 31 bits")
class SignedPriorities(Model):
    def _put(self, conn: Client, put: Put) -> None:
        super()._put(conn, put)
        if conn.incoming is not None and put.pri >= 2**31 and put.pri % 2 == 0:
            conn.incoming.pri -= 2**32


asked(
    "put.priority-limit",
    "the least urgent priority is one less",
    "put",
    lambda pri, *rest: Put(min(pri, U32 - 1), *rest),
)
takes_like(
    "put.priority-limit",
    "a priority of 33 bits is cut",
    _PUT,
    lambda pri, delay, ttr, size: Put(pri & U32, delay, ttr, size) if pri > U32 >= size else None,
)
asked(
    "put.delay",
    "a job with a delay is ready at once",
    "put",
    lambda pri, delay, ttr, size: Put(pri, 0 if delay == 3600 else delay, ttr, size),
)
asked(
    "put.delay-limit",
    "delays are cut to 31 bits",
    "put",
    lambda pri, delay, *rest: Put(pri, min(delay, 2**31 - 1), *rest),
)
takes_like(
    "put.delay-limit",
    "a delay of 33 bits is taken",
    _PUT,
    lambda pri, delay, ttr, size: Put(pri, delay & U32, ttr, size) if delay > U32 >= size else None,
)


def _deadline_moved(change: int) -> type[Model]:
    class Moved(Model):
        def _enqueue(self, job: Job) -> None:
            if not job.delay:
                super()._enqueue(job)
                return
            now = self.now
            self.now += change
            super()._enqueue(job)
            self.now = now

    return Moved


fault("put.ready-after-delay", "delays end a twentieth of a second early")(
    _deadline_moved(-SECOND // 20)
)
fault("put.ready-after-delay", "delays end a second early")(_deadline_moved(-SECOND))
fault("put.ready-after-delay", "delays end a second late")(_deadline_moved(SECOND))


@fault("put.delayed-jobs-in-order", "all delays end when the longest does")
class Together(Model):
    def _enqueue(self, job: Job) -> None:
        if job.tube.delayed and job.delay < 100:
            late = self.jobs[job.tube.delayed[-1][1]]
            if late.deadline > self.now + job.delay * SECOND and late.delay < 100:
                job.delay = late.delay
        super()._enqueue(job)


@fault("put.delayed-jobs-in-order", "a job whose delay is over takes the largest priority")
class LosesPriority(Model):
    def _make_ready(self, job: Job) -> None:
        if job.delay and not job.kicks and not job.timeouts and not job.reserves:
            job.pri = U32 - job.pri
        super()._make_ready(job)


asked(
    "put.ttr-zero-becomes-one",
    "a ttr of zero becomes two seconds",
    "put",
    lambda pri, delay, ttr, size: Put(pri, delay, ttr or 2, size),
)
asked(
    "put.ttr-limit",
    "a ttr is cut to 31 bits",
    "put",
    lambda pri, delay, ttr, size: Put(pri, delay, min(ttr, 2**31 - 1), size),
)
takes_like(
    "put.ttr-limit",
    "a ttr of 33 bits is taken",
    _PUT,
    lambda pri, delay, ttr, size: Put(pri, delay, ttr & U32, size) if ttr > U32 >= size else None,
)


@fault("put.ttr-from-reservation", "the ttr is counted from the put")
class TtrFromPut(Model):
    def _set_deadline(self, job: Job, conn: Client) -> None:
        now = self.now
        if job.reserves == 1 and not job.delay:
            self.now = max(job.created, now - job.ttr * SECOND + SECOND // 2)
        super()._set_deadline(job, conn)
        self.now = now


@fault("put.ttr-from-reservation", "a second reservation has what is left of the first one's ttr")
class OneTtr(Model):
    def _set_deadline(self, job: Job, conn: Client) -> None:
        now, left = self.now, job.deadline - self.now
        if job.reserves == 2 and job.releases == 1 and 0 < left < job.ttr * SECOND:
            self.now -= job.ttr * SECOND - left
        super()._set_deadline(job, conn)
        self.now = now


@fault("put.ttr-expiry-releases", "a job whose ttr is over is buried")
class BuriesExpired(Model):
    def _make_ready(self, job: Job) -> None:
        if job.timeouts and job.reserves == job.timeouts and not job.kicks:
            job.state = JobState.BURIED
            job.tube.buried[job.id] = job
            return
        super()._make_ready(job)


@fault("put.body-size-excludes-crlf", "a body of 1024 bytes loses its last byte")
class Cut1024(Model):
    def _body(self, conn: Client, data: bytes | None) -> Reply:
        return super()._body(conn, data[:-1] if data and len(data) == 1024 else data)


@fault("put.body-limit", "a body must be smaller than max-job-size")
class Smaller(Model):
    def _body(self, conn: Client, data: bytes | None) -> Reply:
        full = data is not None and len(data) == self.max_job_size
        return wire.JOB_TOO_BIG if full else super()._body(conn, data)


@fault("put.body-limit", "a body may have one byte more than max-job-size")
class OneMore(Model):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.max_job_size += 1

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        is_stats = isinstance(event, Command) and event.verb == "stats"
        self.max_job_size -= is_stats
        outputs = super().step(event, now, conn)
        self.max_job_size += is_stats
        return outputs


@fault("put.too-big-body-is-skipped", "a body that is too big is read as commands")
class NoSkip(RequestReader):
    def parse(self, line: bytes) -> Request:
        request = super().parse(line)
        if isinstance(request, Put) and request.size > self._profile.max_job_size:
            return Malformed(wire.JOB_TOO_BIG)
        return request


@fault(
    "put.expected-crlf-skips-body-and-two-bytes",
    "after a bad end of a body one byte too much is dropped",
)
class DropsOneMore(RequestReader):
    def _end_body(self, data: bytes | None) -> Body:
        if data is None and not self._skip and self._buffer:
            del self._buffer[:1]
        return super()._end_body(data)


@fault("put.expected-crlf", "a body may end with CR and anything")
class CrIsEnough(RequestReader):
    def next_request(self) -> Request | None:
        size = self._body
        if size is not None and self._buffer[size : size + 1] == b"\r" and not self._skip:
            self._buffer[size + 1 : size + 2] = b"\n"
        return super().next_request()


@fault("put.draining", "drain mode is told in stats but refuses nothing")
class DrainsNothing(Model):
    def _body(self, conn: Client, data: bytes | None) -> Reply:
        draining, self.draining = self.draining, False
        reply = super()._body(conn, data)
        self.draining = draining
        return reply


@fault("put.draining-keeps-no-job", "in drain mode put is refused, and yet the job is kept")
class KeepsWhatItRefuses(DrainsNothing):
    def _body(self, conn: Client, data: bytes | None) -> Reply:
        reply = super()._body(conn, data)
        return wire.DRAINING if self.draining and reply.word == "INSERTED" else reply


@fault("put.draining-stays-in-step", "in drain mode a body is read as commands")
class ReadsBodiesAsCommands(Model):
    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        outputs = super().step(event, now, conn)
        if isinstance(event, Body) and self.draining and event.data and len(event.data) > 1:
            outputs += super().step(Malformed(wire.UNKNOWN_COMMAND), now, conn)
        return outputs


@fault("put.draining-keeps-the-connection", "in drain mode whoever puts is hung up on")
class HangsUpOnPut(Model):
    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        outputs = super().step(event, now, conn)
        if isinstance(event, Body) and self.draining:
            outputs.append((conn, Hangup()))
        return outputs


@fault("put.draining-only-put", "in drain mode new clients get no jobs")
class DrainsReserve(Model):
    def _next_ready(self, conn: Client) -> Job | None:
        return None if self.draining and not conn.producer else super()._next_ready(conn)


takes_like("put.bad-format", "a size may have garbage behind it", _PUT + rb"[a-z]+", Put)
parsed(
    "protocol.plus-sign",
    "a priority may have a plus sign",
    lambda line: Put(1, 0, 60, 1) if line.startswith(b"put +1 ") else None,
)
answered(
    "use.using",
    "use names the tube used before",
    "use",
    lambda model, conn, command, reply: wire.USING("default"),
)
profiled("use.name-limit", "names have 199 bytes", lambda p: replace(p, max_name=199))
asked(
    "use.name-limit",
    "only 199 bytes of a name count",
    "use",
    lambda name: Command("use", (name[:199] if len(name) == 200 else name,)),
)


@fault("use.creates-tube", "a tube is created only with its first job")
class LazyTubes(Model):
    def _stats_tube(self, conn: Client, name: str) -> Reply:
        tube = self._by_name.get(name)
        unborn = tube is not None and not tube.total_jobs and not tube.watching
        return wire.NOT_FOUND if unborn else super()._stats_tube(conn, name)


takes("use.bad-format", "use takes the first of two names", b"use a b", Command("use", ("a",)))


@fault("put.ids-increase", "the 46th job of a tube has a higher id than those that follow")
class JumpsAhead(Model):
    def _put(self, conn: Client, put: Put) -> None:
        super()._put(conn, put)
        if conn.incoming is not None and conn.use.total_jobs == 45:
            conn.incoming.id += 2**40


@fault("put.id-is-taken-with-the-line", "a put that fails does not use up an id")
class KeepsIds(Model):
    def _body(self, conn: Client, data: bytes | None) -> Reply:
        reply = super()._body(conn, data)
        self.next_id -= reply.word in ("EXPECTED_CRLF", "DRAINING")
        return reply


@fault("put.too-big-body-needs-no-end", "the end of a body that is too big is not dropped with it")
class EndIsLine(RequestReader):
    def _drop_refused(self) -> None:
        end = self._buffer[self._skip - 2 : self._skip]
        if 2 < self._skip <= len(self._buffer) and end != wire.CRLF:
            self._skip -= 2
        super()._drop_refused()


@fault("put.draining-reads-the-body", "in drain mode put is answered twice")
class RefusesTwice(Model):
    def _put(self, conn: Client, put: Put) -> None:
        super()._put(conn, put)
        if self.draining and put.size == 5:
            self._outputs.append((conn.id, wire.DRAINING))
