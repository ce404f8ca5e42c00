"""Replies with statistics and lists: their form, and the values that are certain."""

from __future__ import annotations

from conformance import yamlish
from conformance.oracle.reply_comparison import difference
from conformance.traffic.conversation import Asked, Conversation
from conformance.traffic.findings import Findings
from conformance.traffic.in_flight import InFlight
from conformance.traffic.job_replies import JobReplies
from conformance.traffic.knowledge import Knowledge
from reference_server.events import Connected
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.state import SECOND
from reference_server.wire import Body, Command, Put, Reply


class ReportReplies:
    """Judges statistics and lists. ``last_close``: when a connection has ended last."""

    def __init__(
        self, known: Knowledge, findings: Findings, in_flight: InFlight, jobs: JobReplies
    ) -> None:
        self.last_close = 0
        self._known = known
        self._wrong = findings.wrong
        self._in_flight = in_flight
        self._job_replies = jobs
        self._templates = _templates(known.profile)

    def judge(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        """Judge a report."""
        verb = asked.verb
        template = self._templates.get(verb)
        if template is None:
            return
        if (other := difference(template, reply, fresh=False)) is not None:
            self._wrong(conversation, f"{verb} form", *other)
            self._in_flight.unfollow(asked)
            return
        if verb == "list-tubes":
            listed = {*yamlish.names(reply.body or b"")}
            if lost := {*(asked.watched or ())} - listed:
                self._wrong(conversation, "list-tubes", f"OK with {min(lost)}", str(reply))
            return
        values = yamlish.dictionary(reply.body or b"")
        if verb == "stats-tube" and values.get("name") != asked.args[0]:
            said = f"OK with name: {asked.args[0]}"
            self._wrong(conversation, "stats-tube name", said, f"name: {values.get('name')}")
        elif verb == "stats" and "current-connections" in values:
            self._count_connections(asked, values["current-connections"])
        elif asked.about is not None:
            self._job(conversation, asked, reply, values)

    def _count_connections(self, asked: Asked, reported: str) -> None:
        conversations, unseen = self._known.conversations, self._known.unseen
        seen = len(conversations) + len(unseen - conversations.keys())
        is_calm = asked.at - self.last_close > 5 * SECOND
        if is_calm and reported.isdecimal() and len(reported) < 10 and int(reported) > seen:
            self._known.bypassed(f"the server has {reported} connections, and {seen} are seen")

    def _job(
        self, conversation: Conversation, asked: Asked, reply: Reply, values: dict[str, str]
    ) -> None:
        id, request, jobs = asked.args[0], asked.about, self._known.jobs
        assert isinstance(id, int)
        assert request is not None
        jobs.drop_stray(id, request)
        job = jobs.followed.get(id)
        known: dict[str, set[str]] = {"id": {str(id)}}
        if job is not None and (request in job.pending or request in job.blurred):
            if job.tube is not None:
                known["tube"] = {job.tube}
            if job.pris is not None and job.repriced < request.number:
                known["pri"] = {str(pri) for pri in job.pris}
            if job.ttr is not None:
                known["ttr"] = {str(job.ttr)}
        for key, allowed in known.items():
            if key in values and values[key] not in allowed:
                expected = f"OK with {key}: {' or '.join(sorted(allowed))}"
                observed = f"OK with {key}: {values[key]}"
                kind = f"stats-job {key}"
                self._wrong(conversation, kind, expected, observed, unless_explained=True)
        state = values.get("state", "")
        self._job_replies.about(conversation, request, id, reply, f"OK {state}")


def _templates(profile: Profile) -> dict[str, Reply]:
    """Return statistics and lists as they may be, to compare their form."""
    model = Model(profile)
    model.step(Connected(), 0, 1)
    model.step(Put(0, 0, 1, 0), 0, 1)
    model.step(Body(b""), 0, 1)
    found: dict[str, Reply] = {}
    for command in (
        Command("stats"),
        Command("stats-tube", ("default",)),
        Command("stats-job", (1,)),
        Command("list-tubes"),
    ):
        if command.verb in profile.commands and not profile.id_is_optional:
            for _, reply in model.step(command, 0, 1):
                if isinstance(reply, Reply):
                    found[command.verb] = reply
    return found
