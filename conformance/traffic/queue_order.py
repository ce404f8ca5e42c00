"""The order of a queue: of the jobs that certainly are ready, a client gets the first."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.traffic import jobs as job_states
from conformance.traffic.alarms import Alarm
from conformance.traffic.conversation import Asked, Conversation
from conformance.traffic.findings import Findings
from conformance.traffic.jobs import FollowedJob
from conformance.traffic.knowledge import Knowledge
from conformance.traffic.tubes import PassedOver
from reference_server.wire import Reply


class QueueOrder:
    """Marks jobs that seem to be passed over; their next reservation decides it."""

    def __init__(self, known: Knowledge, findings: Findings) -> None:
        self._known = known
        self._findings = findings

    def place(self, job: FollowedJob) -> tuple[int, int] | None:
        """Return the place of a job in its queue; None if it is not certain."""
        if not job.is_fresh or job.pris is None or len(job.pris) != 1:
            return None
        (pri,) = job.pris
        return pri, job.id if self._known.profile.first_in_first_out else 0

    def passes_over(
        self,
        conversation: Conversation,
        asked: Asked,
        tubes: Iterable[str],
        place: tuple[int, int] | None,
        reply: Reply,
        tube: str | None = None,
    ) -> None:
        """Mark jobs that seem to be passed over by a reply."""
        known = self._known
        for name in tubes:
            view = known.tubes.views.get(name)
            if view is None or not view.ready:
                continue
            is_open = name == tube or (view.given and view.is_known_open(asked.at))
            is_other = tube is not None and name != tube
            if not is_open or (is_other and not known.profile.first_in_first_out):
                continue
            for id in view.before(place):
                job = known.jobs.followed.get(id)
                if job is None or not 0 < job.ready_since < asked.number:
                    continue
                if job.passed_over is None:
                    alarm = self._findings.alarm(
                        conversation,
                        "server",
                        f"{asked.verb} order",
                        f"job {id}, which was ready in {name}, before others",
                        str(reply),
                    )
                    job.passed_over = PassedOver(asked.number, known.number, alarm)
                return

    def was_passed_over(self, job: FollowedJob, asked: Asked) -> None:
        """Raise the alarm about a job that was ready when it was passed over."""
        known, passed = self._known, job.passed_over
        if not isinstance(passed, PassedOver) or not isinstance(passed.about, Alarm):
            return
        was_ready = (
            job.ready_since
            and asked.number > passed.observed
            and job.states == {job_states.READY}
            and not known.may_be_taken(job.tube, passed.observed)
            and not known.has_lost_a_waiter(job.ready_since)
        )
        if was_ready and not known.is_explained():
            known.alarms.add(passed.about)
