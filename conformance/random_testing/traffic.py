"""The bytes between a target and the clients of a conversation, judged in both directions."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass, field

from conformance.dialogue.reply_wait import Awaiting
from conformance.oracle.judge import Judge
from conformance.oracle.violation import Violation
from conformance.random_testing.job_tags import JobTags
from conformance.random_testing.waiting import Waiting
from conformance.target.clock import Attendant
from conformance.target.target import Target
from conformance.target.transport import Transport, wait_for
from conformance.transcript import TARGET_CLOSES, Transcript, letters
from reference_server.wire import Reply

CHUNK = 2048
"""Bytes of a burst that are sent before the rest of it is made."""
PIECE = 0.05
"""Seconds in which the target has read a piece of a burst, if it serves others meanwhile."""
PROMPT = 0.1
"""Seconds of waiting after which CPU starvation is checked."""
SMALL = 2**12
"""Bytes that are asked for, at least, where another reply than the right one may come."""
_BRIEF = 0.01
"""Seconds for the end of a connection to a server that is ended next."""
LOOKS = 0.25
"""Seconds of silence after which we look whether the target has read what it was sent."""


@dataclass(slots=True)
class SessionClient:
    """A client's connection, its number for the judge, and its name in the transcript."""

    transport: Transport
    conn: int
    letter: str
    unsent: bytearray = field(default_factory=bytearray)
    """Bytes that are kept back, as more are made."""
    burst: bytearray = field(default_factory=bytearray)
    """Bytes that have been sent, and are not in the transcript yet."""
    puts: deque[int] = field(default_factory=deque)
    half_closed: bool = False
    known: bool = False
    """All replies to what it sent last were known at once."""
    behind: int = 0
    """Bytes that it has sent while it waits."""


class ClientTraffic:
    """The clients of a conversation by their numbers, and what goes over their connections.

    ``tags`` learn the ids of jobs. ``timeout``: the seconds that a reply may take. ``unforeseen``:
    the last reply that was not certain before it came. ``judge`` is set once the target has
    reported its counters, which include the connection that attends to it. Where bytes are judged,
    :class:`Violation` is raised, with the position in the transcript, or Inconclusive.
    """

    def __init__(self, target: Target, transcript: Transcript, tags: JobTags) -> None:
        self.clients: dict[int, SessionClient] = {}
        self.timeout = target.limits.reply
        self.unforeseen: Reply | None = None
        self.judge: Judge
        self._target = target
        self._transcript = transcript
        self._tags = tags
        self._letters = letters()
        self._last = self._looks = self._since = 0
        self._judged = 0.0
        """Seconds in which replies were judged, for which the target is not to blame."""
        self._is_served = True
        """The target has come to what it was sent last."""
        self._attendant: Attendant | None = None
        if not target.clock.movable:
            self._attendant = Attendant()
            self._attend(self._attendant)

    def now(self) -> int:
        """Return the time of the target's clock, in nanoseconds; it never stands still."""
        self._looks += 1
        time = round(self._target.clock.time() * 1e9) + self._looks
        return max(time, self._since)

    def _time(self) -> float:
        """Return the seconds on a clock that stands still while replies are judged."""
        return time.monotonic() - self._judged

    def _attend(self, attendant: Attendant) -> None:
        target = self._target
        attendant.watch(target.address, target.limits.alive, target.sync_line)

    def synchronise(self, seconds: float = math.inf) -> bool:
        """Wait until the target has handled its input, for so many seconds at most.

        Return whether it serves a client.
        """
        self._is_served = (self._attendant or self._target.clock).synchronise(seconds)
        return self._is_served

    # ------------------------------------------------------------ coming and going

    def open(self, number: int) -> SessionClient:
        """Open the connection of a client; raise OSError if there is none."""
        transport = self._target.connect()
        self._last += 1
        client = self.clients[number] = SessionClient(transport, self._last, next(self._letters))
        self.judge.connect(client.conn)
        self.synchronise()
        return client

    def has_ended(self, number: int) -> bool:
        """Tell whether the target ends a client's connection in time."""
        return self._ends(number, self.timeout)

    def half_close(self, number: int) -> None:
        """Let a client send nothing more, and take in what comes until it ends, if it ever does."""
        client = self.clients[number]
        client.half_closed = True
        client.transport.half_close()
        # If a reply is missing, no end comes either.
        self.hear()
        if not (self._is_served or self.synchronise()):
            # Nor if nobody is served, which is judged when something is asked.
            return
        self._ends(number, self._target.end_timeout(self.timeout))
        self.hear()

    def _ends(self, number: int, seconds: float) -> bool:
        limit = self._time() + seconds
        while number in self.clients and (left := limit - self._time()) > 0:
            self.poll(left)
        return number not in self.clients

    def restart(self) -> None:
        """End all clients of a target that was ended, and is there again."""
        for client in self.clients.values():
            client.transport.close()
        self.clients.clear()
        self.judge.restarted()
        if self._attendant is not None:
            self._attend(self._attendant)

    def abandon(self, before_restart: bool) -> None:
        """End all clients without looking at what comes; the target notices, if it can.

        ``before_restart``: it is ended next, so that it need not notice.
        """
        target, limits = self._target, self._target.limits
        if not self._is_served:
            self._target.note_hang()
        notices = self._is_served and not before_restart
        for client in self.clients.values():
            client.transport.hang_up(target.end_timeout(limits.goodbye) if notices else _BRIEF)
        if self._attendant is not None:
            self._attendant.close(target.end_timeout(limits.alive))

    # ------------------------------------------------------------ sending

    def say(self, client: SessionClient, text: bytes) -> None:
        """Judge what a client says next, which is yet to be sent."""
        if not client.burst and not client.unsent:
            self._since = self.now()
        self._since += 1
        client.known = self.judge.sent(client.conn, text, self._since)

    def pass_on(self, client: SessionClient, text: bytes, cuts: tuple[int, ...]) -> None:
        """Send the bytes up to each of these places apart; keep the rest back if it is short."""
        sent = 0
        for cut in cuts:
            client.unsent += text[sent:cut]
            sent = cut
            self.send(client)
            # Some serve nobody else until the rest has come.
            self.synchronise(PIECE)
        client.unsent += text[sent:]
        if len(client.unsent) > CHUNK:
            self.send(client)

    def send(self, client: SessionClient) -> None:
        """Send what was kept back."""
        data, client.unsent = client.unsent, bytearray()
        client.burst += data
        limit = self._time() + self.timeout
        client.transport.send(data)
        while client.transport.unsent:
            # The target must read on while we read its replies.
            if self._time() > limit:
                raise Violation(["a target that reads"], "it stopped reading")
            self.poll(0.01)

    def deliver(self, client: SessionClient, hasty: bool) -> None:
        """Send what is left of a burst, and, unless in haste, take in what it causes."""
        self.send(client)
        if client.burst:
            time = self._target.clock.time()
            self._transcript.add(client.letter, ">", bytes(client.burst), time)
            client.burst.clear()
        if not hasty:
            self.hear()
            if not self.judge.is_answered(client.conn):
                # No reply shows that the target has read it.
                self.synchronise()
                self.hear()

    # ------------------------------------------------------------ hearing

    def hear(self) -> None:
        """Take in replies until none is missing."""
        wait, pause = Waiting(self.timeout, self._time), 0.001
        for client in list(self.clients.values()):
            # A wrong reply may be shorter, and all of the right one would be waited for.
            whole = self.judge.owes(client.conn) > 1
            while (missing := self.judge.missing(client.conn)) and not wait.is_over:
                # How long statistics are is not known before, nor what comes instead of a reply.
                size = missing if whole else max(missing, SMALL)
                if not self._take_in(client, client.transport.receive_soon(size, whole)):
                    break
                wait.goes_on()
                whole = False
        if self.judge.is_quiet(self.now()):
            return
        self.synchronise()
        if self._attendant is not None:
            # Some servers have a thread for each client.
            self.poll(self._target.limits.grace)
        silence: Awaiting | None = None
        while (came := self.poll(0.0)) or self.judge.awaits(self.now()):
            if came or self.poll(min(pause, LOOKS)):
                wait.goes_on()
                silence = None
            else:
                pause *= 2
                is_served = self.synchronise()
                if silence is None and (pause > PROMPT or not is_served):
                    silence = Awaiting(self._target, self.timeout)
            if wait.is_over if silence is None else silence.left <= 0:
                try:
                    self.judge.quiet(self.now(), self._transcript.last)
                except Violation as violation:
                    violation.mark = self.note_wait(self.timeout)
                    raise
                return

    def note_wait(self, seconds: float) -> int:
        """Record that nothing arrived in so many seconds; return the position.

        A clock that is moved has not moved meanwhile.
        """
        clock = self._target.clock
        return self._transcript.add_time(clock.time() + (seconds if clock.movable else 0.0))

    def poll(self, seconds: float) -> bool:
        """Handle replies that arrive within this time; tell whether any did."""
        clients = list(self.clients.values())
        ready = wait_for([client.transport for client in clients], seconds)
        for client in clients if ready else ():
            if client.transport in ready:
                self._take_in(client, client.transport.receive())
        return bool(ready)

    def _take_in(self, client: SessionClient, data: bytes) -> bool:
        """Take in what a client got; tell whether it got anything."""
        if not (data or client.transport.ended):
            return False
        at, now = self._target.clock.time(), self.now()
        if not data:
            mark = self._transcript.add(client.letter, "!", TARGET_CLOSES, at)
            number = next(number for number, c in self.clients.items() if c is client)
            del self.clients[number]
            client.transport.close()
            self.judge.ended(client.conn, now, mark)
            return False
        mark = self._transcript.add_to_reply(client.letter, data, at)
        begun = time.monotonic()
        replies = self.judge.received(client.conn, data, now, mark)
        self._judged += time.monotonic() - begun
        for reply in replies.unforeseen:
            self.unforeseen = reply
        for reply in replies.all if client.puts else ():
            self._tags.learn(client.puts, reply)
        return True
