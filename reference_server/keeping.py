"""The jobs of a model, kept in a binlog: changes are written before any reply reports them.

The model does not know of this. :class:`Observed` notes the jobs that change; :class:`Keeper`
writes them, all that changed in a turn of the loop in one transaction. That a job was reserved need
not be written at once: as after the end of its client, it is ready again after that of its server.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any

from reference_server.binlog import Binlog
from reference_server.model import Model
from reference_server.state import SECOND, Client, Job, JobState, KeptJob, kept
from reference_server.system import tell
from reference_server.wire import Reply

_MUCH = 2**18
"""Bytes of bodies that wait to be written at most, of more than one job."""
_MICROSECOND = 1000
_AGAIN = 0.1
"""Seconds until what could not be written is tried again."""


class Observed(Model):
    """A model that notes which jobs change, in the order of the last change of each.

    ``counted`` are those that are but reserved.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.changed: dict[int, None] = {}
        self.counted: set[int] = set()
        self.unwritten = 0
        self.room: Callable[[int], bool] = lambda _: True

    def _changes(self, job: Job) -> None:
        self.changed.pop(job.id, None)
        self.changed[job.id] = None

    def _make_ready(self, job: Job) -> None:
        self._changes(job)
        super()._make_ready(job)

    def _make_delayed(self, job: Job, deadline: int) -> None:
        self._changes(job)
        super()._make_delayed(job, deadline)

    def _make_buried(self, job: Job) -> None:
        self._changes(job)
        super()._make_buried(job)

    def _make_reserved(self, job: Job, conn: Client) -> None:
        if job.state is JobState.READY:
            self.counted.add(job.id)
        else:
            self._changes(job)
        super()._make_reserved(job, conn)

    def _delete(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        reply = super()._delete(conn, id)
        if job is not None and id not in self.jobs:
            self._changes(job)
        return reply

    def _has_room(self, size: int) -> bool:
        if not (self.room(self.unwritten + size) and super()._has_room(size)):
            return False
        self.unwritten += size
        return True


def observed(model: type[Model]) -> type[Observed]:
    """Return a kind of model, observed."""
    return type(model.__name__, (Observed, model), {})


class Keeper:
    """Writes what an observed model notes.

    ``clock`` is the model's, ``wall`` the time since 1970, both in nanoseconds.
    """

    def __init__(
        self, model: Observed, binlog: Binlog, clock: Callable[[], int], wall: Callable[[], int]
    ) -> None:
        self._model = model
        self._binlog = binlog
        self._clock = clock
        self._wall = wall
        self._sync_at: float | None = None
        self._fails = self._sync_fails = self._is_over = False
        model.room = binlog.has_room
        jobs, next_id = binlog.load()
        ahead = self._ahead()
        self._places = itertools.count(max((job.place for job in jobs), default=0) + 1)
        model.remember((self._on_our_clock(job, ahead) for job in jobs), next_id)
        model.changed.clear()

    def _ahead(self) -> int:
        """Return how much the time since 1970 is ahead of the model's, in nanoseconds."""
        return self._wall() - self._clock()

    def _on_our_clock(self, job: KeptJob, ahead: int) -> KeptJob:
        """Return a job with the times of our clock.

        If the wall clock was set back, none was put in the future, nor is delayed for longer than
        its delay.
        """
        created, deadline = (time * _MICROSECOND - ahead for time in (job.created, job.deadline))
        now = self._clock()
        latest = now + job.delay * SECOND
        return job._replace(created=min(created, now), deadline=min(deadline, latest))

    def _kept(self, job: Job, ahead: int) -> KeptJob:
        place = next(self._places) if job.state is JobState.BURIED else 0
        # A delay must not end early.
        deadline = -(-(job.deadline + ahead) // _MICROSECOND)
        return kept(job, place)._replace(
            created=(job.created + ahead) // _MICROSECOND,
            deadline=deadline if job.state is JobState.DELAYED else 0,
        )

    # ------------------------------------------------------------ what the engine asks

    @property
    def is_behind(self) -> bool:
        """Return whether anything has changed that no reply may report yet."""
        return bool(self._model.changed) and not self._is_over

    @property
    def is_full(self) -> bool:
        """Return whether so much waits to be written that it must be now."""
        return self._model.unwritten > _MUCH

    def catch_up(self) -> bool:
        """Write what has changed; return whether that could be done."""
        model = self._model
        if not model.changed:
            return True
        changed = [*model.changed, *(model.counted - model.changed.keys())]
        jobs, ahead = model.jobs, self._ahead()
        left = [self._kept(jobs[id], ahead) for id in changed if id in jobs]
        try:
            self._binlog.write(left, [id for id in changed if id not in jobs], model.next_id)
        except OSError as error:
            if not self._fails:
                tell(str(error))
            self._fails = True
            return False
        self._fails = False
        model.changed.clear()
        model.counted.clear()
        model.unwritten = 0
        return True

    # ------------------------------------------------------------ what the server asks

    def next_due(self) -> float | None:
        """Sync what is due to be; return the seconds until there is more to do, None if never."""
        if self._fails:
            return _AGAIN
        binlog, now = self._binlog, time.monotonic()
        if binlog.is_synced or not binlog.every:
            return None
        if self._sync_at is None:
            self._sync_at = now + binlog.every
        elif self._sync_at <= now:
            self._sync_at = None if self._has_synced() else now + _AGAIN
        return None if self._sync_at is None else self._sync_at - now

    def _has_synced(self) -> bool:
        """Sync what was written; return whether that could be done."""
        try:
            self._binlog.sync()
        except OSError as error:
            if not self._sync_fails:
                tell(f"cannot sync {self._binlog.folder}: {error.strerror}")
            self._sync_fails = True
            return False
        self._sync_fails = False
        return True

    def numbers(self) -> Mapping[str, object]:
        """Return the values of stats that belong to the binlog."""
        return {
            "binlog-records-written": self._binlog.written,
            "binlog-max-size": self._binlog.max_size,
        }

    def close(self) -> None:
        """Write what is left, and leave the folder to another server."""
        if not self._is_over:
            self._model.changed |= dict.fromkeys(self._model.counted)
            self.catch_up()
            self.abandon()

    def abandon(self) -> None:
        """Write nothing more, and leave the folder to another server."""
        self._is_over = True
        self._binlog.close()
