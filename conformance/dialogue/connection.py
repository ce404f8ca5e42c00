"""A client's connection to the target, and its dialogue.

Each message is recorded in the scenario's transcript, with the time of the target's clock. Requests
and replies are counted, so that each reply is taken by the exchange that it belongs to.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from conformance.dialogue.exchange import TIMELESS, UNDER_TEST, Exchange, Role
from conformance.dialogue.reply_wait import Awaiting
from conformance.dialogue.schedule import Arrival, Timeline
from conformance.dialogue.usual_commands import UsualCommands
from conformance.target.target import Target
from conformance.target.transport import Transport, wait_for
from conformance.transcript import (
    CLIENT_CLOSES,
    CLIENT_HALF_CLOSES,
    CLIENT_RESETS,
    TARGET_CLOSES,
    Transcript,
)
from conformance.usual_answers import AFTER_LONG_LINE, IN_STEP, MAY_BE_SILENT, SURVIVES_ERRORS
from conformance.verdict import Deviation, NotTestable, OutcomeKind, Step, TargetLost
from reference_server.commands import VERBS
from reference_server.profiles import Profile
from reference_server.wire import (
    BAD_FORMAT,
    CRLF,
    DELETED,
    UNKNOWN_COMMAND,
    ProtocolError,
    Reply,
    ReplyReader,
    escape,
)

PROMPT = 0.05
"""Seconds of real time after which a reply that is due is taken to be late."""
SILENT = 1.0
"""Seconds without a message after which a client is silent, however that came about."""
THE_END = "the end of the connection"
_ERRORS = frozenset((BAD_FORMAT.word, UNKNOWN_COMMAND.word))
"""Replies to lines that are no commands."""
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
        self.has_tested = False
        self.has_timed_out = False
        """A reply was missing after its full timeout."""
        self._half_closed = False
        self._last_word = ""
        """The first word of the last reply that was expected."""
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

    def send(self, line: str | bytes, role: Role = UNDER_TEST) -> Exchange:
        """Send one command line (CR LF is added) and return the exchange that it begins.

        Raises NotApplicable if the profile does not have this command, or no such line.
        """
        data = line.encode() if isinstance(line, str) else line
        self.needs(data)
        return self.raw(data + CRLF, role=role)

    def raw(self, data: bytes, replies: int = 1, role: Role = UNDER_TEST) -> Exchange:
        """Send bytes as they are; return the exchange of the first of ``replies`` replies.

        Raises Unusable if the survey has shown that the target cannot be sent this command.
        """
        self.needs_usable(data)
        self._timeline.before_sending()
        self.has_tested |= role == UNDER_TEST
        exchange = Exchange(self, len(self._asked), self._timeline.nominal, role)
        self._write(data)
        self._asked += [data] * replies
        return exchange

    def one_more(self, role: Role = UNDER_TEST) -> Exchange:
        """Return the exchange of one more reply to what was sent last."""
        self.has_tested |= role == UNDER_TEST
        exchange = Exchange(self, len(self._asked), self._timeline.nominal, role)
        self._asked.append(self._asked[-1])
        return exchange

    def each(self, requests: Sequence[bytes], roles: Sequence[Role] = ()) -> Iterator[Exchange]:
        """Send requests in one go, if the target can take that; return the exchange of each.

        What is answered must be awaited before the next is asked for. ``roles``: that of each
        request; if there are none, all are under test.
        """
        if not requests:
            return
        roles = roles or [UNDER_TEST] * len(requests)
        if not self._target.traits.pipelines:
            for request, role in zip(requests, roles, strict=True):
                yield self.raw(request, role=role)
            return
        for request in requests:
            self.needs_usable(request)
        role = UNDER_TEST if UNDER_TEST in roles else roles[0]
        first = self.raw(b"".join(requests), replies=len(requests), role=role)
        self._asked[-len(requests) :] = requests
        for number, role in enumerate(roles):
            yield first.nth(number, role)

    def says(
        self,
        dialogue: Sequence[tuple[str, Reply | str]],
        unread: float = 0.0,
        roles: Sequence[Role] = (),
    ) -> None:
        """Say lines in one go, and expect the reply of each, or a reply of that word.

        Until nothing more comes, but ``unread`` seconds at most, nothing of that is read.
        ``roles``: that of each line; if there are none, all are under test.
        """
        exchanges = self.each([line.encode() + CRLF for line, _ in dialogue], roles)
        if unread:
            if not self._target.traits.pipelines:
                raise NotTestable("needs a target that takes several commands at once")
            exchanges = iter(list(exchanges))
            self.transport.leave_unread(unread)
        for (line, reply), exchange in zip(dialogue, exchanges, strict=True):
            came = exchange.reply(reply) if isinstance(reply, str) else exchange.expect(reply)
            if came == DELETED:
                self.created.discard(int(line.removeprefix("delete ")))

    def prepares(self, dialogue: Sequence[tuple[str, Reply | str]]) -> None:
        """Say lines in one go that are not under test: set-up, and observations."""
        self.says(dialogue, roles=[self.usual_role(line) for line, _ in dialogue])

    def nudge(self) -> None:
        """Send a neutral command and read its reply, if nothing else is going on.

        Some servers notice only then that the client has held a job for too long, which is a
        requirement of its own; everything else is tested without it.
        """
        self.poll()
        if self._is_silent and not self._arrivals:
            self._write(self.ping)
            self._asked.append(self.ping)
            role = self._set_up_role(self.ping.decode())
            Exchange(self, len(self._asked) - 1, self._timeline.nominal, role).any_reply()

    def _write(self, data: bytes) -> None:
        position = self._transcript.add(self.name, ">", data, self._timeline.now())
        self._places[len(self._asked)] = position
        self._timeline.sends()
        self._send_all(data, position)

    def _send_all(self, data: bytes, position: int) -> None:
        limit, waits = time.monotonic() + self._limits.reply, False
        self.transport.send(data)
        while self.transport.unsent:
            # The target must read on while we read its replies.
            waits = waits or self._timeline.waits()
            if time.monotonic() > limit:
                waited = self._limits.reply
                step = Step(OutcomeKind.NO_REPLY, command_of(data))
                raise self._gone(
                    "a target that reads", "it stopped reading", step, position, waited
                )
            wait_for([self.transport], 0.1)
            self.poll()
        if self.transport.is_deaf:
            self.poll()

    def half_close(self) -> None:
        """Send nothing more, but go on reading."""
        self._timeline.before_sending()
        self._half_closed = True
        self._transcript.add(self.name, "!", CLIENT_HALF_CLOSES, self._timeline.now())
        self.transport.half_close()

    def finish(self, limit: float) -> None:
        """End the connection so that the target has noticed when this returns.

        Gives up at the real time ``limit``, and at once if a reply is missing, or if the target is
        known not to end connections.
        """
        self.poll()
        traits = self._target.traits
        if not (self._half_closed or self.stopped):
            self._transcript.add(self.name, "!", CLIENT_HALF_CLOSES, self._timeline.now())
        self._half_closed = True
        self.transport.half_close()
        if not self.has_timed_out and (traits.ends_waiting if self.is_owed else True):
            self._is_over_within(
                self._target.end_timeout(limit - time.monotonic()), lambda: self.stopped
            )
        self.transport.close()

    def extra_reply(self) -> Deviation | None:
        """Return the deviation if the target has sent more replies than it owes."""
        surplus = self._answered + len(self._arrivals) - len(self._asked)
        if surplus <= 0:
            return None
        arrival = self._arrivals[-surplus]
        step = Step(OutcomeKind.EXTRA_REPLY, came=arrival.reply.word)
        deviation = Deviation(
            "no reply without a request", str(arrival.reply), arrival.position, step=step
        )
        line = self._asked[-1].partition(CRLF)[0] if self._asked else b""
        is_long = len(line + CRLF) > self.profile.max_line
        deviation.owner = AFTER_LONG_LINE if is_long else IN_STEP
        return deviation

    def close(self) -> None:
        """Close the connection, without waiting for anything."""
        self._timeline.before_sending()
        self._transcript.add(self.name, "!", CLIENT_CLOSES, self._timeline.now())
        self.transport.close()

    def reset(self) -> None:
        """Break the connection, as where a client's machine fails."""
        self._timeline.before_sending()
        self._transcript.add(self.name, "!", CLIENT_RESETS, self._timeline.now())
        self.transport.reset()

    def passed(self, sent: bytes, came: bytes) -> int:
        """Record bytes exchanged on its bare transport; return the position of the sent ones."""
        position = self._transcript.add(self.name, ">", sent, self._timeline.now())
        if came:
            self._transcript.add(self.name, "<", came, self._timeline.now())
        return position

    # ------------------------------------------------------------ receiving

    def poll(self) -> None:
        """Take in what has arrived, without waiting."""
        while not self.stopped:
            data = self.transport.receive()
            if self.transport.ended:
                self._transcript.add(self.name, "!", TARGET_CLOSES, self._timeline.now())
            if not data:
                return
            self._reader.receive(data)
            self._take_replies()

    def _wait_until(self, is_over: Callable[[], bool], left: Callable[[], float]) -> None:
        """Take in what arrives until it is over, or no seconds are left."""
        while not is_over() and (seconds := left()) > 0:
            wait_for([self.transport], seconds)
            self.poll()

    def _is_over_within(self, seconds: float, is_over: Callable[[], bool]) -> bool:
        """Take in what arrives for so many seconds at most; return whether it is over then."""
        end = time.monotonic() + seconds
        self._wait_until(is_over, lambda: end - time.monotonic())
        return is_over()

    def _take_replies(self) -> None:
        now = self._timeline.now()
        try:
            while (reply := self._reader.next_reply()) is not None:
                position = self._transcript.add(self.name, "<", reply.encode(), now)
                self._arrivals.append(Arrival(reply, now, position))
                if reply.word == "INSERTED":
                    self.created.add(int(reply.args[0]))
                if len(self._arrivals) + self._answered > len(self._asked) + FLOOD:
                    raise ProtocolError(f"more than {FLOOD} unsolicited replies")
        except ProtocolError as error:
            self._garbage = str(error)
            self._transcript.add(self.name, "<", self._reader.pending, now)

    @property
    def is_owed(self) -> bool:
        """Return whether a command of its has not been answered."""
        return len(self._asked) > self._answered + len(self._arrivals)

    @property
    def _is_silent(self) -> bool:
        """Return whether it is open, and neither side has anything to say."""
        return not (self.stopped or self.is_owed or self._half_closed)

    @property
    def is_at_rest(self) -> bool:
        """Return whether it is silent, and may not be ended, as it may be after an error."""
        return self._is_silent and self._last_word not in TIMELESS

    @property
    def _was_silent(self) -> bool:
        """Return whether it said nothing for long since its last message, or before that."""
        now, said = self._timeline.now(), (self.name, ">")
        entries = self._transcript.entries
        times = [entry.time for entry in entries if (entry.connection, entry.direction) == said]
        return now - min(times[-2:], default=now) >= SILENT

    def must_be_open(self) -> None:
        """Raise Deviation if the target has ended the connection, which was at rest."""
        self.poll()
        if self.transport.ended and not self._half_closed:
            observed = "the target closed the connection of a client that was silent"
            deviation = self._gone("an open connection", observed, Step(OutcomeKind.DISCONNECTED))
            if not isinstance(deviation, TargetLost):
                deviation.owner = MAY_BE_SILENT
                raise deviation

    def is_answered(self, soon: bool = False) -> bool:
        """Return whether no more replies must, or can, come after the time that a reply has.

        ``soon``: after a shorter time, as none need come.
        """
        seconds = self._limits.soon if soon else self._limits.reply
        return self._is_over_within(seconds, lambda: self.stopped or not self.is_owed)

    @property
    def stopped(self) -> bool:
        """Return whether nothing more can come."""
        return self.transport.ended or self._garbage is not None

    def take(self, index: int, sent_at: float, expected: str) -> Arrival:
        """Return the reply of this number; raises :class:`Deviation` if it is not there in time."""
        if index != self._answered:
            raise AssertionError("replies must be expected in the order of their commands")
        timing = self._timeline.timing(sent_at)
        command = self.command(index)
        wait = self._waiting(command)
        is_awaited, waits = not self._arrivals, False
        self.poll()
        while not self._arrivals:
            left = wait.left
            if self.stopped or left <= 0:
                raise self._missing(expected, wait, command)
            wait_for([self.transport], min(left, PROMPT))
            self.poll()
            waits = waits or (not self._arrivals and self._timeline.waits())
            if timing is not None and not self._arrivals and not self.stopped:
                # Where the tests move the clock, a timer that is late needs them to move it.
                self._timeline.before_sending()
        self._answered += 1
        arrival = self._arrivals.popleft()
        self._last_word = arrival.reply.word
        if timing is not None:
            timing.judge(arrival, expected, command)
        self._timeline.measure(timing, arrival.time, is_awaited)
        return arrival

    def is_out_of_step(self, kind: OutcomeKind) -> bool:
        """Tell whether what has come may be the rest of a reply to an earlier command.

        Then the reply to the last command is yet to come, which it does at once.
        """
        if kind is not OutcomeKind.WRONG_REPLY:
            return kind is OutcomeKind.NOT_A_REPLY or bool(self._reader.pending)

        def is_surplus() -> bool:
            return self._answered + len(self._arrivals) > len(self._asked)

        self._is_over_within(self._limits.soon, lambda: is_surplus() or self.stopped)
        return is_surplus()

    def command(self, index: int) -> str:
        """Return the command that the reply with this number belongs to."""
        return command_of(self._asked[index]) if index < len(self._asked) else ""

    def _waiting(self, command: str) -> Awaiting:
        is_tried_again, target = self._timeline.is_tried_again, self._target
        seconds = target.raced_timeout(command) if is_tried_again else target.timeout(command)
        return Awaiting(target, seconds)

    def _missing(self, expected: str, wait: Awaiting, command: str = "") -> Deviation:
        if self._garbage is not None:
            return self._gone(expected, self._garbage, Step(OutcomeKind.NOT_A_REPLY, command))
        if self.transport.ended:
            step = Step(OutcomeKind.DISCONNECTED, command)
            deviation = self._gone(expected, "the target closed the connection", step)
            silence = (MAY_BE_SILENT,) if self._was_silent else ()
            deviation.suspects = silence + self._after_error
            return deviation
        self.has_timed_out = True
        self._timeline.note_wait(wait.passed)
        observed = f"no reply within {wait.seconds:g} seconds"
        if self._reader.pending:
            observed += f" but the start of a reply: {escape(self._reader.pending)[:200]}"
        kind = OutcomeKind.NO_REPLY if command else OutcomeKind.NOT_DISCONNECTED
        deviation = self._gone(expected, observed, Step(kind, command), waited=wait.passed)
        deviation.suspects = self._after_error
        if not (self.stopped or isinstance(deviation, TargetLost)):
            deviation.client, deviation.unanswered = self.name, self._place
        return deviation

    @property
    def _after_error(self) -> tuple[str, ...]:
        """The requirement of a target that serves no client after an error, if one came last."""
        return (SURVIVES_ERRORS,) if self._last_word in _ERRORS else ()

    @property
    def _place(self) -> int:
        """The position of the first command without a reply; else of the last message."""
        sent = [place for number, place in self._places.items() if number <= self._answered]
        return (
            sent[-1] if self._answered < len(self._asked) else self._transcript.last_of(self.name)
        )

    def lost(self, expected: str, command: str, position: int | None) -> TargetLost | None:
        """Return the loss of the target at a command; None if it still serves.

        ``position``: that of the message in the transcript that shows it.
        """
        outage = self._target.outage()
        return None if outage is None else TargetLost(expected, outage, position, command)

    def _gone(
        self,
        expected: str,
        observed: str,
        step: Step,
        position: int | None = None,
        waited: float = 0.0,
    ) -> Deviation:
        if not self._garbage and (lost := self.lost(expected, step.command, position)):
            return lost
        if not self._timeline.timed:
            self.poll()
            if not (self._arrivals or self.stopped):
                # It has served another client since, and no timer is near that might explain it.
                waited = 0.0
        begun = self._timeline.last_wait if waited else None
        # The time at which it came does not make it a reply, nor end a connection.
        is_sure = self.stopped
        return Deviation(expected, observed, position, 0.0, is_sure, waited, begun, step=step)

    # ------------------------------------------------------------ expectations

    def receives(self, *replies: Reply) -> None:
        """Expect these replies, in this order, to what :meth:`raw` has sent."""
        for reply in replies:
            arrival = self.take(self._answered, self._timeline.nominal, str(reply))
            if arrival.reply != reply:
                step = Step(OutcomeKind.WRONG_REPLY, "", (reply.word,), arrival.reply.word)
                raise Deviation(str(reply), str(arrival.reply), arrival.position, step=step)

    def has_no_reply(self, sent_at: float) -> None:
        """Expect that a command sent at ``sent_at``, which waits, has no reply yet."""
        self.poll()
        timing = self._timeline.timing(sent_at)
        for arrival in self._arrivals:
            if timing is None or arrival.time < timing.earliest:
                step = Step(OutcomeKind.TOO_EARLY, came=arrival.reply.word)
                raise Deviation("no reply yet", str(arrival.reply), arrival.position, step=step)

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
            step = Step(OutcomeKind.NOT_DISCONNECTED, came=arrival.reply.word)
            raise Deviation(THE_END, str(arrival.reply), arrival.position, step=step)

    def _await_end(self, is_over: Callable[[], bool]) -> None:
        """Wait until ``is_over``; raises Deviation on a timeout or malformed replies."""
        self._timeline.waits()
        wait = self._waiting("")
        self._wait_until(is_over, lambda: wait.left)
        if not self.transport.ended and (self._garbage or not is_over()):
            raise self._missing(THE_END, wait)


def command_of(data: bytes) -> str:
    """Return the command that a message begins with; ``another line`` if it is none."""
    word = data.partition(CRLF)[0].partition(b" ")[0].decode("latin-1")
    return word if word in VERBS else "another line"
