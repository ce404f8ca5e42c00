"""Findings: what the judge cannot explain becomes an alarm, and everything else does not."""

from __future__ import annotations

from dataclasses import replace

from conformance.traffic.alarms import About, Alarm
from conformance.traffic.conversation import Conversation
from conformance.traffic.in_flight import InFlight
from conformance.traffic.jobs import FollowedJob
from conformance.traffic.knowledge import Knowledge
from conformance.traffic.requests import Remark
from reference_server.state import SECOND
from reference_server.wire import Reply, escape


class Findings:
    """Raises alarms about the server and its clients."""

    def __init__(self, known: Knowledge, in_flight: InFlight) -> None:
        self._known = known
        self._in_flight = in_flight

    def wrong(
        self,
        conversation: Conversation,
        kind: str,
        expected: str,
        observed: str,
        unless_explained: bool = False,
    ) -> None:
        """Raise an alarm about the server, unless something else may explain it."""
        known = self._known
        if not conversation.is_clear:
            why = f"{conversation.name} has sent lines that servers read in different ways"
            self._in_flight.drops(conversation.conn, why)
            return
        if unless_explained and (not known.is_following or known.is_explained()):
            return
        known.alarms.add(self.alarm(conversation, "server", kind, expected, observed))

    def contradicts(
        self, conversation: Conversation, job: FollowedJob, verb: str, expected: str, reply: Reply
    ) -> None:
        """Raise an alarm about a reply that no state of a job allows."""
        self._known.jobs.unlist(job)
        kind = f"{verb} {reply.word}"
        self.wrong(conversation, kind, expected, f"{reply} to {verb}", unless_explained=True)

    def compare_body(self, conversation: Conversation, job: FollowedJob, reply: Reply) -> None:
        """Compare the body of a reply with that of its job."""
        assert reply.body is not None
        body = len(reply.body), hash(reply.body)
        if job.body is None:
            job.body = body
        elif job.body != body:
            expected = f"job {job.id} with the {job.body[0]} bytes that it was put with"
            observed = f"{reply.word} with {_differs(job.body[0], reply.body)}"
            self.wrong(conversation, "body", expected, observed, unless_explained=True)

    def remark(self, conversation: Conversation, remark: Remark) -> None:
        """Raise an alarm about a request."""
        about: About = "client" if remark.is_certain else "suspicion"
        observed = f"{remark.what} (byte {remark.place:,} of the connection)"
        alarm = self.alarm(conversation, about, remark.what, "", observed)
        self._known.alarms.add(replace(alarm, shown=remark.shown))

    def alarm(
        self, conversation: Conversation, about: About, kind: str, expected: str, observed: str
    ) -> Alarm:
        """Return an alarm of now."""
        at, context = self._known.now / SECOND, conversation.context
        return Alarm(
            about, kind, at, conversation.name, expected[:400], observed[:400], "", context
        )


def _differs(size: int, body: bytes) -> str:
    if len(body) != size:
        return f"{len(body)} bytes"
    return f"other bytes: {escape(body[:40])}"
