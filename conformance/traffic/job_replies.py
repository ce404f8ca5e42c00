"""Replies about a job: to commands that name it, wait for it, or look for it."""

from __future__ import annotations

from conformance.traffic import jobs as job_states
from conformance.traffic.conversation import Asked, Conversation
from conformance.traffic.findings import Findings
from conformance.traffic.jobs import FollowedJob, Request
from conformance.traffic.knowledge import Knowledge
from conformance.traffic.queue_order import QueueOrder
from reference_server.state import SECOND
from reference_server.wire import Reply


class JobReplies:
    """Judges what is said of jobs by the states that they may be in.

    ``has_times``: see :class:`conformance.traffic.judge.TrafficJudge`.
    """

    def __init__(self, known: Knowledge, findings: Findings, has_times: bool) -> None:
        self._has_times = has_times
        self._known = known
        self._findings = findings
        self._order = QueueOrder(known, findings)

    # ------------------------------------------------------------ commands that name a job

    def named(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        """Judge a reply to a command that names a job."""
        request, id = asked.about, asked.args[0]
        assert request is not None
        assert isinstance(id, int)
        self._known.jobs.drop_stray(id, request)
        if reply.word in ("RESERVED", "FOUND") and not self.compare_id(conversation, asked, reply):
            return
        self.about(conversation, request, id, reply, reply.word)

    def compare_id(self, conversation: Conversation, asked: Asked, reply: Reply) -> bool:
        """Return whether a reply is about the job that a command names."""
        if reply.args[:1] == asked.args[:1]:
            return True
        expected = f"{reply.word} {asked.args[0]} …"
        self._findings.wrong(conversation, f"{asked.verb} id", expected, str(reply))
        return False

    def about(
        self, conversation: Conversation, request: Request, id: int, reply: Reply, word: str
    ) -> None:
        """Judge the word of a reply to a request about a job."""
        known = self._known
        if not known.is_following:
            return
        job = known.jobs.followed.get(id)
        if job is None:
            if word != "NOT_FOUND":
                self.meets(conversation, request, id, reply)
            return
        if request not in job.pending and request not in job.blurred:
            # It was met in between.
            return
        label, before = job.label, _expectation(job)
        if not known.jobs.fold(job, lambda: job.answered(request, word, known), request):
            self._findings.contradicts(conversation, job, request.verb, before, reply)
        elif reply.body is not None and word in ("RESERVED", "FOUND"):
            self._findings.compare_body(conversation, job, reply)
        if word in ("RELEASED", "BURIED") and request.verb in ("release", "bury"):
            job.has_priority_of(request, known.number)
        known.jobs.changed(job, label, known.number)

    def meets(
        self, conversation: Conversation, request: Request, id: int, reply: Reply
    ) -> FollowedJob | None:
        """Begin to follow the job that a reply shows; return None if that is not possible."""
        known, jobs = self._known, self._known.jobs
        deleted = jobs.deleted.get(id, -1)
        if deleted >= 0:
            if deleted < request.number:
                said = f"nothing about job {id}, which was deleted"
                kind = f"{request.verb} deleted"
                self._findings.wrong(conversation, kind, said, str(reply), unless_explained=True)
            return None
        is_new = request.verb != "put" and id > jobs.known_from
        if is_new and not (jobs.puts or jobs.has_lost_puts):
            known.bypassed(f"job {id} was put by nobody")
            return None
        if id >= 2**63 or jobs.is_full:
            return None
        job = FollowedJob(id, known.number)
        if reply.word == "DELETED":
            jobs.deleted[id] = known.number
            return None
        if reply.body is not None and reply.word != "OK":
            job.body = len(reply.body), hash(reply.body)
        job.blurred += jobs.strays.pop(id, ())
        jobs.follow(job, known.now)
        return job

    # ------------------------------------------------------------ reserve

    def waited(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        """Judge a reply to a command that waits for jobs."""
        word = reply.word
        if word == "RESERVED":
            self._reserved(conversation, asked, reply)
        elif word == "DEADLINE_SOON":
            holds = conversation.held or not conversation.is_known
            if not holds:
                said = "no DEADLINE_SOON for a client that holds no job"
                self._findings.wrong(conversation, "deadline", said, str(reply))
        elif word == "TIMED_OUT" and not conversation.has_ended:
            self._timed_out(conversation, asked, reply)

    def _timed_out(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        seconds = asked.args[0] if asked.args else None
        if asked.verb == "reserve" or seconds is None:
            said = "RESERVED, or no reply yet"
            self._findings.wrong(conversation, "reserve timeout", said, str(reply))
        elif isinstance(seconds, int):
            early = job_states.EARLY + seconds * SECOND // 1000
            passed = self._known.now - asked.at
            if self._has_times and passed + early < seconds * SECOND:
                expected = f"no reply before {seconds} s"
                observed = f"{reply} after {passed / SECOND:.3f} s"
                self._findings.wrong(conversation, "early timeout", expected, observed)
            self._order.passes_over(conversation, asked, asked.watched or (), None, reply)

    def _reserved(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        known, order, id = self._known, self._order, reply.args[0]
        assert isinstance(id, int)
        if not known.is_following:
            return
        request = Request(asked.number, conversation.conn, asked.verb, asked.at)
        job = known.jobs.followed.get(id)
        if job is None:
            job = self.meets(conversation, request, id, reply)
            if job is None:
                return
        label, before = job.label, _expectation(job)
        order.was_passed_over(job, asked)
        place = order.place(job)
        if not known.jobs.fold(job, lambda: job.reserved(request, known)):
            self._findings.contradicts(conversation, job, asked.verb, before, reply)
        else:
            self._findings.compare_body(conversation, job, reply)
            self._compare_tube(conversation, job, asked, reply)
            if job.tube is not None:
                known.tube(job.tube).given = known.number
        known.jobs.unlist(job)
        if place is not None:
            tubes = asked.watched or ()
            order.passes_over(conversation, asked, tubes, place, reply, job.tube)
        known.jobs.changed(job, label, known.number)

    def _compare_tube(
        self, conversation: Conversation, job: FollowedJob, asked: Asked, reply: Reply
    ) -> None:
        if asked.watched is not None and job.tube is not None and job.tube not in asked.watched:
            expected = f"a job of {' or '.join(asked.watched)}"
            observed = f"{reply}, which is in {job.tube}"
            kind = "reserve tube"
            self._findings.wrong(conversation, kind, expected, observed, unless_explained=True)

    # ------------------------------------------------------------ peek

    def peeked(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        """Judge the reply that shows the next job in a state, or that there is none."""
        known, order = self._known, self._order
        state = asked.verb.removeprefix("peek-")
        tubes = () if asked.tube is None else (asked.tube,)
        if not known.is_following:
            return
        if reply.word == "NOT_FOUND":
            if state == job_states.READY:
                order.passes_over(conversation, asked, tubes, None, reply, asked.tube)
            return
        id = reply.args[0]
        assert isinstance(id, int)
        request = Request(asked.number, conversation.conn, asked.verb, asked.at)
        job = known.jobs.followed.get(id)
        if job is None:
            self.meets(conversation, request, id, reply)
            return
        label, before = job.label, _expectation(job)
        if not known.jobs.fold(job, lambda: job.shown(state, request, known)):
            self._findings.contradicts(conversation, job, asked.verb, before, reply)
        else:
            self._findings.compare_body(conversation, job, reply)
            if asked.tube is not None and job.tube not in (None, asked.tube):
                observed = f"{reply}, which is in {job.tube}"
                said, kind = f"a job of {asked.tube}", "peek tube"
                self._findings.wrong(conversation, kind, said, observed, unless_explained=True)
            if state == job_states.READY and (place := order.place(job)) is not None:
                order.passes_over(conversation, asked, tubes, place, reply, asked.tube)
        known.jobs.changed(job, label, known.number)


def _expectation(job: FollowedJob) -> str:
    states = sorted(job.states)
    return f"a reply about job {job.id}, which is {' or '.join(states)}"
