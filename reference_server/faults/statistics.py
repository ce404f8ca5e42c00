"""Faults of stats-job, stats-tube and stats."""

from __future__ import annotations

from reference_server import wire
from reference_server.events import Event, Output
from reference_server.faults.registry import answered, edited, fault, parsed
from reference_server.model import Model
from reference_server.state import Connection, Job
from reference_server.stats import COUNTED_COMMANDS
from reference_server.wire import Command, Put, Reply


def says(requirement: str, summary: str, verb: str, pattern: str, new: str) -> None:
    """Registers a fault of the text that a command answers with."""
    answered(requirement, summary, verb, edited(pattern, new))


for _key in ("file", "age", "time-left"):
    says("stats-job.ok", f"stats-job lacks {_key}", "stats-job", rf"^{_key}: .*\n", "")
says("stats-job.ok", "the age is told in words", "stats-job", r"^age: .*$", "age: young")
says("stats-job.values", "the ttr is told in minutes", "stats-job", r"^ttr: 99$", "ttr: 1")
says("stats-job.state", "buried jobs are told as ready", "stats-job", "buried", "ready")
says(
    "stats-job.delay-and-ttr-stay",
    "the delay is told as 0 when it is over",
    "stats-job",
    r"(?s)^state: reserved(.*)\ndelay: \d+$",
    r"state: reserved\1\ndelay: 0",
)


@fault("stats-job.counters", "a release counts twice after the second one")
class CountsTwice(Model):
    def _release(self, conn: Connection, id: int, pri: int, delay: int) -> Reply:
        job = self._held(conn, id)
        if job is not None and job.releases == 2:
            job.releases += 1
        return super()._release(conn, id, pri, delay)


@fault("stats-job.counters", "a kick that fails counts")
class CountsFailedKicks(Model):
    def _kick_job(self, conn: Connection, id: int) -> Reply:
        reply = super()._kick_job(conn, id)
        if reply == wire.NOT_FOUND and id in self.jobs:
            self.jobs[id].kicks += 1
        return reply


@fault("stats-job.timeouts", "a timeout counts as a release")
class TimeoutIsRelease(Model):
    def _make_ready(self, job: Job) -> None:
        if job.timeouts and job.timeouts == job.reserves:
            job.releases = job.timeouts
        super()._make_ready(job)


@fault("stats-job.age", "the age begins with the reservation")
class YoungAgain(Model):
    def _stats_job(self, conn: Connection, id: int) -> Reply:
        if id in self.jobs and not self.jobs[id].reserves:
            self.jobs[id].created = self.now
        return super()._stats_job(conn, id)


says(
    "stats-job.time-left-reserved",
    "the time left of a reserved job is its ttr",
    "stats-job",
    r"(?s)^state: reserved(.*)\nttr: (\d+)\ntime-left: .*?$",
    r"state: reserved\1\nttr: \2\ntime-left: \2",
)
says(
    "stats-job.time-left-delayed",
    "the time left of a delayed job is 0",
    "stats-job",
    r"(?s)^state: delayed(.*)\ntime-left: \d+",
    r"state: delayed\1\ntime-left: 0",
)
answered(
    "stats-job.not-found",
    "stats of a job that does not exist are empty",
    "stats-job",
    lambda _, __, ___, reply: wire.OK(b"---\n") if reply == wire.NOT_FOUND else None,
)
parsed(
    "stats-job.bad-format",
    "stats-job takes an id with garbage",
    lambda line, _: Command("stats-job", (0,)) if line == b"stats-job 1x" else None,
)
for _key in ("cmd-delete", "current-watching", "total-jobs"):
    says("stats-tube.ok", f"stats-tube lacks {_key}", "stats-tube", rf"^{_key}: .*\n", "")
says(
    "stats-tube.ok",
    "a tube called null has no name",
    "stats-tube",
    r'^name: "null"$',
    "name: ~",
)
says(
    "stats-tube.job-counts",
    "reserved jobs are counted as ready",
    "stats-tube",
    r"^current-jobs-ready: 3$",
    "current-jobs-ready: 5",
)


@fault("stats-tube.urgent", "a priority of 1024 is urgent")
class UrgentAt1024(Model):
    def _make_ready(self, job: Job) -> None:
        ready = len(job.tube.ready)
        super()._make_ready(job)
        if job.pri == 1024 and len(job.tube.ready) > ready:
            job.tube.urgent += 1


@fault("stats-tube.urgent", "taking a job of priority 1024 makes one less urgent")
class TakenAt1024(Model):
    def _dequeue(self, job: Job) -> None:
        ready = len(job.tube.ready)
        super()._dequeue(job)
        if job.pri == 1024 and len(job.tube.ready) < ready:
            job.tube.urgent -= 1


@fault("stats-tube.client-counts", "who changes its used tube is still counted at the old one")
class StillCounted(Model):
    def _use(self, conn: Connection, name: str) -> Reply:
        old = conn.use
        reply = super()._use(conn, name)
        if old is not conn.use and old.name != "default" and name == "default":
            old.using += 1
        return reply


says(
    "stats-tube.waiting",
    "nobody is ever counted as waiting",
    "stats-tube",
    r"^current-waiting: .*$",
    "current-waiting: 0",
)


@fault("stats-tube.cumulative", "a delete that finds nothing counts")
class CountsFailedDeletes(Model):
    def _delete(self, conn: Connection, id: int) -> Reply:
        reply = super()._delete(conn, id)
        conn.use.deletes += reply == wire.NOT_FOUND
        return reply


@fault("stats-tube.cumulative", "total-jobs goes down with a delete")
class CountsLiving(Model):
    def _delete(self, conn: Connection, id: int) -> Reply:
        job = self.jobs.get(id)
        reply = super()._delete(conn, id)
        if reply == wire.DELETED and job is not None:
            job.tube.total_jobs -= 1
        return reply


says(
    "stats-tube.pause",
    "a pause is not counted",
    "stats-tube",
    r"^cmd-pause-tube: .*$",
    "cmd-pause-tube: 0",
)
answered(
    "stats-tube.not-found",
    "stats of a tube that does not exist are empty",
    "stats-tube",
    lambda _, __, ___, reply: wire.OK(b"---\n") if reply == wire.NOT_FOUND else None,
)
parsed(
    "stats-tube.bad-format",
    "stats-tube takes the first of two names",
    lambda line, _: Command("stats-tube", ("default",)) if line == b"stats-tube a b" else None,
)
for _key in ("rusage-utime", "binlog-max-size", "platform", "uptime"):
    says("stats.ok", f"stats lacks {_key}", "stats", rf"^{_key}: .*\n", "")
says("stats.draining", "draining is always false", "stats", "draining: true", "draining: false")


@fault("stats.job-counts", "buried jobs count as ready in stats")
class BuriedIsReady(Model):
    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        outputs = super().step(event, now, conn)
        if isinstance(event, Command) and event.verb == "stats":
            buried = sum(len(tube.buried) for tube in self.tubes)
            ready = sum(len(tube.ready) for tube in self.tubes)
            edit = edited(r"^current-jobs-ready: .*$", f"current-jobs-ready: {ready + buried}")
            client = self.connections[conn]
            reply = outputs[-1][1]
            if isinstance(reply, Reply):
                outputs[-1] = (conn, edit(self, client, event, reply) or reply)
        return outputs


def _miscounts(verb: str) -> type[Model]:
    class Miscounts(Model):
        def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
            outputs = super().step(event, now, conn)
            asked = isinstance(event, Command) and event.verb == verb
            if asked or (isinstance(event, Put) and verb == "put"):
                self.commands[verb] -= 1
            return outputs

    return Miscounts


for _verb in COUNTED_COMMANDS:
    if _verb not in ("reserve-with-timeout", "touch"):
        fault("stats.command-counts", f"{_verb} is not counted")(_miscounts(_verb))


@fault("stats.connection-counts", "everybody counts as a worker")
class AllWork(Model):
    def _connect(self, number: int) -> None:
        super()._connect(number)
        self.connections[number].worker = True


@fault("stats.connection-counts", "who leaves is counted as connected for ever")
class TotalIsCurrent(Model):
    def _connect(self, number: int) -> None:
        super()._connect(number)
        self.total_connections += 1


@fault("stats.job-timeouts", "job-timeouts counts a tube's second timeout only")
class EverySecond(Model):
    def _fire_timers(self, now: int) -> None:
        before = self.timeouts
        super()._fire_timers(now)
        self.timeouts -= self.timeouts > before


parsed(
    "stats.bad-format",
    "stats ignores a blank at its end",
    lambda line, _: Command("stats") if line == b"stats " else None,
)
