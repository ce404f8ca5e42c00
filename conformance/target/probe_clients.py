"""Two clients that probe a freshly launched server, before any test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from conformance.target.address import Address, ask, visit
from conformance.target.clock import FakeClock
from conformance.target.traits import Traits
from conformance.target.transport import Transport, wait_for
from reference_server.wire import ProtocolError, Reply, ReplyReader

DOES_NOT_FOLLOW = "the launched server does not follow libfaketime"
IN_TIME = 2.0
"""Seconds of real time within which a server does what is due."""
TTR = 2100
"""The TTR of jobs, in seconds: longer than any timeout, and less than 2**31 microseconds."""
TUBE = b"conformance-clock"
_AHEAD = 1.0
"""Seconds by which the clock is moved to see whether a missing reply waits for that."""


class UnsafeClock(Exception):
    """The clock must not be moved; the text says why."""


def unanswered(line: bytes) -> str:
    """Return the doubt of a command that is not answered."""
    return f"under libfaketime, the launched server does not answer {line.split()[0].decode()}"


def held_back(line: bytes) -> str:
    """Return the doubt of a command that is answered as soon as the clock moves."""
    verb = line.split()[0].decode()
    return f"under libfaketime, the launched server answers {verb} only when its clock moves"


def must(holds: bool, reason: str) -> None:
    """Raise :class:`UnsafeClock` with this reason unless the condition holds."""
    if not holds:
        raise UnsafeClock(reason)


class ProbeClients:
    """The ``holder`` is always answered at once, within ``limit`` seconds; the other one waits."""

    def __init__(self, holder: Transport, waiting: Transport, limit: float) -> None:
        self.holder = holder
        self.waiting = waiting
        self._limit = limit
        self.has_tubes = False
        self.asked = b""
        """The line that was asked last."""

    def begin(self) -> None:
        """Go to a tube of their own, if there are tubes: there may be jobs in default."""
        self.has_tubes = self.ask(b"use " + TUBE).word == "USING"
        if self.has_tubes:
            self._watch(self.waiting)

    def reserve(self) -> bytes:
        """Let the holder reserve a job, and return its id."""
        if self.has_tubes:
            self._watch(self.holder)
        return str(self.ask(b"reserve").args[0]).encode()

    def put(self, delay: int) -> bytes:
        """Put a job, and return its id."""
        reply = self.ask(b"put 0 %d %d 0\r\n" % (delay, TTR))
        must(reply.word == "INSERTED", DOES_NOT_FOLLOW)
        return str(reply.args[0]).encode()

    def ask(self, line: bytes) -> Reply:
        """Return the reply to this line of the holder."""
        return self._reply(self.holder, line)

    def says(self, seconds: float) -> bool:
        """Return whether the waiting client gets a reply within so many seconds of real time."""
        data = self.waiting.receive_within(seconds)
        if not (data or self.waiting.ended):
            return False
        reader = ReplyReader(tells_priority=None)
        reader.receive(data)
        while reader.next_reply() is None:
            data = self.waiting.receive_within(self._limit)
            must(bool(data), DOES_NOT_FOLLOW)
            reader.receive(data)
        return True

    def delete(self, job: bytes) -> None:
        """Delete a job that one of them holds."""
        for client in (self.holder, self.waiting):
            with contextlib.suppress(ProtocolError):
                self._reply(client, b"delete " + job)

    def are_answered_after_move(self, clock: FakeClock) -> bool:
        """Tell whether a reply that has timed out arrives once the clock has moved."""
        clock.move(_AHEAD)
        return bool(wait_for((self.holder, self.waiting), IN_TIME))

    def _watch(self, client: Transport) -> None:
        for line in (b"watch " + TUBE, b"ignore default"):
            self._reply(client, line)

    def _reply(self, client: Transport, line: bytes) -> Reply:
        self.asked = line
        return ask(client, line, self._limit, tells_priority=None)


@contextlib.contextmanager
def probe_clients(
    address: Address, limit: float, traits: Traits, clock: FakeClock | None = None
) -> Iterator[ProbeClients]:
    """Yield two clients of a server; any failure raises :class:`UnsafeClock`.

    ``clock``: the server's, moved after a timeout to find out whether the reply waits for that.
    """
    try:
        with (
            visit(address, limit, traits) as holder,
            visit(address, limit, traits) as waiting,
        ):
            clients = ProbeClients(holder, waiting, limit)
            try:
                clients.begin()
                yield clients
            except TimeoutError:
                if clock is not None and clients.are_answered_after_move(clock):
                    raise UnsafeClock(held_back(clients.asked)) from None
                raise UnsafeClock(unanswered(clients.asked)) from None
    except (OSError, EOFError, ProtocolError, ValueError, KeyError, IndexError):
        raise UnsafeClock(DOES_NOT_FOLLOW) from None
