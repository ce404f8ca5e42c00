"""A client's connection to the target, and the dialogue on it.

Each message is recorded in the scenario's transcript. Sockets never block: replies are collected
by :func:`collect`, which stamps each with the time of the target's clock.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from conformance.dialogue.exchange import Exchange, Values
from conformance.dialogue.schedule import Arrival, Timeline
from conformance.target.target import Target
from conformance.target.transport import Transport, wait_for
from conformance.transcript import Transcript
from conformance.verdict import Deviation, NotApplicable, TargetLost
from reference_server.commands import VERBS
from reference_server.wire import (
    BURIED,
    CRLF,
    NOT_FOUND,
    RESERVED,
    TIMED_OUT,
    USING,
    ProtocolError,
    Reply,
    ReplyReader,
    escape,
)

UNHURRIED = 0.05
"""Seconds of real time after which a reply that is due is taken to be late."""
STALE_STEP = 0.25
"""Seconds after which it is looked again whether a target has renewed its statistics."""
DISTANT = 30
"""Seconds after which a timer is too far away to matter to a test that does not wait for it."""
FLOOD = 100
"""Replies without a request after which a connection is given up."""


class Connection:
    """One connection; ``name`` is its letter in the transcript, ``tube`` the tube it works on.

    ``target`` says which commands there are, and what became of it if it stops talking. ``another``
    opens another connection.
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
        self.name = name
        self.tube = tube
        self.transport = transport
        self.created: set[int] = set()
        self._transcript = transcript
        self._timeline = timeline
        self._target = target
        self._limits = target.limits
        self._another = another
        self._reader = ReplyReader(target.profile.tells_priority)
        self._arrivals: deque[Arrival] = deque()
        self._garbage: str | None = None
        self._answered = 0
        self._asked = 0
        self._half_closed = False
        timeline.add(self)

    @property
    def ping(self) -> bytes:
        """A line that changes nothing and is answered at once, with :attr:`pong`."""
        return self._target.profile.neutral + CRLF

    @property
    def pong(self) -> Reply:
        """The answer to :attr:`ping`, as long as the connection uses its tube."""
        return USING(self.tube) if self._target.profile.has_tubes else NOT_FOUND

    @property
    def nominal(self) -> float:
        """The scenario's nominal time, in seconds."""
        return self._timeline.nominal

    # ------------------------------------------------------------ sending

    def send(self, line: str | bytes) -> Exchange:
        """Sends one command line (CR LF is added) and gives the exchange that it begins.

        Raises NotApplicable if the profile does not have this command, or no such line.
        """
        data = line.encode() if isinstance(line, str) else line
        self.needs(data)
        return self.raw(data + CRLF)

    def needs(self, line: bytes) -> None:
        """Raises NotApplicable if the profile has no such command, or no lines that are so long."""
        verb, profile = line.partition(b" ")[0].decode("latin-1"), self._target.profile
        if not profile.skips_long_lines and len(line) + len(CRLF) > profile.max_line:
            raise NotApplicable(f"profile {profile.name}: {profile.max_line} bytes a line at most")
        if verb not in profile.commands and verb in VERBS:
            raise NotApplicable(f"profile {profile.name} has no {verb}")

    def raw(self, data: bytes, replies: int = 1) -> Exchange:
        """Sends bytes as they are; gives the exchange of the first of ``replies`` replies."""
        self._timeline.before_sending()
        exchange = Exchange(self, self._asked, self._timeline.nominal)
        self._write(data)
        self._asked += replies
        return exchange

    def each(self, requests: Sequence[bytes]) -> Iterator[Exchange]:
        """Sends requests in one go, if the target can take that; gives the exchange of each.

        What is answered must be awaited before the next is asked for.
        """
        if not self._target.learnt.pipelines:
            yield from map(self.raw, requests)
            return
        first = self.raw(b"".join(requests), replies=len(requests))
        yield from map(first.nth, range(len(requests)))

    def nudge(self) -> None:
        """Sends a neutral command and reads its reply, if nothing else is going on.

        Some servers notice only then that the client has held a job for too long, which is a
        requirement of its own; everything else is tested without it.
        """
        self.poll()
        if self._asked == self._answered and not self.stopped and not self._half_closed:
            self._write(self.ping)
            self._asked += 1
            self.take(self._asked - 1, self._timeline.nominal, "a reply")

    def _write(self, data: bytes) -> None:
        position = self._transcript.add(self.name, ">", data, self._timeline.now())
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
                raise self._gone("a target that reads", "it stopped reading", position, waited)
            wait_for([self.transport], 0.1)
            self.poll()
        if self.transport.is_deaf:
            self.poll()

    def half_close(self) -> None:
        """Sends nothing more, but goes on reading."""
        self._timeline.before_sending()
        self._half_closed = True
        self._transcript.add(self.name, "!", b"half-closes", self._timeline.now())
        self.transport.half_close()

    def finish(self, limit: float) -> None:
        """Ends the connection so that the target has noticed when this returns.

        Gives up at the real time ``limit``, and for good if the target had nothing else to do.
        """
        self.transport.half_close()
        if not self._target.learnt.ignores_ends:
            self._wait_until(lambda: self.stopped, limit)
            # Who waits for a job may be kept waiting.
            self._target.learnt.ignores_ends = not (self.stopped or self.is_owed)
        self.transport.close()

    def unasked(self) -> Deviation | None:
        """Return the deviation if the target has sent more replies than it owes."""
        surplus = self._answered + len(self._arrivals) - self._asked
        if surplus <= 0:
            return None
        arrival = self._arrivals[-surplus]
        return Deviation("no reply without a request", str(arrival.reply), arrival.position)

    def close(self) -> None:
        """Closes the connection, without waiting for anything."""
        self._timeline.before_sending()
        self._transcript.add(self.name, "!", b"closes", self._timeline.now())
        self.transport.close()

    # ------------------------------------------------------------ receiving

    def poll(self) -> None:
        """Takes in what has arrived, without waiting."""
        while not self.stopped:
            data = self.transport.receive()
            if self.transport.ended:
                self._transcript.add(self.name, "!", b"closed by the target", self._timeline.now())
            if not data:
                return
            self._reader.receive(data)
            self._take_replies()

    def _wait_until(self, is_over: Callable[[], bool], limit: float) -> None:
        """Takes in what arrives until it is over, or until the real time ``limit``."""
        while not is_over() and time.monotonic() < limit:
            wait_for([self.transport], limit - time.monotonic())
            self.poll()

    def _take_replies(self) -> None:
        now = self._timeline.now()
        try:
            while (reply := self._reader.next_reply()) is not None:
                position = self._transcript.add(self.name, "<", reply.encode(), now)
                self._arrivals.append(Arrival(reply, now, position))
                if reply.word == "INSERTED":
                    self.created.add(int(reply.args[0]))
                if len(self._arrivals) + self._answered > self._asked + FLOOD:
                    raise ProtocolError(f"more than {FLOOD} replies that nobody asked for")
        except ProtocolError as error:
            self._garbage = str(error)
            self._transcript.add(self.name, "<", self._reader.pending, now)

    @property
    def is_owed(self) -> bool:
        """Return whether a command of its has not been answered."""
        return self._asked > self._answered + len(self._arrivals)

    @property
    def stopped(self) -> bool:
        """Whether nothing more can come."""
        return self.transport.ended or self._garbage is not None

    def take(self, index: int, sent_at: float, expected: str) -> Arrival:
        """The reply with this number; raises :class:`Deviation` if it does not come in time."""
        if index != self._answered:
            raise AssertionError("replies must be expected in the order of their commands")
        timing = self._timeline.timing(sent_at)
        limit = time.monotonic() + self._limits.reply
        awaited, waits = not self._arrivals, False
        self.poll()
        while not self._arrivals:
            left = limit - time.monotonic()
            if self.stopped or left <= 0:
                raise self._missing(expected)
            wait_for([self.transport], min(left, UNHURRIED))
            self.poll()
            waits = waits or (not self._arrivals and self._timeline.waits())
            if timing is not None and not self._arrivals and not self.stopped:
                # Where the tests move the clock, a timer that is late needs them to move it.
                self._timeline.before_sending()
        self._answered += 1
        arrival = self._arrivals.popleft()
        if timing is not None:
            timing.judge(arrival, expected)
        self._timeline.measure(timing, arrival.time, awaited)
        return arrival

    def _missing(self, expected: str) -> Deviation:
        observed, waited = self._garbage, 0.0
        if observed is None and self.transport.ended:
            observed = "the target closed the connection"
        elif observed is None:
            waited = self._limits.reply
            observed = f"nothing within {waited:g} seconds"
            if self._reader.pending:
                observed += f" but the start of a reply: {escape(self._reader.pending)[:200]}"
        return self._gone(expected, observed, None, waited)

    def _gone(self, expected: str, observed: str, position: int | None, waited: float) -> Deviation:
        if not self._garbage and (fate := self._target.fate()) is not None:
            return TargetLost(expected, fate, position)
        if not self._timeline.timed:
            self.poll()
            if not (self._arrivals or self.stopped):
                # It has served another client since, and no timer is near that might explain it.
                waited = 0.0
        begun = self._timeline.last_wait if waited else None
        # The time at which it came does not make it a reply, nor end a connection.
        return Deviation(expected, observed, position, 0.0, self.stopped, waited, begun)

    # ------------------------------------------------------------ expectations

    def receives(self, *replies: Reply) -> None:
        """Expects these replies, in this order, to what :meth:`raw` has sent."""
        for reply in replies:
            arrival = self.take(self._answered, self._timeline.nominal, str(reply))
            if arrival.reply != reply:
                raise Deviation(str(reply), str(arrival.reply), arrival.position)

    def has_no_reply(self, sent_at: float) -> None:
        """Expects that nothing has come that a command sent at ``sent_at`` waits for."""
        self.poll()
        timing = self._timeline.timing(sent_at)
        for arrival in self._arrivals:
            if timing is None or arrival.time < timing.earliest:
                raise Deviation("no reply yet", str(arrival.reply), arrival.position)

    def rest(self) -> list[Reply]:
        """All replies until the target closes the connection."""
        self._timeline.waits()
        self._wait_until(lambda: self.stopped, time.monotonic() + self._limits.reply)
        if not self.transport.ended:
            raise self._missing("the end of the connection")
        replies = [arrival.reply for arrival in self._arrivals]
        self._arrivals.clear()
        return replies

    def is_closed_by_target(self) -> None:
        """Expects the end of the connection, and no reply before it."""
        self._timeline.waits()
        limit = time.monotonic() + self._limits.reply
        self._wait_until(lambda: self.stopped or bool(self._arrivals), limit)
        expected = "the end of the connection"
        if self._arrivals:
            arrival = self._arrivals[0]
            raise Deviation(expected, str(arrival.reply), arrival.position)
        if not self.transport.ended:
            raise self._missing(expected)

    # ------------------------------------------------------------ the usual commands

    def put(self, body: bytes = b"", pri: int = 0, delay: int = 0, ttr: int = 60) -> int:
        """Puts a job and gives its id; times in seconds."""
        self._target.needs_body(len(body))
        self._timeline.timed |= ttr < DISTANT or 0 < delay < DISTANT
        head = f"put {pri} {delay} {ttr} {len(body)}\r\n".encode()
        reply = self.raw(head + body + CRLF).reply("INSERTED")
        return int(reply.args[0])

    def put_many(self, bodies: Sequence[bytes], ttr: int = 60, in_order: bool = False) -> list[int]:
        """Puts several jobs in one go and gives their ids; ``in_order``: by priority."""
        self._target.needs_body(max(map(len, bodies), default=0))
        self._timeline.timed |= ttr < DISTANT
        puts = [
            b"put %d 0 %d %d\r\n%b\r\n" % (number * in_order, ttr, len(body), body)
            for number, body in enumerate(bodies)
        ]
        return [int(put.reply("INSERTED").args[0]) for put in self.each(puts)]

    def put_and_reserve(self, body: bytes = b"a", pri: int = 0) -> int:
        """Puts a job and reserves it, where no ready job comes before it; gives its id."""
        job = self.put(body, pri=pri)
        self.reserve().expect(RESERVED(job, body))
        return job

    def put_and_bury(self, body: bytes = b"a") -> int:
        """Puts a job, reserves it and buries it; gives its id."""
        job = self.put_and_reserve(body)
        self.send(f"bury {job} 0").expect(BURIED)
        return job

    def job_in(self, state: str) -> int:
        """Makes a job in this state, where no ready job comes before it; gives its id."""
        match state:
            case "reserved":
                return self.put_and_reserve()
            case "buried":
                return self.put_and_bury()
        return self.put(b"a", delay=3600 if state == "delayed" else 0)

    def linger(self) -> None:
        """Goes back and forth a few times, so that the target comes to what others have sent.

        Nothing may depend on it: a target may still be slower.
        """
        for _ in range(5):
            self.raw(self.ping).any_reply()

    def becomes(self, is_so: Callable[[], bool], within: float = 0.0) -> bool:
        """Whether something becomes so soon that must, though no text says when."""
        return self._timeline.becomes(is_so, within)

    def eventually(self, is_so: Callable[[], bool]) -> bool:
        """Whether something becomes so within the time in which a reply must come."""
        limit = time.monotonic() + self._limits.reply
        while not is_so():
            if time.monotonic() > limit:
                return False
        return True

    def gets_soon(self, line: str, reply: Reply) -> None:
        """Asks until it gets this reply, as it must, though no text says when."""
        self.becomes(lambda: self.send(line).any_reply() == reply)
        self.send(line).expect(reply)

    def is_in_step(self) -> None:
        """Expects that the target understands what is sent next as a command, and answers it."""
        self.raw(self.ping).expect(self.pong)

    def reserve(self) -> Exchange:
        """Asks for a job that there must be; does not wait for it, if the profile allows that."""
        if self._target.profile.has_timeouts:
            return self.reserve_within(0)
        return self.send("reserve")

    def reserve_within(self, timeout: int) -> Exchange:
        """Asks for a job; waits for it at most ``timeout`` seconds."""
        self._timeline.timed |= 0 < timeout < DISTANT
        return self.send(f"reserve-with-timeout {timeout}")

    def finds_no_job(self) -> None:
        """Expects that there is no job to be reserved."""
        if self._target.profile.has_timeouts:
            self.reserve_within(0).expect(TIMED_OUT)
            return
        other = self._another()
        waiting = other.send("reserve")
        self.linger()
        waiting.is_pending()
        other.finish(time.monotonic() + self._limits.reply)

    def peek_buried(self) -> Exchange:
        """Asks for the job that was buried first."""
        return self.send("peek" if self._target.profile.id_is_optional else "peek-buried")

    def state_of(self, job: int) -> str:
        """The state of a job, as its statistics tell it."""
        return self.stats_job(job)["state"]

    def stats_job(self, job: int) -> Values:
        """The statistics of a job."""
        return self.send(f"{self._target.profile.stats_of_job} {job}").dictionary()

    def job_is(self, job: int, **values: int | str) -> None:
        """Expects these values in the statistics of a job, as far as the profile has such keys.

        Where they have no priority, peek tells it.
        """
        profile, stats = self._target.profile, self.stats_job(job)
        for key, value in values.items():
            if key == "pri" and profile.tells_priority:
                told = str(self.send(f"peek {job}").reply("FOUND").args[1])
            elif f"stats-job.{key}" not in profile.lacks:
                told = stats[key]
            else:
                continue
            if told != str(value):
                raise Deviation(f"job {job} to have {key} {value}", told[:100])

    def stats_tube(self, tube: str | None = None) -> Values:
        """The statistics of a tube; its own if none is named."""
        return self.send(f"stats-tube {tube or self.tube}").dictionary()

    def stats(self) -> Values:
        """The statistics of the server, not older than this call.

        Some servers keep them for a while; that each call counts shows whether they are new. Where
        they never are, nobody waits for it again.
        """
        first = self.send("stats").dictionary()
        tries = round(self._limits.renewal / STALE_STEP)
        for _ in range(1 if self._target.learnt.counts_nothing else tries):
            stats = self.send("stats").dictionary()
            if stats.get("cmd-stats") != first.get("cmd-stats"):
                return stats
            if not self._target.learnt.counts_nothing:
                self._timeline.renew(STALE_STEP)
        self._target.learnt.counts_nothing = True
        return stats
