"""Faults of persistence: jobs and counters after a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from reference_server.binlog import Binlog
from reference_server.faults.registry import always_says, fault, says
from reference_server.model import Model
from reference_server.state import SECOND, JobState, KeptJob

Change = Callable[[KeptJob], KeptJob | None]
"""A job as it comes back; None: it does not."""


def comes_back(requirement: str, summary: str, change: Change) -> None:
    """Register a fault in what the server remembers of each job."""

    class ComesBack(Model):
        def remember(self, kept: Iterable[KeptJob], next_id: int) -> None:
            super().remember([job for old in kept if (job := change(old)) is not None], next_id)

    fault(requirement, summary)(ComesBack)


def _forgets(requirement: str, summary: str, forgotten: Callable[[KeptJob], bool]) -> None:
    comes_back(requirement, summary, lambda job: None if forgotten(job) else job)


def _sets(state: JobState, was: Callable[[KeptJob], bool]) -> Change:
    return lambda job: job._replace(state=state) if was(job) else job


_forgets("persistence.put", "an empty job is forgotten", lambda job: not job.body)
comes_back(
    "persistence.priority",
    "remembered priorities have 31 bits",
    lambda job: job._replace(pri=min(job.pri, 2**31)),
)


@fault("persistence.delay", "a delay begins anew with the server")
class DelaysAgain(Model):
    def remember(self, kept: Iterable[KeptJob], next_id: int) -> None:
        again = (job._replace(deadline=self.now + job.delay * SECOND) for job in kept)
        super().remember(again, next_id)


@fault(
    "persistence.many-delays", "of more than 150 delays the last ones begin anew with the server"
)
class ManyDelaysAgain(Model):
    def remember(self, kept: Iterable[KeptJob], next_id: int) -> None:
        kept = [*kept]
        late = {job.id for job in [job for job in kept if job.state is JobState.DELAYED][150:]}
        super().remember(
            (
                job._replace(deadline=self.now + job.delay * SECOND) if job.id in late else job
                for job in kept
            ),
            next_id,
        )


comes_back(
    "persistence.bury",
    "buried jobs come back ready",
    _sets(JobState.READY, lambda job: job.state is JobState.BURIED),
)
comes_back(
    "persistence.buries",
    "a buried job comes back buried once more",
    lambda job: job._replace(buries=job.buries + (job.state is JobState.BURIED)),
)


@fault("persistence.release-priority", "a job comes back with the priority that put gave it")
class ForgetsPriority(Binlog):
    """A release without a delay is not written."""

    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        unwritten = [job for job in jobs if job.releases and job.state is JobState.READY]
        super().write([job for job in jobs if job not in unwritten], deleted, next_id)


comes_back(
    "persistence.kick",
    "kicked jobs come back buried",
    _sets(JobState.BURIED, lambda job: job.state is JobState.READY and bool(job.kicks)),
)


@fault("persistence.delete", "a job that was deleted comes back")
class KeepsDeleted(Binlog):
    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        super().write(jobs, (), next_id)


comes_back(
    "persistence.release-with-delay",
    "a job released with a delay comes back ready",
    _sets(JobState.READY, lambda job: job.state is JobState.DELAYED and bool(job.releases)),
)
_forgets(
    "persistence.reserved-becomes-ready",
    "a job that was reserved is forgotten",
    lambda job: job.reserves > job.releases + job.buries + job.timeouts,
)


comes_back(
    "persistence.order",
    "the five smallest priorities come back in reverse",
    lambda job: job._replace(pri=4 - job.pri if job.pri < 5 else job.pri),
)
_forgets(
    "persistence.largest-body",
    "the two largest bodies are forgotten",
    lambda job: len(job.body) >= 65534,
)


@fault("persistence.ids-go-on", "ids begin at 1 with each start")
class BeginsAgain(Model):
    def remember(self, kept: Iterable[KeptJob], next_id: int) -> None:
        super().remember(kept, 1)


@fault("persistence.counters-begin-anew", "a job that is remembered counts as put")
class CountsOnAfterRestart(Model):
    def remember(self, kept: Iterable[KeptJob], next_id: int) -> None:
        super().remember(kept, next_id)
        self.commands["put"] += len(self.jobs)


says("persistence.file", "the first binlog is number 0", "stats-job", "^file: 1$", "file: 0")
for _key in ("current-index", "records-written"):
    always_says(f"persistence.{_key}", f"binlog-{_key} is always 0", "stats", f"binlog-{_key}", "0")
