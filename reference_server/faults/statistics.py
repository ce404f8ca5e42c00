"""Faults of stats-job, stats-tube and stats."""

from __future__ import annotations

from reference_server import wire
from reference_server.faults.registry import always_says, answered, fault, says, takes_like
from reference_server.model import Model
from reference_server.state import Client, Job, JobState
from reference_server.wire import Command, Reply

for _key in ("file", "age", "time-left"):
    says("stats-job.ok", f"stats-job lacks {_key}", "stats-job", rf"^{_key}: .*\n", "")
always_says("stats-job.ok", "the age is told in words", "stats-job", "age", "young")
for _what, _slug in (
    *(("stats-job", "stats-job.ok"), ("stats-tube", "stats-tube.ok"), ("stats", "stats.ok")),
    *(("list-tubes", "list-tubes.yaml"), ("list-tubes-watched", "list-tubes-watched.list")),
):
    _line = "- @home\n" if _what.startswith("list") else "mood: @home\n"
    says(_slug, f"{_what} has a line that is no YAML", _what, r"\Z", _line)
says("stats-job.ttr", "the ttr is told in minutes", "stats-job", r"^ttr: 99$", "ttr: 1")
says("stats-job.state", "buried jobs are told as ready", "stats-job", "buried", "ready")
says(
    "stats-job.delay-and-ttr-stay",
    "the delay is told as 0 when it is over",
    "stats-job",
    r"(?s)^state: reserved(.*)\ndelay: \d+$",
    r"state: reserved\1\ndelay: 0",
)


@fault("stats-job.releases", "a release counts twice after the second one")
class CountsTwice(Model):
    def _release(self, conn: Client, id: int, pri: int, delay: int) -> Reply:
        job = self._held(conn, id)
        if job is not None and job.releases == 2:
            job.releases += 1
        return super()._release(conn, id, pri, delay)


@fault("stats-job.failed-commands-do-not-count", "a kick that fails counts")
class CountsFailedKicks(Model):
    def _kick_job(self, conn: Client, id: int) -> Reply:
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
    def _stats_job(self, conn: Client, id: int) -> Reply:
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
takes_like(
    "stats-job.bad-format",
    "stats-job takes an id with garbage",
    rb"stats-job ([0-9]+)[a-z]+",
    lambda id: Command("stats-job", (id,)),
)
for _key in ("cmd-delete", "current-watching", "total-jobs"):
    says("stats-tube.ok", f"stats-tube lacks {_key}", "stats-tube", rf"^{_key}: .*\n", "")
says(
    "stats-tube.name",
    "a tube called null has no name",
    "stats-tube",
    r'^name: "null"$',
    "name: ~",
)
says(
    "stats-tube.current-jobs-ready",
    "six ready jobs are counted as seven",
    "stats-tube",
    r"^current-jobs-ready: 6$",
    "current-jobs-ready: 7",
)


@fault("stats-tube.current-jobs-urgent", "a priority of 1024 is urgent")
class UrgentAt1024(Model):
    def _make_ready(self, job: Job) -> None:
        ready = len(job.tube.ready)
        super()._make_ready(job)
        if job.pri == 1024 and len(job.tube.ready) > ready:
            job.tube.urgent += 1


@fault("stats-tube.current-jobs-urgent", "taking a job of priority 1024 makes one less urgent")
class TakenAt1024(Model):
    def _dequeue(self, job: Job) -> None:
        ready = len(job.tube.ready)
        super()._dequeue(job)
        if job.pri == 1024 and len(job.tube.ready) < ready:
            job.tube.urgent -= 1


@fault("stats-tube.current-using", "who changes its used tube is still counted at the old one")
class StillCounted(Model):
    def _use(self, conn: Client, name: str) -> Reply:
        old = conn.use
        reply = super()._use(conn, name)
        if old is not conn.use and old.name != "default" and name == "default":
            old.using += 1
        return reply


always_says(
    "stats-tube.current-waiting",
    "nobody is ever counted as waiting",
    "stats-tube",
    "current-waiting",
    "0",
)


@fault("stats-tube.cmd-delete", "a delete that finds nothing counts")
class CountsFailedDeletes(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        reply = super()._delete(conn, id)
        conn.watch.first().deletes += reply == wire.NOT_FOUND
        return reply


@fault("stats-tube.total-jobs", "total-jobs goes down with a delete")
class CountsLiving(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        reply = super()._delete(conn, id)
        if reply == wire.DELETED and job is not None:
            job.tube.total_jobs -= 1
        return reply


always_says(
    "stats-tube.cmd-pause-tube", "a pause is not counted", "stats-tube", "cmd-pause-tube", "0"
)
answered(
    "stats-tube.not-found",
    "stats of a tube that does not exist are empty",
    "stats-tube",
    lambda _, __, ___, reply: wire.OK(b"---\n") if reply == wire.NOT_FOUND else None,
)
takes_like(
    "stats-tube.bad-format",
    "stats-tube ignores a second name",
    rb"stats-tube [^ ]+ [^ ]+",
    lambda: Command("stats-tube", ("default",)),
)
says("stats-job.id", "an id that ends with 7 is told as ending with 8", "stats-job", "7$", "8")
says("stats-job.file", "file is negative", "stats-job", "^file: 0$", "file: -1")
says(
    "stats-job.tube",
    "a long name of a tube is cut off",
    "stats-job",
    '^tube: "(.{150}).+"$',
    r'tube: "\1"',
)
says(
    "stats-job.delay",
    "the delay is told in minutes",
    "stats-job",
    r"(?s)^pri: 7\n(.*)delay: 3600$",
    r"pri: 7\n\1delay: 60",
)


@fault("stats-job.pri", "a kick sets priority 3 to 0")
class KickSetsPriority(Model):
    def _kick_one(self, job: Job) -> None:
        job.pri = 0 if job.pri == 3 else job.pri
        super()._kick_one(job)


@fault("stats-job.reserves", "a reservation by id does not count")
class ByIdUncounted(Model):
    def _reserve_job(self, conn: Client, id: int) -> Reply:
        reply = super()._reserve_job(conn, id)
        if reply.word == "RESERVED":
            self.jobs[id].reserves -= 1
        return reply


@fault("stats-job.buries", "the third time a job is buried does not count")
class CountsTwoBuries(Model):
    def _bury(self, conn: Client, id: int, pri: int) -> Reply:
        reply = super()._bury(conn, id, pri)
        if reply == wire.BURIED:
            self.jobs[id].buries = min(self.jobs[id].buries, 2)
        return reply


@fault("stats-job.kicks", "a kick of a delayed job does not count")
class CountsBuriedKicks(Model):
    def _kick_one(self, job: Job) -> None:
        job.kicks -= job.state is JobState.DELAYED and job.releases > 0
        super()._kick_one(job)


for _state, _count in (("reserved", 4), ("delayed", 2), ("buried", 3)):
    says(
        f"stats-tube.current-jobs-{_state}",
        f"{_count} {_state} jobs are counted as one more",
        "stats-tube",
        f"^current-jobs-{_state}: {_count}$",
        f"current-jobs-{_state}: {_count + 1}",
    )


@fault("stats-tube.current-watching", "who ignores a tube still counts as watching it")
class StillWatching(Model):
    def _ignore(self, conn: Client, name: str) -> Reply:
        tube = self._by_name.get(name)
        if tube is not None and tube in conn.watch and len(conn.watch) > 1:
            tube.watching += name != "default"
        return super()._ignore(conn, name)


says(
    "stats-tube.pause",
    "the second pause is told as the first",
    "stats-tube",
    "^pause: 60$",
    "pause: 3600",
)
