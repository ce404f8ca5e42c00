"""Tubes as far as traffic shows them: who waits, which jobs certainly are ready, what holds them.

A client that waits gets the job with the smallest priority of all its tubes, and of equal ones the
oldest. Whether a job was ready all the while is known only later: when it is reserved by a request
that was sent afterwards. So a job that seems to be passed over is marked, and judged then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from sortedcontainers import SortedList

from conformance.traffic.jobs import Job
from reference_server.state import SECOND

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
        """Return whether nothing is known that would be lost with it."""
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

    def add(self, job: Job, number: int) -> None:
        """Note that a job certainly is ready from an event on."""
        assert job.pris is not None
        (pri,) = job.pris
        job.ready_since = number
        self.ready.add((pri, job.id))

    def remove(self, job: Job) -> None:
        """Note that a job may be taken, or changed, from now on."""
        for pri in job.pris or ():
            self.ready.discard((pri, job.id))
