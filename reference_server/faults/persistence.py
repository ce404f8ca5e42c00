"""Faults of persistence: jobs and counters after a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reference_server.faults.registry import fault, says, told
from reference_server.model import Model
from reference_server.state import SECOND, Client, Job, JobState
from reference_server.wire import Reply


def _forgets(requirement: str, summary: str, forgotten: Callable[[Job], bool]) -> None:
    class Forgets(Model):
        def remember(self, old: Model) -> None:
            old.jobs = {id: job for id, job in old.jobs.items() if not forgotten(job)}
            super().remember(old)

    fault(requirement, summary)(Forgets)


def _mixes_up(requirement: str, summary: str, change: Callable[[Job], None]) -> None:
    class MixesUp(Model):
        def remember(self, old: Model) -> None:
            for job in old.jobs.values():
                change(job)
            super().remember(old)

    fault(requirement, summary)(MixesUp)


def _sets(state: JobState, was: Callable[[Job], bool]) -> Callable[[Job], None]:
    def change(job: Job) -> None:
        if was(job):
            job.state = state

    return change


_forgets("persistence.put", "an empty job is forgotten", lambda job: not job.body)


def _cuts(job: Job) -> None:
    job.pri = min(job.pri, 2**31)


_mixes_up("persistence.priority", "remembered priorities have 31 bits", _cuts)


@fault("persistence.delay", "a delay begins anew with the server")
class DelaysAgain(Model):
    def remember(self, old: Model) -> None:
        for job in old.jobs.values():
            job.deadline = self.now + job.delay * SECOND
        super().remember(old)


_mixes_up(
    "persistence.bury",
    "buried jobs come back ready",
    _sets(JobState.READY, lambda job: job.state is JobState.BURIED),
)


def _buries_again(job: Job) -> None:
    job.buries += job.state is JobState.BURIED


_mixes_up("persistence.buries", "a buried job comes back buried once more", _buries_again)


@fault("persistence.release-priority", "a job comes back with the priority that put gave it")
class ForgetsPriority(Model):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.put: dict[int, int] = {}

    def _release(self, conn: Client, id: int, pri: int, delay: int) -> Reply:
        if id in conn.reserved and not delay:
            self.put[id] = self.jobs[id].pri
        return super()._release(conn, id, pri, delay)

    def remember(self, old: Model) -> None:
        assert isinstance(old, ForgetsPriority)
        for id, pri in old.put.items():
            if id in old.jobs:
                old.jobs[id].pri = pri
        super().remember(old)


_mixes_up(
    "persistence.kick",
    "kicked jobs come back buried",
    _sets(JobState.BURIED, lambda job: job.state is JobState.READY and bool(job.kicks)),
)


@fault("persistence.delete", "a job that was deleted while it was reserved comes back")
class ComesBack(Model):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.deleted: list[Job] = []

    def _delete(self, conn: Client, id: int) -> Reply:
        if id in conn.reserved:
            self.deleted.append(self.jobs[id])
        return super()._delete(conn, id)

    def remember(self, old: Model) -> None:
        assert isinstance(old, ComesBack)
        old.jobs |= {job.id: job for job in old.deleted}
        super().remember(old)


_mixes_up(
    "persistence.release-with-delay",
    "a job released with a delay comes back ready",
    _sets(JobState.READY, lambda job: job.state is JobState.DELAYED and bool(job.releases)),
)
_forgets(
    "persistence.reserved-becomes-ready",
    "a job that was reserved is forgotten",
    lambda job: job.reserves > job.releases + job.buries + job.timeouts,
)


def _turns(job: Job) -> None:
    job.pri = 4 - job.pri if job.pri < 5 else job.pri


_mixes_up("persistence.order", "the five smallest priorities come back in reverse", _turns)
_forgets(
    "persistence.largest-body",
    "the two largest bodies are forgotten",
    lambda job: len(job.body) >= 65534,
)


@fault("persistence.ids-go-on", "ids begin at 1 with each start")
class BeginsAgain(Model):
    def remember(self, old: Model) -> None:
        super().remember(old)
        self.next_id = 1


@fault("persistence.counters-begin-anew", "the counters of commands are remembered")
class CountsOnAfterRestart(Model):
    def remember(self, old: Model) -> None:
        super().remember(old)
        self.commands = old.commands


says("persistence.file", "the first binlog is number 0", "stats-job", "^file: 1$", "file: 0")
for _key in ("current-index", "records-written"):
    told(f"persistence.{_key}", f"binlog-{_key} is always 0", "stats", f"binlog-{_key}", "0")
