"""Tubes as far as traffic shows them: clients that wait, kicks, jobs that certainly are ready.

A client that waits gets the job with the smallest priority of all its tubes, and of equal ones the
oldest. Whether a job was ready all the while is known only later: when it is reserved by a request
that was sent afterwards. So a job that seems to be passed over is marked, and judged then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from sortedcontainers import SortedList

from conformance.traffic.jobs import FollowedJob
from reference_server.state import SECOND

MAX_TUBES = 20_000
"""Tubes beyond which those that hold nothing are forgotten."""
LOOKED_AT = 4
"""Jobs at the head of a tube of which one may have been passed over."""


class PassedOver(NamedTuple):
    """A reply that should have been about another job: sent and observed by these events.

    ``about``: the alarm that is raised if the other job was ready all the while.
    """

    sent: int
    observed: int
    about: object


@dataclass(slots=True)
class TubeView:
    """One tube. Requests are named by the events that have sent them."""

    name: str
    waiters: dict[int, int] = field(default_factory=dict)
    """The clients that wait for its jobs, or will: connections by request."""
    kicks: dict[int, int] = field(default_factory=dict)
    """The kicks in flight: connections by request."""
    kicked: int = 0
    """The event by which jobs were kicked last."""
    ready: SortedList[tuple[int, int]] = field(default_factory=SortedList)
    """Priorities and ids of jobs that certainly are ready, if none that wait has got them."""
    pauses: int = 0
    """Pauses in flight."""
    paused_until: int = 0
    """Nanoseconds of the time until which it may be paused."""
    given: int = 0
    """The event by which a client that waited got a job of it last."""
    job_count: int = 0
    """Jobs of it that are followed."""

    @property
    def is_idle(self) -> bool:
        """Return whether this view can be dropped without any loss of knowledge."""
        return not (self.waiters or self.kicks or self.job_count or self.pauses)

    def is_known_open(self, at: int) -> bool:
        """Return whether it certainly was not paused from a time on."""
        return not self.pauses and self.paused_until < at

    def paused(self, seconds: int, now: int) -> None:
        """Note that a pause has begun by now."""
        self.pauses -= 1
        self.paused_until = max(self.paused_until, now + (seconds + 2) * SECOND)

    def before(self, place: tuple[int, int] | None) -> Iterable[int]:
        """Return the ids of the first jobs that go before a place; None: before nothing else."""
        head = self.ready[:LOOKED_AT]
        return [id for pri, id in head if place is None or (pri, id) < place]

    def add(self, job: FollowedJob, number: int) -> None:
        """Note that a job certainly is ready from an event on."""
        assert job.pris is not None
        (pri,) = job.pris
        job.ready_since = number
        self.ready.add((pri, job.id))

    def remove(self, job: FollowedJob) -> None:
        """Note that a job may be taken, or changed, from now on."""
        for pri in job.pris or ():
            self.ready.discard((pri, job.id))


class Tubes:
    """All tubes, and the requests in flight that take or kick their jobs.

    A client whose tubes are not known may wait for jobs of each tube, and kick those of each.
    """

    def __init__(self) -> None:
        self.views: dict[str, TubeView] = {}
        self._wide_waiters: dict[int, int] = {}
        self._wide_kicks: dict[int, int] = {}
        self._kicked = 0

    def view(self, name: str, now: int) -> TubeView:
        """Return the view of a tube, perhaps one that nothing was seen of yet."""
        view = self.views.get(name)
        if view is None:
            if len(self.views) >= MAX_TUBES:
                idle = [
                    name
                    for name, one in self.views.items()
                    if one.is_idle and one.paused_until < now
                ]
                for other in idle:
                    del self.views[other]
            view = self.views[name] = TubeView(name)
        return view

    def forget_jobs(self) -> None:
        """Forget which jobs are ready."""
        for view in self.views.values():
            view.ready.clear()
            view.job_count = view.given = 0

    # ------------------------------------------------------------ clients that wait

    @property
    def has_wide_waiters(self) -> bool:
        """Return whether a client waits for jobs of tubes that are not known."""
        return bool(self._wide_waiters)

    def begins_waiting(
        self, request: int, conn: int, watched: tuple[str, ...] | None, now: int
    ) -> None:
        """Note a request that waits for jobs; ``watched``: None if its tubes are not known."""
        if watched is None:
            self._wide_waiters[request] = conn
        for tube in watched or ():
            self.view(tube, now).waiters[request] = conn

    def ends_waiting(self, request: int, watched: tuple[str, ...] | None) -> None:
        """Note that a request does not wait any more."""
        self._wide_waiters.pop(request, None)
        for tube in watched or ():
            if (view := self.views.get(tube)) is not None:
                view.waiters.pop(request, None)

    def may_be_taken(self, tube: str | None, since: int = 2**64) -> bool:
        """Return whether a client has waited for jobs of a tube since before an event."""
        if next(iter(self._wide_waiters), since) < since:
            return True
        if tube is None:
            return any(one.waiters for one in self.views.values())
        view = self.views.get(tube)
        return view is not None and next(iter(view.waiters), since) < since

    # ------------------------------------------------------------ kicks

    def begins_kick(self, request: int, conn: int, tube: str | None, now: int) -> None:
        """Note a kick of a tube; None if it is not known which."""
        kicks = self._wide_kicks if tube is None else self.view(tube, now).kicks
        kicks[request] = conn

    def ends_kick(self, request: int, tube: str | None, number: int, has_kicked: bool) -> None:
        """Note that a kick is over by event ``number``."""
        view = None if tube is None else self.views.get(tube)
        kicks = self._wide_kicks if view is None else view.kicks
        if kicks.pop(request, None) is not None and has_kicked:
            if view is None:
                self._kicked = number
            else:
                view.kicked = number

    def may_be_kicked(self, tube: str | None, since: int) -> bool:
        """Return whether a kick may have taken effect after an event."""
        if self._wide_kicks or self._kicked > since:
            return True
        if tube is None:
            return any(one.kicks or one.kicked > since for one in self.views.values())
        view = self.views.get(tube)
        return view is not None and (bool(view.kicks) or view.kicked > since)
