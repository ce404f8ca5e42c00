"""Faults that only a crash shows: what is synced, in which order it is written, half of it.

``beanstalk-conformance durability`` finds them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reference_server.binlog import Binlog, BinlogError, KeptState
from reference_server.faults.binlog import written
from reference_server.faults.registry import fault
from reference_server.keeping import Keeper
from reference_server.state import JobState, KeptJob

_PAGE = 4096 + 24
"""Bytes of a page in the log, with its header."""
_HEADER = 32

# ------------------------------------------------------------ syncs


@fault("durability.power-loss", "with -f 0 nothing is synced")
class NeverSyncs(Binlog):
    def _mode(self) -> str:
        return "OFF"


@fault("durability.power-loss", "with -f 0 the log is synced when it is full")
class SyncsSeldom(Binlog):
    def _mode(self) -> str:
        return "NORMAL"


@fault("durability.power-loss", "with -f 0 the sync comes behind the reply")
class SyncsLate(SyncsSeldom):
    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        super().write(jobs, deleted, next_id)
        self.is_synced = False
        # The loop syncs the transaction after it has sent the replies.
        self.every = 1e-9


class _SyncsSome(Binlog):
    """It syncs some transactions only, with ``-f 0``."""

    def is_synced_at_once(self, jobs: list[KeptJob], gone: list[int]) -> bool:
        """Return whether such a transaction is synced."""
        raise NotImplementedError

    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        jobs, gone = [*jobs], [*deleted]
        mode = "FULL" if self.is_synced_at_once(jobs, gone) else "NORMAL"
        self._database.execute(f"PRAGMA synchronous = {mode}")
        super().write(jobs, gone, next_id)


@fault("durability.power-loss", "deletes are not synced")
class SyncsJobs(_SyncsSome):
    def is_synced_at_once(self, jobs: list[KeptJob], gone: list[int]) -> bool:
        return not gone


@fault("durability.power-loss", "buries are not synced")
class SyncsNoBury(_SyncsSome):
    def is_synced_at_once(self, jobs: list[KeptJob], gone: list[int]) -> bool:
        return all(job.state is not JobState.BURIED for job in jobs)


@fault("durability.power-loss", "large bodies are not synced")
class SyncsSmall(_SyncsSome):
    def is_synced_at_once(self, jobs: list[KeptJob], gone: list[int]) -> bool:
        return all(len(job.body) < 4096 for job in jobs)


@fault("durability.power-loss", "one transaction in five is not synced")
class SyncsFourOfFive(_SyncsSome):
    count = 0

    def is_synced_at_once(self, jobs: list[KeptJob], gone: list[int]) -> bool:
        self.count += 1
        return self.count % 5 > 0


@fault("durability.power-loss", "with -f MS nothing is ever synced")
class ForgetsToSync(Binlog):
    def sync(self) -> None:
        self.is_synced = True


# ------------------------------------------------------------ halves


@fault("durability.whole-jobs", "a body is written behind its job")
class BodyLast(Binlog):
    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        jobs = [*jobs]
        new = [job for job in jobs if job.id not in self._checksums and job.body]
        super().write([job._replace(body=job.body[:-1]) for job in new], (), next_id)
        super().write((), [job.id for job in new], next_id)
        super().write(jobs, deleted, next_id)


@fault("durability.whole-jobs", "a job is written before its id is known")
class IdLast(Binlog):
    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        jobs = [*jobs]
        new = [job for job in jobs if job.id not in self._checksums]
        ahead = [job._replace(id=next_id + 1000 + job.id) for job in new]
        super().write(ahead, (), next_id + 2000 + len(new))
        super().write(jobs, [*deleted, *(job.id for job in ahead)], next_id)


@fault("durability.starts", "a log that ends with half a page is refused")
class RefusesHalves(Binlog):
    def __init__(self, folder: str | Path, every: float | None) -> None:
        log = Path(folder, "jobs.db-wal")
        if log.exists() and (log.stat().st_size - _HEADER) % _PAGE not in (0, _PAGE - _HEADER):
            raise BinlogError(f"the log in {folder} ends within a page")
        super().__init__(folder, every)


@fault("durability.starts", "a folder stays locked after a kill")
class LockStays(Keeper):
    """A lock that only a clean end takes away."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.lock = self._binlog.folder / "lock"
        if self.lock.exists():
            raise BinlogError(f"another server keeps its jobs in {self._binlog.folder}")
        self.lock.touch()

    def close(self) -> None:
        super().close()
        self.lock.unlink(missing_ok=True)


# ------------------------------------------------------------ the order of buried jobs

written(
    "durability.buried-order",
    "the order of buried jobs is not written",
    lambda job: job._replace(place=0),
)


@fault("durability.buried-order", "buried jobs come back in reverse")
class Backwards(Binlog):
    def load(self) -> KeptState:
        jobs, next_id = super().load()
        return KeptState(jobs[::-1], next_id)


# ------------------------------------------------------------ the files of an older version


@fault("durability.upgrade", "a job that an older version has kept is lost")
class Converts(Binlog):
    def load(self) -> KeptState:
        jobs, next_id = super().load()
        converted = self.folder / "converted"
        if not converted.exists():
            jobs = jobs[:-1]
            converted.touch()
        return KeptState(jobs, next_id)
