"""Faults that show only where there is much: long queues, many clients, and many repetitions."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from typing import Any, ClassVar

from reference_server.commands import U32
from reference_server.faults.registry import (
    FAULTS,
    always_says,
    answered,
    asked,
    fault,
    parsed,
    says,
    takes_like,
    with_value,
)
from reference_server.model import Model
from reference_server.state import SECOND, Alarm, Client, Job, JobState, Timer, Tube
from reference_server.wire import (
    BAD_FORMAT,
    Body,
    Command,
    Malformed,
    Reply,
    Request,
    RequestReader,
)

_BEFORE = len(FAULTS)


# ------------------------------------------------------------ queues


@fault("put.smaller-priority-first", "of more than 32 ready jobs the second comes first")
class LongQueue(Model):
    def _next_ready(self, conn: Client) -> Job | None:
        job = super()._next_ready(conn)
        return self.jobs[job.tube.ready[1][1]] if job and len(job.tube.ready) > 32 else job


@fault("put.smaller-priority-first", "a ready job taken from the middle leaves a queue unordered")
class Unordered(Model):
    _unordered: Tube | None = None

    def _dequeue(self, job: Job) -> None:
        ready = job.tube.ready
        if job.state is JobState.READY and 0 < ready.index((job.pri, job.id)) < len(ready) - 1:
            self._unordered = job.tube
        super()._dequeue(job)

    def _next_ready(self, conn: Client) -> Job | None:
        job = super()._next_ready(conn)
        if job is None or job.tube is not self._unordered or len(job.tube.ready) < 3:
            return job
        self._unordered = None
        return self.jobs[job.tube.ready[2][1]]


@fault("kick.otherwise-delayed", "of more than 100 delayed jobs the last is kicked")
class LongDelays(Model):
    def _soonest(self, tube: Tube) -> Job | None:
        return self.jobs[tube.delayed[-1][1]] if len(tube.delayed) > 100 else super()._soonest(tube)


@fault("bury.fifo", "from the 65th on, jobs are buried at the head of the list")
class BuriedStack(Model):
    def _make_buried(self, job: Job) -> None:
        super()._make_buried(job)
        if len(job.tube.buried) > 64:
            job.tube.buried.move_to_end(job.id, last=False)


@fault("reserve.several-jobs-on-a-connection", "a client holds no more than 64 jobs")
class FewHeld(Model):
    def _held(self, conn: Client, id: int) -> Job | None:
        return super()._held(conn, id) if id in list(conn.reserved)[:64] else None


asked(
    "kick.kicked",
    "kick takes a bound over 1000 for 100",
    "kick",
    lambda bound: Command("kick", (100 if bound > 1000 else bound,)),
)


@fault("kick.buried-in-order", "of more than 500 buried jobs the last is kicked")
class KicksLastOfMany(Model):
    def _kick(self, conn: Client, bound: int) -> Reply:
        if len(conn.use.buried) > 500:
            conn.use.buried.move_to_end(next(reversed(conn.use.buried)), last=False)
        return super()._kick(conn, bound)


def _cut(count: int) -> Any:
    """Return a change that cuts a list of names."""

    def change(_: Model, __: Client, ___: Command, reply: Reply) -> Reply:
        lines = (reply.body or b"").splitlines(keepends=True)
        return reply._replace(body=b"".join(lines[: count + 1]))

    return change


answered(
    "list-tubes-watched.list",
    "only 120 watched tubes are listed",
    "list-tubes-watched",
    _cut(120),
)
answered("list-tubes.all", "only 500 tubes are listed", "list-tubes", _cut(500))


# ------------------------------------------------------------ repetitions


@fault("stats-job.reserves", "reserves stops at 255")
class FewReserves(Model):
    def _make_reserved(self, job: Job, conn: Client) -> None:
        super()._make_reserved(job, conn)
        job.reserves = min(job.reserves, 255)


@fault("stats-job.releases", "releases is counted in a byte")
class FewReleases(Model):
    def _release(self, conn: Client, id: int, pri: int, delay: int) -> Reply:
        reply = super()._release(conn, id, pri, delay)
        if job := self.jobs.get(id):
            job.releases %= 256
        return reply


@fault("stats-job.buries", "buries is counted in a byte")
class FewBuries(Model):
    def _make_buried(self, job: Job) -> None:
        super()._make_buried(job)
        job.buries %= 256


@fault("stats-job.kicks", "kicks stops at 255")
class FewKicks(Model):
    def _kick_one(self, job: Job) -> None:
        super()._kick_one(job)
        job.kicks = min(job.kicks, 255)


@fault("stats-job.timeouts", "timeouts is counted in a byte")
class FewTimeouts(Model):
    def _fire(self, alarm: Alarm) -> None:
        super()._fire(alarm)
        if alarm[1] is Timer.TTR:
            self.jobs[int(alarm[2])].timeouts %= 256


@fault("touch.postpones-expiry", "a job is touched 255 times at most")
class FewTouches(Model):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._touched: Counter[int] = Counter()

    def _touch(self, conn: Client, id: int) -> Reply:
        job = self._held(conn, id)
        deadline = job.deadline if job else 0
        reply = super()._touch(conn, id)
        self._touched[id] += job is not None
        if job is not None and self._touched[id] > 255:
            self._clear_deadline(job, conn)
            job.deadline = deadline
            conn.deadlines.add((deadline, id))
            self._timers.add((deadline, Timer.TTR, id))
        return reply


@fault("stats-tube.cmd-pause-tube", "pauses are counted in a byte")
class FewPauses(Model):
    def _pause_tube(self, conn: Client, name: str, delay: int) -> Reply:
        reply = super()._pause_tube(conn, name, delay)
        if tube := self._by_name.get(name):
            tube.pauses %= 256
        return reply


@fault("stats.cmd-touch", "touches are counted up to 255")
class FewTouchesCounted(Model):
    def _command(self, conn: Client, command: Command) -> None:
        super()._command(conn, command)
        self.commands["touch"] = min(self.commands["touch"], 255)


# ------------------------------------------------------------ crowds


def _lost(verb: str) -> type[Model]:
    """Let the 130th client, and each that comes while it is there, have another tube."""

    class ForgetsConnections(Model):
        def _connect(self, number: int) -> None:
            super()._connect(number)
            if len(self.connections) > 129:
                conn = self.connections[number]
                getattr(self, verb)(conn, "another")
                if verb == "_watch":
                    self._ignore(conn, "default")

    return ForgetsConnections


fault("lifecycle.use-default", "the 130th client does not use default")(_lost("_use"))
fault("lifecycle.watch-list-default", "the 130th client does not watch default")(_lost("_watch"))


@fault("reserve.waits-for-job", "the 17th client that waits is forgotten")
class FewWaiters(Model):
    def _start_waiting(self, conn: Client, timeout_at: int | None) -> None:
        super()._start_waiting(conn, timeout_at)
        for tube in conn.watch:
            if len(tube.waiting) > 16:
                tube.waiting.remove(conn)

    def _stop_waiting(self, conn: Client) -> None:
        for tube in conn.watch:
            if conn not in tube.waiting:
                tube.waiting.add(conn)
        super()._stop_waiting(conn)


@fault("reserve.waiting-client-that-leaves", "with one of many who wait another one is forgotten")
class ForgetsAnother(Model):
    def _half_close(self, conn: Client) -> None:
        waiting = conn.watch.first().waiting
        is_one_of_many = conn.waiting and len(waiting) > 50
        super()._half_close(conn)
        if is_one_of_many:
            waiting.remove(waiting.first())

    def _stop_waiting(self, conn: Client) -> None:
        for tube in conn.watch:
            if conn not in tube.waiting:
                tube.waiting.add(conn)
        super()._stop_waiting(conn)


def _loses(kind: Timer, count: int) -> type[Model]:
    """Lose timers of one kind, if more of them fall due together."""

    class LosesTimersDueTogether(Model):
        def _fire_timers(self, now: int) -> None:
            due = itertools.takewhile(lambda alarm: alarm[0] <= now, self._timers)
            late = [alarm for alarm in due if alarm[1] is kind][count:]
            for alarm in late:
                self._timers.remove(alarm)
            super()._fire_timers(now)
            for _, _, subject in late:
                self._put_off(now + 10**6 * SECOND, kind, subject)

        def _put_off(self, deadline: int, kind: Timer, subject: Any) -> None:
            self._timers.add((deadline, kind, subject))
            if kind is Timer.WAIT:
                self.connections[subject].wakes_at = deadline
            elif kind is Timer.PAUSE:
                self._by_name[subject].unpause_at = deadline
            else:
                job = self.jobs[subject]
                queue = job.reserver.deadlines if job.reserver else job.tube.delayed
                queue.remove((job.deadline, subject))
                job.deadline = deadline
                queue.add((deadline, subject))

    return LosesTimersDueTogether


for _slug, _kind, _count in (
    ("put.ready-after-delay", Timer.DELAY, 128),
    ("reserve.expired-job-is-ready", Timer.TTR, 128),
    ("reserve.timed-out", Timer.WAIT, 100),
    ("pause-tube.ends", Timer.PAUSE, 64),
):
    fault(_slug, f"of what falls due together, {_count} {_kind.name.lower()} timers fire")(
        _loses(_kind, _count)
    )


@fault("protocol.serial-replies", "of commands that have to wait 8 KiB are kept")
class FewCommands(RequestReader):
    def receive(self, data: bytes) -> None:
        super().receive(data)
        if self._body is None and self._buffer.count(b"\n") > 400:
            del self._buffer[self._buffer.rfind(b"\r\n", 0, 8192) + 2 :]


@fault("protocol.body-opaque", "bodies that come in pieces at the same time are mixed")
class Mixes(RequestReader):
    _begun: ClassVar[set[int]] = set()

    def next_request(self) -> Request | None:
        request = super().next_request()
        if request is None and self._body is not None and self._buffer:
            self._begun.add(id(self))
        elif isinstance(request, Body) and id(self) in self._begun:
            self._begun.discard(id(self))
            if len(self._begun) > 3 and request.data:
                return request._replace(data=request.data[::-1])
        return request


@fault("protocol.body-opaque", "the end of a body of more than 4 MiB is lost")
class LosesEnds(Model):
    def _found(self, job: Job | None) -> Reply:
        reply = super()._found(job)
        body = reply.body or b""
        return reply._replace(body=body[: 2**22].ljust(len(body), b"\0") or None)


# ------------------------------------------------------------ from outside


always_says("stats.pid", "pid is that of another process", "stats", "pid", "1")
always_says("stats.hostname", "the hostname is that of no machine", "stats", "hostname", "nowhere")
always_says("stats.os", "the os is none", "stats", "os", "none")
always_says("stats.platform", "the platform is another one", "stats", "platform", "z80")
for _key in ("utime", "stime"):
    says(
        f"stats.rusage-{_key}",
        f"{_key} has a digit too many",
        "stats",
        rf"^rusage-{_key}: ",
        f"rusage-{_key}: 1",
    )


@fault("stats.uptime", "uptime is counted from the day before")
class OlderServer(Model):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.started -= 86400 * SECOND


@fault("stats.version", "the version changes whenever the server is started")
class ManyVersions(Model):
    def _stats(self, conn: Client) -> Reply:
        return with_value(super()._stats(conn), "version", self.started)


# ------------------------------------------------------------ numbers


parsed(
    "protocol.leading-zeros",
    "more than 18 zeros before a number are too many",
    lambda line: Malformed(BAD_FORMAT) if b" " + b"0" * 19 in line else None,
)
takes_like(
    "protocol.integers-are-decimal",
    "a new priority with a zero before it is octal",
    rb"bury ([0-9]+) 0([0-7]+)",
    lambda id, pri: Command("bury", (id, int(str(pri), 8))),
)
asked(
    "protocol.integers-are-decimal",
    "peek reads 32 bits of an id",
    "peek",
    lambda id: Command("peek", (id & U32,)),
)


@fault("protocol.integers-are-decimal", "numbers may have digits of other scripts")
class OtherDigits(RequestReader):
    def parse(self, line: bytes) -> Request:
        text = line.decode(errors="replace")
        plain = re.sub(r"[^\x00-\x7f]", lambda digit: str(unicodedata.digit(digit[0], "x")), text)
        return super().parse(plain.encode())


@fault("put.priority-limit", "priorities from 2^31 on are negative")
class SortsSignedPriorities(Model):
    def _next_ready(self, conn: Client) -> Job | None:
        job = super()._next_ready(conn)
        last = self.jobs[job.tube.ready[-1][1]] if job else None
        return last if last and last.pri >= 2**31 else job


BY_SIZE = tuple(FAULTS)[_BEFORE:]
"""The faults of this module, by name."""
