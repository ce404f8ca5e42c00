"""Jobs of an embedded server, as a test compares them."""

from __future__ import annotations

from dataclasses import dataclass

from reference_server.state import SECOND, JobState
from reference_server.state import Job as ServedJob

STATES = tuple(state.value for state in JobState)
"""The states of a job: ready, reserved, delayed and buried."""


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A job at one moment; the fields are those of ``stats-job`` (protocol text, "Other Commands").

    ``delay`` and ``ttr`` are the seconds that it was put or released with, ``time_left`` the
    seconds until its TTR or delay ends (0.0 if it is ready or buried).
    """

    id: int
    tube: str
    state: str
    body: bytes
    priority: int
    delay: int
    ttr: int
    time_left: float
    reserves: int
    timeouts: int
    releases: int
    buries: int
    kicks: int


def snapshot(job: ServedJob, now: int) -> JobSnapshot:
    """Return a job as it is; ``now`` is in nanoseconds."""
    has_deadline = job.state in (JobState.RESERVED, JobState.DELAYED)
    return JobSnapshot(
        *(job.id, job.tube.name, job.state.value, job.body, job.pri, job.delay, job.ttr),
        (job.deadline - now) / SECOND if has_deadline else 0.0,
        *(job.reserves, job.timeouts, job.releases, job.buries, job.kicks),
    )
