"""The jobs of a server: those that are followed, those that were deleted, and their ids."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable

from conformance.traffic.jobs import FollowedJob, Request, TooManyPossibilities
from conformance.traffic.tubes import Tubes

MAX_JOBS = 200_000
"""Jobs beyond which the judge begins anew."""
MAX_DELETED = 50_000
"""Deleted jobs that are remembered."""


class JobTable:
    """Jobs by id.

    ``labels``: how many are in each state. ``deleted``: the events by which jobs were deleted.
    ``strays``: requests in flight that name jobs which are not followed. ``puts``: puts in flight;
    ``has_lost_puts``: others may have put jobs, too. ``known_from``: the first id of a job that
    must have been seen. ``highest``: the highest id of a put. ``accepted``, ``refused``: sizes of
    the largest body that was accepted, and of the smallest that was refused.
    """

    def __init__(self, tubes: Tubes) -> None:
        self.followed: dict[int, FollowedJob] = {}
        self.labels: Counter[str] = Counter()
        self.deleted: OrderedDict[int, int] = OrderedDict()
        self.strays: dict[int, list[Request]] = {}
        self.puts: set[int] = set()
        self.has_lost_puts = False
        self.highest = 0
        self.known_from = 2**64
        self.accepted, self.refused = -1, 2**64
        self._tubes = tubes

    @property
    def is_full(self) -> bool:
        """Return whether no more jobs are followed."""
        return len(self.followed) >= MAX_JOBS

    def forget(self) -> None:
        """Forget all jobs; puts in flight may still put some."""
        self.followed.clear()
        self.labels.clear()
        self.deleted.clear()
        self.strays.clear()
        self.has_lost_puts = False
        self.highest = 0
        self.known_from = 2**64
        self.accepted, self.refused = -1, 2**64
        self._tubes.forget_jobs()

    def follow(self, job: FollowedJob, now: int) -> None:
        """Follow a job from now on."""
        self.followed[job.id] = job
        self.labels[job.label] += 1
        if job.tube is not None:
            self._tubes.view(job.tube, now).job_count += 1

    def fold(
        self, job: FollowedJob, take: Callable[[], bool | None], request: Request | None = None
    ) -> bool:
        """Take a reply about a job; forget its state if it may be in too many."""
        try:
            return take() is not False
        except TooManyPossibilities:
            self.unlist(job)
            job.forget()
            job.blurred = [one for one in job.blurred if one is not request]
            return True

    def changed(self, job: FollowedJob, label: str, number: int) -> None:
        """Note that a job may have changed by an event; forget it if it certainly was deleted."""
        if self.followed.get(job.id) is not job:
            return
        if job.is_gone:
            self.unlist(job)
            del self.followed[job.id]
            self.labels[label] -= 1
            if job.tube in self._tubes.views:
                self._tubes.views[job.tube].job_count -= 1
            self.deleted[job.id] = number
            if len(self.deleted) > MAX_DELETED:
                self.deleted.popitem(last=False)
        elif job.label != label:
            self.labels[label] -= 1
            self.labels[job.label] += 1

    def unlist(self, job: FollowedJob) -> None:
        """Note that a job is not certainly ready any more."""
        if job.ready_since and job.tube in self._tubes.views:
            self._tubes.views[job.tube].remove(job)
        job.ready_since = 0
        job.passed_over = None

    # ------------------------------------------------------------ jobs that are not followed

    def add_strays(self, named: Iterable[tuple[int, Request]]) -> None:
        """Note requests in flight about jobs that are not followed."""
        for id, request in named:
            self.strays.setdefault(id, []).append(request)

    def drop_stray(self, id: int, request: Request) -> None:
        """Note that a request is not in flight any more."""
        strays = self.strays.get(id)
        if strays is not None:
            strays[:] = [one for one in strays if one is not request]
            if not strays:
                del self.strays[id]

    def unfollow(self, id: int, request: Request, number: int) -> None:
        """Forget the state of the job that a request names."""
        self.drop_stray(id, request)
        if (job := self.followed.get(id)) is not None:
            label = job.label
            job.forget()
            job.blurred = [one for one in job.blurred if one is not request]
            self.changed(job, label, number)
