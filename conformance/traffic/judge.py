"""The judge of live traffic: events in, alarms out.

It decides what the requests and replies of all connections decide, whatever the order in which the
server came to them; see :mod:`conformance.traffic.jobs` for that of one job. Memory is bounded:
deleted jobs are forgotten, and beyond a limit it begins anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from conformance.oracle.reply_comparison import difference
from conformance.oracle.underspecification import Open
from conformance.traffic.alarms import About, Alarm
from conformance.traffic.conversation import (
    OWN,
    Asked,
    Conversation,
    command_of,
    may_end,
    words_for,
)
from conformance.traffic.events import ENDS, Event, Kind
from conformance.traffic.findings import Findings
from conformance.traffic.in_flight import InFlight
from conformance.traffic.job_replies import JobReplies
from conformance.traffic.jobs import NAMING
from conformance.traffic.knowledge import Knowledge
from conformance.traffic.overdue import OverdueReplies
from conformance.traffic.put_replies import PutReplies
from conformance.traffic.report_replies import ReportReplies
from conformance.traffic.requests import Understood
from conformance.transcript import CLIENT_HALF_CLOSES
from reference_server.profiles import NEWEST, Profile
from reference_server.state import SECOND
from reference_server.wire import Body, ProtocolError, Put, Reply

BODY_LIMIT = 1 << 22
"""Bytes of a body that are read; a longer one is skipped, and not compared."""
MAX_HELD = 10_000
"""Jobs of a client that are remembered."""
SHOWN = 200
"""Bytes of a message that an alarm shows."""


class TrafficJudge:
    """Judges events in their order; ``known.alarms`` has what it finds.

    ``is_shared``: other clients use the server, which no event shows. ``finds_strangers``: called
    before an alarm that such a client would explain; returns whether there is one. ``overdue``:
    what an overdue reply is reported as; None if the events may not show when a reply has come.
    ``has_times``: no reply came later than its event, and no request was sent earlier.
    """

    def __init__(
        self,
        profile: Profile = NEWEST,
        is_shared: bool = False,
        finds_strangers: Callable[[], bool] = lambda: False,
        overdue: About | None = "suspicion",
        has_times: bool = True,
    ) -> None:
        self.requests = self.replies = 0
        self.known = Knowledge(profile, is_shared, finds_strangers)
        if not has_times:
            self.known.alarms.notice(
                0, "it is not shown when replies came: timeouts are not judged"
            )
        limit = max(profile.max_job_size, BODY_LIMIT)
        self._reading = (
            replace(profile, max_job_size=limit) if profile.skips_big_bodies else profile
        )
        self._in_flight = InFlight(self.known)
        self._findings = Findings(self.known, self._in_flight)
        self._jobs = JobReplies(self.known, self._findings, has_times)
        self._puts = PutReplies(self.known, self._findings, self._jobs, self._reading.max_job_size)
        self._reports = ReportReplies(self.known, self._findings, self._in_flight, self._jobs)
        self._overdue = overdue and OverdueReplies(self.known, self._findings, overdue)
        self._ends: deque[tuple[int, int, str, tuple[str, ...]]] = deque(maxlen=64)
        """Connections that the server has ended without a reason: event, time, name, context."""

    # ------------------------------------------------------------ events

    def take(self, event: Event) -> None:
        """Judge the next event."""
        known = self.known
        known.number += 1
        known.now = max(known.now, event.at)
        known.recovers()
        kind, conn = event.kind, event.conn
        conversation = known.conversations.get(conn)
        if kind is Kind.OPENED:
            self._opens(conn, event.data.decode("latin-1"))
        elif kind is Kind.SENT and conversation is not None:
            self._sent(conversation, event.data, event.at)
        elif kind is Kind.RECEIVED and conversation is not None:
            self._received(conversation, event.data)
        elif kind is Kind.CLIENT_ENDED and conversation is not None:
            conversation.has_ended = True
            conversation.recent.append(("!", CLIENT_HALF_CLOSES))
        elif kind is Kind.SERVER_ENDED and conversation is not None:
            self._server_ends(conversation)
        elif kind in (Kind.BLOCKED, Kind.UNBLOCKED) and conversation is not None:
            conversation.is_blocked = kind is Kind.BLOCKED
        elif kind in ENDS:
            self._closes(conn, kind is Kind.RESET and event.data == b"server")
        elif kind is Kind.DROPPED:
            why = event.data.decode("latin-1") or "the judge lags behind"
            self._in_flight.drops(conn, why)
        elif kind is Kind.JOINED:
            self._joins(conn, event.data.decode("latin-1"))
        self._in_flight.expires()
        if self._overdue:
            self._overdue.search()

    def _opens(self, conn: int, name: str) -> None:
        conversation = Conversation.of(conn, name, self._reading)
        conversation.opened, conversation.heard = self.known.number, self.known.now
        self.known.conversations[conn] = conversation

    def _joins(self, conn: int, name: str) -> None:
        """Judge a connection from here on, though its tubes and jobs are unknown."""
        self._opens(conn, name)
        self.known.conversations[conn].is_known = False
        if conn in self.known.unseen:
            self.known.unjudged -= 1
            self.known.sees_again(conn)

    def _closes(self, conn: int, by_server: bool) -> None:
        known = self.known
        self._reports.last_close = known.now
        conversation = known.conversations.get(conn)
        self._in_flight.leaves(conn)
        if not known.conversations:
            known.idle = known.number
        if by_server and conversation is not None and known.is_following:
            known.begin_anew(f"the server has reset {conversation.name}; it may have restarted")
        if conn in known.unseen:
            known.sees_again(conn)

    def _server_ends(self, conversation: Conversation) -> None:
        known = self.known
        conversation.is_answered = True
        conversation.recent.append(("!", b"closed by the server"))
        is_due = conversation.has_ended or conversation.has_quit
        if is_due or not conversation.is_clear:
            return
        # A server that is started again ends all connections: that is no finding.
        self._ends.append((known.number, known.now, conversation.name, conversation.context))
        if known.is_following:
            known.begin_anew(f"the server has ended {conversation.name}; it may have restarted")

    def _judge_ends(self, conversation: Conversation, asked: Asked) -> None:
        """Judge connections that the server has ended, as it goes on serving others."""
        number, at, name, context = self._ends[0]
        if asked.number < number or self.known.now - at < SECOND:
            return
        self._ends.popleft()
        if conversation.opened < number:
            expected, observed = "an open connection", "its end"
            self.known.alarms.add(
                Alarm("server", "ended", at / SECOND, name, expected, observed, context=context)
            )

    # ------------------------------------------------------------ requests

    def _sent(self, conversation: Conversation, data: bytes, at: int) -> None:
        conversation.recent.append((">", data[:SHOWN]))
        for understood in conversation.reader.read(data, len(conversation.asked)):
            for remark in understood.remarks:
                self._findings.remark(conversation, remark)
            conversation.is_clear &= understood.is_clear
            if understood.request is not None:
                self.known.number += 1
                self._asks(conversation, understood, at)

    def _asks(self, conversation: Conversation, understood: Understood, at: int) -> None:
        request, number = understood.request, self.known.number
        if isinstance(request, Body):
            if conversation.asked and conversation.asked[-1].awaits_body:
                asked = conversation.asked[-1]
                asked.body, asked.awaits_body = request, False
                asked.at = at
            return
        self.requests += 1
        if may_end(request):
            conversation.has_quit = True
            return
        is_clear = understood.is_clear
        command = command_of(request)
        asked = Asked(number, at, "", words=words_for(request, is_clear))
        asked.tube = conversation.tube
        conversation.asked.append(asked)
        if isinstance(request, Put):
            asked.verb, asked.put, asked.awaits_body = "put", request, True
            asked.floor = self.known.jobs.highest
            self.known.jobs.puts.add(number)
        elif command is not None:
            asked.verb, asked.args = command.verb, command.args
            self._in_flight.begins(conversation, asked, command, is_clear)
        if isinstance(request, Open):
            # What it means to the server is not known.
            conversation.is_known = False

    # ------------------------------------------------------------ replies

    def _received(self, conversation: Conversation, data: bytes) -> None:
        conversation.recent.append(("<", data[:SHOWN]))
        conversation.heard = self.known.now
        reader = conversation.replies
        reader.receive(data)
        try:
            while (reply := reader.next_reply()) is not None:
                self.known.number += 1
                self.replies += 1
                self._replies(conversation, reply)
                if self.known.conversations.get(conversation.conn) is not conversation:
                    return
        except ProtocolError as error:
            self._findings.wrong(conversation, "framing", "a reply of the protocol", str(error))
            why = f"the replies to {conversation.name} make no sense"
            self._in_flight.drops(conversation.conn, why)

    def _replies(self, conversation: Conversation, reply: Reply) -> None:
        known = self.known
        if not conversation.asked:
            said = "the end" if conversation.has_quit else "no reply without a request"
            self._findings.wrong(conversation, "unasked", said, str(reply))
            why = f"replies to {conversation.name} are out of step"
            self._in_flight.drops(conversation.conn, why)
            return
        asked = conversation.asked.popleft()
        known.jobs.puts.discard(asked.number)
        if not (asked.is_waiting or asked.awaits_body):
            known.slowest = max(known.slowest, min(known.now - asked.at, 5 * SECOND))
        if self._overdue:
            self._overdue.served(asked)
        if reply.word not in asked.words:
            self._odd_word(conversation, asked, reply)
        else:
            self._judge(conversation, asked, reply)
        self._in_flight.ends(asked)
        if self._ends:
            self._judge_ends(conversation, asked)

    def _odd_word(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        self._in_flight.unfollow(asked)
        expected = str(asked.expected) if asked.expected else " or ".join(sorted(asked.words))
        kind = f"{asked.verb or 'malformed'} {reply.word}"
        self._findings.wrong(conversation, kind, expected, str(reply))

    def _judge(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        """Judge a reply that its request may have, in some state of the server."""
        verb, word = asked.verb, reply.word
        if word in ("OUT_OF_MEMORY", "INTERNAL_ERROR"):
            # It is not known what has been done all the same.
            conversation.is_known &= verb not in OWN
            self._in_flight.unfollow(asked)
            self.known.jobs.has_lost_puts |= asked.put is not None
        elif asked.expected is not None:
            if (other := difference(asked.expected, reply, alone=True)) is not None:
                self._findings.wrong(conversation, f"{verb} reply", *other)
        elif asked.put is not None:
            self._puts.judge(conversation, asked, reply)
        elif word == "OK":
            self._reports.judge(conversation, asked, reply)
        elif asked.about is not None:
            self._jobs.named(conversation, asked, reply)
        elif asked.is_waiting:
            self._jobs.waited(conversation, asked, reply)
        elif verb == "kick":
            self._kicked(conversation, asked, reply)
        elif verb.startswith("peek-"):
            self._jobs.peeked(conversation, asked, reply)
        elif verb in NAMING and word in ("RESERVED", "FOUND"):
            self._jobs.compare_id(conversation, asked, reply)
        _note_held(conversation, asked, reply)

    def _kicked(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        count = reply.args[0] if reply.args else None
        bound = asked.args[0] if asked.args else 0
        if not isinstance(count, int) or (isinstance(bound, int) and count > bound):
            expected = f"KICKED with at most {bound}"
            self._findings.wrong(conversation, "kick count", expected, str(reply))
        self._in_flight.ends_kick(asked, count != 0)


def _note_held(conversation: Conversation, asked: Asked, reply: Reply) -> None:
    """Note which jobs a client may hold after a reply."""
    held = conversation.held
    if len(held) >= MAX_HELD:
        return
    if reply.word == "RESERVED" and isinstance(reply.args[0], int):
        held.add(reply.args[0])
    elif reply.word in ("DELETED", "RELEASED", "BURIED") and asked.about is not None:
        id = asked.args[0]
        if isinstance(id, int):
            held.discard(id)
