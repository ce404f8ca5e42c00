"""Replies to put: the body and its size, and the id of the new job."""

from __future__ import annotations

from conformance.traffic import jobs as job_states
from conformance.traffic.conversation import Asked, Conversation
from conformance.traffic.findings import Findings
from conformance.traffic.job_replies import JobReplies
from conformance.traffic.job_table import MAX_JOBS
from conformance.traffic.jobs import FollowedJob, Possibility, Request
from conformance.traffic.knowledge import Knowledge
from reference_server.state import SECOND
from reference_server.wire import Reply


class PutReplies:
    """Judges replies to put. ``readable``: bytes of a body that are read."""

    def __init__(
        self, known: Knowledge, findings: Findings, jobs: JobReplies, readable: int
    ) -> None:
        self._known = known
        self._wrong = findings.wrong
        self._job_replies = jobs
        self._readable = readable

    def judge(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        """Judge the reply to a put."""
        assert asked.put is not None
        put, body, word, jobs = asked.put, asked.body, reply.word, self._known.jobs
        if word == "JOB_TOO_BIG":
            if put.size <= jobs.accepted:
                said = f"INSERTED: a body of {jobs.accepted} bytes was accepted before"
                self._wrong(conversation, "put too big", said, str(reply), unless_explained=True)
            jobs.refused = min(jobs.refused, put.size)
            return
        if body is None:
            if asked.awaits_body and word != "DRAINING":
                self._wrong(conversation, "put early", "no reply before its body", str(reply))
            return
        is_right = body.data is not None
        if put.size <= self._readable and not is_right and word != "EXPECTED_CRLF":
            self._wrong(conversation, "put end", "EXPECTED_CRLF", str(reply))
        elif is_right and word == "EXPECTED_CRLF":
            self._wrong(conversation, "put end", "INSERTED", str(reply))
        elif word == "INSERTED":
            jobs.accepted = max(jobs.accepted, put.size)
            if put.size >= jobs.refused:
                said = f"JOB_TOO_BIG, as for a body of {jobs.refused} bytes"
                self._wrong(conversation, "put too big", said, str(reply), unless_explained=True)
            self._inserted(conversation, asked, reply)
        elif word == "BURIED":
            jobs.has_lost_puts = True

    def _inserted(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        known, jobs, id = self._known, self._known.jobs, reply.args[0]
        assert isinstance(id, int)
        if not known.is_following:
            return
        if asked.number <= known.anew:
            request = Request(0, 0, "put", asked.at)
            self._job_replies.meets(conversation, request, id, reply)
            return
        job = jobs.followed.get(id)
        deleted = jobs.deleted.get(id, -1)
        is_new = deleted < 0 and job is None
        is_early = deleted > asked.number or (job is not None and job.first > asked.number)
        if not (is_new or is_early):
            said = "INSERTED with an id that no job had before"
            self._wrong(conversation, "put id", said, str(reply), unless_explained=True)
            return
        if id <= asked.floor:
            said = f"INSERTED with an id above {asked.floor}"
            self._wrong(conversation, "put order", said, str(reply), unless_explained=True)
            return
        if id > jobs.highest > 0:
            # A server that was started again would begin at 1, or have kept its jobs.
            known.idle = 0
        jobs.highest = max(jobs.highest, id)
        jobs.known_from = min(jobs.known_from, id)
        if deleted > 0:
            return
        if jobs.is_full:
            known.begin_anew(f"there are more than {MAX_JOBS:,} jobs: they are forgotten")
        elif job is not None:
            self._was_met(conversation, job, asked)
        else:
            self._is_new(id, asked)

    def _was_met(self, conversation: Conversation, job: FollowedJob, asked: Asked) -> None:
        """Take the put of a job that another reply has shown before."""
        body = _hashed(asked)
        if job.body not in (None, body):
            said = f"the body that job {job.id} was shown with before"
            self._wrong(conversation, "put body", said, "another body", unless_explained=True)
        assert asked.put is not None
        job.body, job.tube = body, asked.tube
        job.ttr, job.delay = max(asked.put.ttr, 1), asked.put.delay

    def _is_new(self, id: int, asked: Asked) -> None:
        """Follow a job from its put on."""
        known, put = self._known, asked.put
        assert put is not None
        job = FollowedJob(
            id, known.number, asked.tube, _hashed(asked), max(put.ttr, 1), put.delay, {put.pri}
        )
        strays = known.jobs.strays.pop(id, None)
        if strays is not None:
            job.blurred += strays
        elif put.delay:
            delay = put.delay * SECOND
            soonest, latest = asked.at + delay, known.now + delay
            job.possible = [Possibility(job_states.DELAYED, 0, soonest, latest, asked.number)]
            job.is_fresh = True
        else:
            job.possible = [Possibility(job_states.READY, 0, asked.at, 0, asked.number)]
            job.is_fresh = True
        known.jobs.follow(job, known.now)
        if strays is None and not put.delay and job.tube is not None:
            known.tube(job.tube).add(job, known.number)


def _hashed(asked: Asked) -> tuple[int, int] | None:
    """Return the size and hash of a body."""
    data = asked.body.data if asked.body else None
    return None if data is None else (len(data), hash(data))
