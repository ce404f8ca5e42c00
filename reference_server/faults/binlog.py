"""Faults of the binlog: what is written of each job, when, and what is read of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from reference_server.binlog import Binlog, BinlogError, KeptState
from reference_server.faults.persistence import comes_back
from reference_server.faults.registry import fault
from reference_server.keeping import Keeper
from reference_server.model import Model
from reference_server.state import SECOND, JobState, KeptJob

MINUTE = 60 * SECOND


def written(requirement: str, summary: str, change: Callable[[KeptJob], KeptJob]) -> None:
    """Register a fault in what is written of a job."""

    class ChangesEntries(Binlog):
        def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
            super().write([change(job) for job in jobs], deleted, next_id)

    fault(requirement, summary)(ChangesEntries)


def _not_written(requirement: str, summary: str, which: Callable[[KeptJob], bool]) -> None:
    """Register a fault by which some changes of jobs are not written."""

    class NotWritten(Binlog):
        def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
            super().write([job for job in jobs if not which(job)], deleted, next_id)

    fault(requirement, summary)(NotWritten)


def _read(requirement: str, summary: str, change: Callable[[list[KeptJob]], list[KeptJob]]) -> None:
    """Register a fault in what is read of all jobs."""

    class Read(Binlog):
        def load(self) -> KeptState:
            jobs, next_id = super().load()
            return KeptState(change(jobs), next_id)

    fault(requirement, summary)(Read)


# ------------------------------------------------------------ parts of a job

comes_back(
    "persistence.put",
    "jobs come back in the tube default",
    lambda job: job._replace(tube="default"),
)
written(
    "persistence.put",
    "a body is written without its last byte",
    lambda job: job._replace(body=job.body[:-1]),
)
written(
    "persistence.put",
    "a body is written up to its first CR LF",
    lambda job: job._replace(body=job.body.partition(b"\r\n")[0]),
)
written(
    "persistence.put",
    "bodies are written with seven bits",
    lambda job: job._replace(body=bytes(byte & 127 for byte in job.body)),
)
comes_back("persistence.priority", "the TTR is not written", lambda job: job._replace(ttr=120))
written(
    "persistence.priority",
    "the largest priority is written as 0",
    lambda job: job._replace(pri=job.pri if job.pri < 2**32 - 1 else 0),
)
comes_back(
    "persistence.delay",
    "delays are remembered in whole minutes",
    lambda job: job._replace(deadline=-(-job.deadline // MINUTE) * MINUTE),
)
comes_back(
    "persistence.delay",
    "delayed jobs that were never reserved come back ready",
    lambda job: job if job.reserves else job._replace(state=JobState.READY),
)
written(
    "persistence.bury",
    "the priority of a bury is not written",
    lambda job: job._replace(pri=0) if job.state is JobState.BURIED else job,
)
_not_written("persistence.bury", "a bury is not written", lambda job: job.state is JobState.BURIED)
_not_written(
    "persistence.kick",
    "a kick is not written",
    lambda job: job.state is JobState.READY and bool(job.kicks),
)
written(
    "persistence.release-with-delay",
    "the delay of a release is written as 0",
    lambda job: job._replace(delay=0) if job.releases else job,
)
_not_written(
    "persistence.release-with-delay",
    "a release with a delay is not written",
    lambda job: job.state is JobState.DELAYED and bool(job.releases),
)
comes_back(
    "persistence.reserved-becomes-ready",
    "a job that was reserved comes back buried",
    lambda job: (
        job._replace(state=JobState.BURIED)
        if job.reserves > job.releases + job.buries + job.timeouts
        else job
    ),
)
comes_back(
    "persistence.order",
    "priorities below five come back even",
    lambda job: job._replace(pri=job.pri & ~1 if job.pri < 5 else job.pri),
)


@fault("persistence.age", "the age begins anew with the server")
class YoungAfterRestart(Model):
    def remember(self, kept: Iterable[KeptJob], next_id: int) -> None:
        super().remember((job._replace(created=self.now) for job in kept), next_id)


# ------------------------------------------------------------ all jobs


def _up_to_the_largest(jobs: list[KeptJob]) -> list[KeptJob]:
    jobs.sort(key=lambda job: job.id)
    large = next((n for n, job in enumerate(jobs) if len(job.body) >= 65534), len(jobs))
    return jobs[: large + 1]


_read("persistence.largest-body", "what follows the largest body is forgotten", _up_to_the_largest)
_read("persistence.many-jobs", "of many jobs, the last 256 are read", lambda jobs: jobs[-256:])


@fault("persistence.ids-go-on", "ids go on ten before the last")
class GoesBack(Model):
    def remember(self, kept: Iterable[KeptJob], next_id: int) -> None:
        super().remember(kept, max(next_id - 10, 1))


@fault("persistence.many-jobs", "of many jobs that are deleted in one go, 100 are")
class DeletesSome(Binlog):
    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        super().write(jobs, [*deleted][:100], next_id)


@fault("persistence.many-jobs", "where much was deleted, a job is lost")
class Compacts(Binlog):
    """It makes the database small when the server ends, and begins behind the first job."""

    gone = 0

    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        super().write(jobs, gone := [*deleted], next_id)
        self.gone += len(gone)

    def close(self) -> None:
        if self.gone > 100:
            self.write((), [min(self._checksums)], self.load().next_id)
            self.gone = 0
        super().close()


@fault("persistence.many-jobs", "of more than 10 MB, the last jobs are not written")
class Full(Binlog):
    size = 0

    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        written = []
        for job in jobs:
            self.size += len(job.body)
            if self.size < 10_000_000:
                written.append(job)
        super().write(written, deleted, next_id)


@fault("persistence.delete", "what is deleted after a TTR has ended comes back")
class KeepsExpired(Binlog):
    has_expired = False

    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        jobs = [*jobs]
        self.has_expired |= any(job.timeouts for job in jobs)
        super().write(jobs, () if self.has_expired else deleted, next_id)


@fault("persistence.old-jobs", "where a megabyte of jobs was deleted, the binlog begins anew")
class BeginsAnew(Binlog):
    """A job that is there then is kept only if it changes once more."""

    def __init__(self, folder: str | Path, every: float | None) -> None:
        super().__init__(folder, every)
        self.sizes: dict[int, int] = {}
        self.gone = 0

    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        jobs, deleted = [*jobs], [*deleted]
        self.gone += sum(self.sizes.pop(id, 0) for id in deleted)
        if self.gone > 1_000_000:
            deleted += self.sizes
            self.sizes.clear()
            self.gone = 0
        self.sizes |= {job.id: len(job.body) for job in jobs}
        super().write(jobs, deleted, next_id)


@fault("persistence.again", "a job that is not touched is kept over one restart")
class KeepsOnce(Binlog):
    def __init__(self, folder: str | Path, every: float | None) -> None:
        super().__init__(folder, every)
        self.old: set[int] = set()

    def load(self) -> KeptState:
        kept = super().load()
        self.old = {job.id for job in kept.jobs}
        self.write((), self.old, kept.next_id)
        return kept


@fault("persistence.again", "a remembered job that is deleted comes back")
class DeletesNew(Binlog):
    old: frozenset[int] = frozenset()

    def load(self) -> KeptState:
        kept = super().load()
        self.old = frozenset(job.id for job in kept.jobs)
        return kept

    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        super().write(jobs, [id for id in deleted if id not in self.old], next_id)


# ------------------------------------------------------------ when it is written


@fault("persistence.put", "the last transaction is not written")
class OneBehind(Binlog):
    waiting: tuple[list[KeptJob], list[int], int] | None = None

    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        if self.waiting is not None:
            super().write(*self.waiting)
        self.waiting = [*jobs], [*deleted], next_id


@fault("persistence.put", "a folder is left locked")
class StaysLocked(Binlog):
    def __init__(self, folder: str | Path, every: float | None) -> None:
        lock = Path(folder, "lock")
        if lock.exists():
            raise BinlogError(f"another server keeps its jobs in {folder}")
        super().__init__(folder, every)
        lock.touch()


@fault("persistence.kill", "jobs are written when the server ends")
class WritesLate(Keeper):
    """It writes what waits only when the server ends."""

    ends = False

    def waits(self) -> bool:
        """Return whether what has changed is not written yet."""
        return True

    @property
    def is_behind(self) -> bool:
        return (self.ends or not self.waits()) and super().is_behind

    def catch_up(self) -> bool:
        return super().catch_up() if self.ends or not self.waits() else True

    def close(self) -> None:
        self.ends = True
        super().close()


@fault("persistence.kill", "a job is answered before the next one is written")
class LatePairs(WritesLate):
    def waits(self) -> bool:
        return len(self._model.changed) < 2


@fault("persistence.kill", "a delete is written with the next change")
class LateDeletes(WritesLate):
    def waits(self) -> bool:
        return not self._model.changed.keys() & self._model.jobs.keys()


@fault("persistence.kill", "a kick is written with the next change")
class LateKicks(WritesLate):
    def waits(self) -> bool:
        changed = [self._model.jobs.get(id) for id in self._model.changed]
        return all(job is not None and job.kicks and job.reserver is None for job in changed)
