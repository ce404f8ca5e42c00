"""Overdue replies: a server that goes on serving others owes one, and does not give it.

A reply takes its time on a slow network, and on a busy machine; a server may be stopped for a
while. So no time alone makes a reply overdue, but round trips of others do: each begins after the
one before has ended, and shows that the server, the network and the recorder were at work.
A client that does not read excuses the server.
"""

from __future__ import annotations

from conformance.traffic.alarms import About
from conformance.traffic.conversation import Asked, Conversation
from conformance.traffic.findings import Findings
from conformance.traffic.jobs import READY, RESERVED
from conformance.traffic.knowledge import Knowledge
from conformance.traffic.tubes import LOOKED_AT
from reference_server.state import SECOND

OVERDUE = 30 * SECOND
"""Nanoseconds of the time in which others were served, from which on a reply is overdue."""
STEP = SECOND
"""Nanoseconds that one round trip counts for at most, and between two searches."""


class OverdueReplies:
    """Finds requests whose first reply is overdue.

    ``reported_as``: a far server's replies may be lost on their way, so that these are suspicions.
    """

    def __init__(self, known: Knowledge, findings: Findings, reported_as: About) -> None:
        self._known = known
        self._findings = findings
        self._reported_as = reported_as
        self._served = 0
        """Nanoseconds for which the server provably served clients, at most STEP a round trip."""
        self._since = self._searched = 0
        self._ready: dict[str, int] = {}
        """Of this search: a job that clients who wait for a tube must get; 0 if there is none."""

    def served(self, asked: Asked) -> None:
        """Count the round trip that a reply has completed now."""
        if not asked.is_waiting and asked.at >= self._since:
            self._served += min(self._known.now - self._since, STEP)
            self._since = self._known.now

    def search(self) -> None:
        """Raise an alarm for each reply that is overdue by now."""
        known = self._known
        if known.now < self._searched + STEP:
            return
        self._searched = known.now
        self._ready.clear()
        for conversation in [*known.conversations.values()]:
            asked = conversation.asked[0] if conversation.asked else None
            if asked is None or asked.owed_from < 0:
                continue
            owed = self._owed(conversation, asked), conversation.heard
            if owed != asked.owed:
                asked.owed, asked.owed_from = owed, self._served
            elif owed[0] and asked.owed_from < self._served - OVERDUE:
                asked.owed_from = -1
                self._report(conversation, asked)

    def _report(self, conversation: Conversation, asked: Asked) -> None:
        known = self._known
        if known.is_explained():
            return
        kind = f"no reply to {asked.verb or 'a malformed line'}"
        passed = (known.now - max(asked.at, conversation.heard)) / SECOND
        observed = f"no reply for {passed:.1f} s, in which others were served"
        alarm = self._findings.alarm(conversation, self._reported_as, kind, asked.owed[0], observed)
        known.alarms.add(alarm)

    # ------------------------------------------------------------ replies that are due

    def _owed(self, conversation: Conversation, asked: Asked) -> str:
        """Return which reply a client must get now; nothing if there is none."""
        if asked.awaits_body or not self._listens(conversation.conn):
            return ""
        if not asked.is_waiting:
            return "a reply"
        seconds = asked.args[0] if asked.args else None
        now = self._known.now
        if isinstance(seconds, int):
            # The server may have begun to wait when it had answered what came before.
            begun = max(asked.at, conversation.heard)
            if begun + seconds * SECOND <= now:
                return f"a reply within {seconds} s"
        if not self._known.is_following:
            return ""
        return self._deadline(conversation) or self._job(asked)

    def _listens(self, conn: int) -> bool:
        """Return whether a reply of the server would be seen."""
        one = self._known.conversations.get(conn)
        if one is None or one.has_ended or one.has_quit:
            return False
        return one.is_clear and not (one.is_blocked or one.is_answered)

    def _deadline(self, conversation: Conversation) -> str:
        """Return the reply that is due as a job of a client that waits runs out of time."""
        for id in conversation.held:
            job = self._known.jobs.followed.get(id)
            if job is None or job.pending or job.blurred:
                continue
            if all(
                one.state == RESERVED
                and one.who == conversation.conn
                and 0 < one.latest <= self._known.now
                for one in job.possible
            ):
                return f"DEADLINE_SOON before the TTR of job {id} ends"
        return ""

    def _job(self, asked: Asked) -> str:
        """Return the reply that is due as a job is ready, and nobody may have got it unseen."""
        if self._known.tubes.has_wide_waiters:
            return ""
        for tube in asked.watched or ():
            if tube not in self._ready:
                self._ready[tube] = self._ready_job(tube)
            if id := self._ready[tube]:
                return f"RESERVED: job {id} is ready in {tube}"
        return ""

    def _ready_job(self, tube: str) -> int:
        """Return a job that clients who wait for a tube must get; 0 if there is none."""
        known = self._known
        view = known.tubes.views.get(tube)
        if view is None or not (view.ready and view.is_known_open(known.now)):
            return 0
        if not all(map(self._listens, view.waiters.values())):
            return 0
        for _, id in view.ready[:LOOKED_AT]:
            job = known.jobs.followed.get(id)
            is_ready = job is not None and job.ready_since and job.states == {READY}
            if job and is_ready and not known.has_lost_a_waiter(job.ready_since):
                return id
        return 0
