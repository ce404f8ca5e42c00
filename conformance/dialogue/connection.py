"""A client's connection to the target, and the dialogue on it.

Each message is recorded in the scenario's transcript, with the time of the target's clock. Requests
and replies are counted, so that each reply is taken by the exchange that it belongs to.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from conformance.dialogue.awaiting import Awaiting
from conformance.dialogue.exchange import Exchange
from conformance.dialogue.schedule import Arrival, Timeline
from conformance.dialogue.usual_commands import UsualCommands
from conformance.target.learnt import SURE
from conformance.target.silences import FEWER, GIVEN_UP, HALF_CLOSES, THE_END, Awaited, awaited
from conformance.target.starvation import SEEN, watch
from conformance.target.target import Target
from conformance.target.transport import Transport, wait_for
from conformance.transcript import Transcript
from conformance.verdict import UNASKED, Deviation, NotTestable, TargetLost
from reference_server.profiles import Profile
from reference_server.wire import (
    CRLF,
    DELETED,
    TIMED_OUT,
    Malformed,
    ProtocolError,
    Reply,
    ReplyReader,
    escape,
    parse_line,
)

UNHURRIED = 0.05
"""Seconds of real time after which a reply that is due is taken to be late."""
FLOOD = 100
"""Replies without a request after which a connection is given up."""


class Connection(UsualCommands):
    """One connection; ``name`` is its letter in the transcript.

    ``target`` says which commands there are, and what became of it if it stops talking.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        tube: str,
        transcript: Transcript,
        timeline: Timeline,
        target: Target,
        another: Callable[[], Connection],
    ) -> None:
        super().__init__(tube, timeline, target, another)
        self.name = name
        self.transport = transport
        self.created: set[int] = set()
        self._transcript = transcript
        self._reader = ReplyReader.of(target.profile)
        self._arrivals: deque[Arrival] = deque()
        self._garbage: str | None = None
        self._answered = 0
        self._asked: list[bytes] = []
        self._places: dict[int, int] = {}
        """The position in the transcript of each command, by its number."""
        self.missed: Awaited | None = None
        """The reply that was waited for in vain."""
        self.hurried = False
        """It has come after all, when a wait that was not a full one was over."""
        self._half_closed = self._quits = False
        self._generation = target.generation
        timeline.add(self)

    @property
    def profile(self) -> Profile:
        """The profile that the target is judged by."""
        return self._target.profile

    @property
    def nominal(self) -> float:
        """The scenario's nominal time, in seconds."""
        return self._timeline.nominal

    # ------------------------------------------------------------ sending

    def send(self, line: str | bytes) -> Exchange:
        """Send one command line (CR LF is added) and give the exchange that it begins.

        Raises NotApplicable if the profile does not have this command, or no such line.
        """
        data = line.encode() if isinstance(line, str) else line
        self.needs(data)
        return self.raw(data + CRLF)

    def raw(self, data: bytes, replies: int = 1) -> Exchange:
        """Send bytes as they are; return the exchange of the first of ``replies`` replies.

        Raises NotTestable if the target has been lost after such a command again and again.
        """
        self._target.needs_to_survive(data)
        self._timeline.before_sending()
        exchange = Exchange(self, len(self._asked), self._timeline.nominal)
        self._write(data)
        self._asked += [data] * replies
        return exchange

    def each(self, requests: Sequence[bytes]) -> Iterator[Exchange]:
        """Send requests in one go, if the target can take that; return the exchange of each.

        What is answered must be awaited before the next is asked for.
        """
        if not self._target.learnt.pipelines:
            yield from map(self.raw, requests)
            return
        first = self.raw(b"".join(requests), replies=len(requests))
        yield from map(first.nth, range(len(requests)))

    def says(self, dialogue: Sequence[tuple[str, Reply]], unread: float = 0.0) -> None:
        """Say lines in one go, and expect the reply of each.

        Until nothing more comes, but ``unread`` seconds at most, nothing of that is read.
        """
        exchanges = self.each([line.encode() + CRLF for line, _ in dialogue])
        if unread:
            if not self._target.learnt.pipelines:
                raise NotTestable("needs a target that takes several commands at once")
            exchanges = iter(list(exchanges))
            self.transport.leave_unread(unread)
        for (line, reply), exchange in zip(dialogue, exchanges, strict=True):
            if exchange.expect(reply) == DELETED:
                self.created.discard(int(line.removeprefix("delete ")))

    def nudge(self) -> None:
        """Send a neutral command and read its reply, if nothing else is going on.

        Some servers notice only then that the client has held a job for too long, which is a
        requirement of its own; everything else is tested without it.
        """
        self.poll()
        if len(self._asked) == self._answered and not self.stopped and not self._half_closed:
            self._write(self.ping)
            self._asked.append(self.ping)
            self.take(len(self._asked) - 1, self._timeline.nominal, "a reply")

    def _write(self, data: bytes) -> None:
        position = self._transcript.add(self.name, ">", data, self._timeline.now())
        self._places[len(self._asked)] = position
        self._timeline.sends()
        self._quits |= b"quit" in data
        self._send_all(data, position)

    def _send_all(self, data: bytes, position: int) -> None:
        limit, waits = time.monotonic() + self._limits.reply, False
        self.transport.send(data)
        while self.transport.unsent:
            # The target must read on while we read its replies.
            waits = waits or self._timeline.waits()
            if time.monotonic() > limit:
                waited = self._limits.reply
                raise self._gone("a target that reads", "it stopped reading", position, waited)
            wait_for([self.transport], 0.1)
            self.poll()
        if self.transport.is_deaf:
            self.poll()

    def half_close(self) -> None:
        """Send nothing more, but go on reading."""
        self._timeline.before_sending()
        self._half_closed = True
        self._transcript.add(self.name, "!", HALF_CLOSES, self._timeline.now())
        self.transport.half_close()

    def finish(self, limit: float) -> None:
        """End the connection so that the target has noticed when this returns.

        Gives up at the real time ``limit``, and for good if the target had nothing else to do.
        """
        self.poll()
        self._look_for_missed()
        self.transport.half_close()
        if self.missed:
            # Its end is waited for no longer than a reply that was missed before.
            seconds = self._target.learnt.until_end(self._limits.reply / FEWER)
            wait = Awaiting(self._target, self.missed, seconds)
            self._wait_until(lambda: self.stopped, lambda: wait.left)
            self._look_for_missed(TIMED_OUT.word)
        elif not self._target.learnt.silences.ignores_ends:
            self._await_end_within(self._target.learnt.until_end(limit - time.monotonic()))
        self.transport.close()

    def _await_end_within(self, seconds: float) -> None:
        """Wait until the target ends this, and learn of it if it does not."""
        learnt = self._target.learnt
        patience = learnt.silences.patience(GIVEN_UP, seconds) if self.is_owed else seconds
        end, late = time.monotonic() + patience, watch().overslept()
        self._wait_until(lambda: self.stopped, lambda: end - time.monotonic())
        is_sure = SEEN * (watch().overslept() - late) < patience
        if self.is_owed:
            if is_sure and seconds > SURE and not self.stopped:
                learnt.silences.note(GIVEN_UP, seconds)
        elif not self.stopped:
            learnt.missed_end(seconds, is_sure)

    def _look_for_missed(self, but: str = "") -> None:
        """Look whether what was missed was only late; ``but``: what the end itself may bring."""
        if self.missed is None:
            return
        word = self._arrivals[0].reply.word if self._arrivals else but
        if THE_END in self.missed.words:
            # The replies before it were there in time.
            word = THE_END if self.transport.ended else but
        if word != but:
            silences, full = self._target.learnt.silences, self._limits.reply
            before = silences.patience(self.missed, full)
            silences.was_late(self.missed, word, full)
            self.hurried = before < silences.patience(self.missed, full)
            self.missed = None

    def unasked(self) -> Deviation | None:
        """Return the deviation if the target has sent more replies than it owes."""
        surplus = self._answered + len(self._arrivals) - len(self._asked)
        if surplus <= 0:
            return None
        arrival = self._arrivals[-surplus]
        return Deviation(UNASKED, str(arrival.reply), arrival.position)

    def close(self) -> None:
        """Close the connection, without waiting for anything."""
        self._timeline.before_sending()
        self._transcript.add(self.name, "!", b"closes", self._timeline.now())
        self.transport.close()

    def reset(self) -> None:
        """Break the connection, as where a client's machine fails."""
        self._timeline.before_sending()
        self._transcript.add(self.name, "!", b"resets", self._timeline.now())
        self.transport.reset()

    # ------------------------------------------------------------ receiving

    def poll(self) -> None:
        """Take in what has arrived, without waiting."""
        while not self.stopped:
            data = self.transport.receive()
            if self.transport.ended:
                self._transcript.add(self.name, "!", b"closed by the target", self._timeline.now())
            if not data:
                return
            self._reader.receive(data)
            self._take_replies()

    def _wait_until(self, is_over: Callable[[], bool], left: Callable[[], float]) -> None:
        """Take in what arrives until it is over, or no seconds are left."""
        while not is_over() and (seconds := left()) > 0:
            wait_for([self.transport], seconds)
            self.poll()

    def _take_replies(self) -> None:
        now = self._timeline.now()
        try:
            while (reply := self._reader.next_reply()) is not None:
                position = self._transcript.add(self.name, "<", reply.encode(), now)
                self._arrivals.append(Arrival(reply, now, position))
                if reply.word == "INSERTED":
                    self.created.add(int(reply.args[0]))
                if len(self._arrivals) + self._answered > len(self._asked) + FLOOD:
                    raise ProtocolError(f"more than {FLOOD} replies that nobody asked for")
        except ProtocolError as error:
            self._garbage = str(error)
            self._transcript.add(self.name, "<", self._reader.pending, now)

    @property
    def is_owed(self) -> bool:
        """Return whether a command of its has not been answered."""
        return len(self._asked) > self._answered + len(self._arrivals)

    @property
    def stopped(self) -> bool:
        """Return whether nothing more can come."""
        return self.transport.ended or self._garbage is not None

    def take(self, index: int, sent_at: float, expected: str) -> Arrival:
        """Return the reply of this number; raises :class:`Deviation` if it is not there in time."""
        if index != self._answered:
            raise AssertionError("replies must be expected in the order of their commands")
        timing = self._timeline.timing(sent_at)
        wait = self._waiting(self._awaited(self._asked[index], expected))
        is_awaited, waits = not self._arrivals, False
        self.poll()
        while not self._arrivals:
            left = wait.left
            if self.stopped or left <= 0 or wait.finds_hang():
                raise self._missing(expected, wait)
            wait_for([self.transport], min(left, UNHURRIED))
            self.poll()
            waits = waits or (not self._arrivals and self._timeline.waits())
            if timing is not None and not self._arrivals and not self.stopped:
                # Where the tests move the clock, a timer that is late needs them to move it.
                self._timeline.before_sending()
        self._answered += 1
        arrival = self._arrivals.popleft()
        self._target.learnt.silences.came(wait.key, arrival.reply.word, wait.passed)
        if timing is not None:
            timing.judge(arrival, expected)
        self._timeline.measure(timing, arrival.time, is_awaited)
        return arrival

    def _awaited(self, sent: bytes, expected: str) -> Awaited:
        # Whatever was sent before it, these are the answer to the end of what is sent.
        ends = self._half_closed and not self._quits and expected in (THE_END, str(TIMED_OUT))
        return awaited(HALF_CLOSES if ends else sent, expected)

    def _waiting(self, key: Awaited) -> Awaiting:
        limits = self._limits
        limit = min(limits.reply, limits.raced) if self._timeline.is_tried_again else limits.reply
        return Awaiting(self._target, key, limit)

    def _missing(self, expected: str, wait: Awaiting) -> Deviation:
        observed, waited = self._garbage, 0.0
        if observed is None and self.transport.ended:
            observed = "the target closed the connection"
        elif observed is None:
            observed, waited, self.missed = str(wait), wait.passed, wait.key
            if self._reader.pending:
                observed += f" but the start of a reply: {escape(self._reader.pending)[:200]}"
        sent = wait.key.verb.encode("latin-1")
        deviation = self._gone(expected, observed, None, waited, sent)
        if not (self.stopped or isinstance(deviation, TargetLost)):
            deviation.client, deviation.unanswered = self.name, self._place
        return deviation

    @property
    def _place(self) -> int:
        """The position of the first command without a reply; else of the last message."""
        sent = [place for number, place in self._places.items() if number <= self._answered]
        return (
            sent[-1] if self._answered < len(self._asked) else self._transcript.last_of(self.name)
        )

    def _gone(
        self,
        expected: str,
        observed: str,
        position: int | None,
        waited: float,
        after: bytes = b"",
    ) -> Deviation:
        is_to_blame = self._is_to_blame(after)
        if not self._garbage and (fate := self._target.fate(after)) is not None:
            if is_to_blame:
                self._target.learnt.silences.lost(after)
            return TargetLost(expected, fate, position)
        if not self._timeline.timed:
            self.poll()
            if not (self._arrivals or self.stopped):
                # It has served another client since, and no timer is near that might explain it.
                waited = 0.0
        begun = self._timeline.last_wait if waited else None
        # The time at which it came does not make it a reply, nor end a connection.
        return Deviation(expected, observed, position, 0.0, self.stopped, waited, begun)

    def _is_to_blame(self, verb: bytes) -> bool:
        """Return whether a command may be fatal: it is well-formed, and was sent to this server."""
        asked = self._asked[self._answered :] or [verb]
        request = parse_line(asked[0].partition(CRLF)[0], self.profile)
        is_whole = verb == HALF_CLOSES or not isinstance(request, Malformed)
        is_there = self._target.generation == self._generation
        return bool(verb) and is_whole and is_there and not self._transcript.has_events

    # ------------------------------------------------------------ expectations

    def receives(self, *replies: Reply) -> None:
        """Expect these replies, in this order, to what :meth:`raw` has sent."""
        for reply in replies:
            arrival = self.take(self._answered, self._timeline.nominal, str(reply))
            if arrival.reply != reply:
                raise Deviation(str(reply), str(arrival.reply), arrival.position)

    def has_no_reply(self, sent_at: float) -> None:
        """Expect that nothing has come that a command sent at ``sent_at`` waits for."""
        self.poll()
        timing = self._timeline.timing(sent_at)
        for arrival in self._arrivals:
            if timing is None or arrival.time < timing.earliest:
                raise Deviation("no reply yet", str(arrival.reply), arrival.position)

    def rest(self) -> list[Reply]:
        """Return all replies until the target closes the connection."""
        self._await_end(lambda: self.stopped)
        replies = [arrival.reply for arrival in self._arrivals]
        self._arrivals.clear()
        return replies

    def is_closed_by_target(self) -> None:
        """Expect the end of the connection, and no reply before it."""
        self._await_end(lambda: self.stopped or bool(self._arrivals))
        if self._arrivals:
            arrival = self._arrivals[0]
            raise Deviation(THE_END, str(arrival.reply), arrival.position)

    def _await_end(self, is_over: Callable[[], bool]) -> None:
        """Expect the end of the connection, or whatever else ends the wait for it."""
        self._timeline.waits()
        wait = self._waiting(self._awaited(b"", THE_END))
        self._wait_until(is_over, lambda: wait.left)
        if self.transport.ended:
            self._target.learnt.silences.came(wait.key, THE_END)
        elif self._garbage or not is_over():
            raise self._missing(THE_END, wait)
