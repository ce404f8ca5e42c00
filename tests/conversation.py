"""Random conversations with a target, on several connections, judged by the oracle."""

from __future__ import annotations

import random
import select
import socket
import time

from conformance.address import connect
from conformance.oracle import Oracle, Violation
from conformance.target import Target
from reference_server.profiles import Profile
from reference_server.wire import ReplyReader
from tests.programs import Writer

LATENESS = 10_000_000
"""Nanoseconds that a timer may be late, where the target is waited for after each move."""
LIMIT = 5.0
"""Seconds that a target may take to answer a neutral command."""


class Conversation:
    """Sends one command at a time; ``clients`` connections. The target's clock must be movable."""

    def __init__(self, target: Target, profile: Profile, seed: int, clients: int = 3) -> None:
        self._chance = random.Random(seed)
        self._target = target
        self.oracle = Oracle(profile, lateness=LATENESS)
        # The connection of the clock uses default, too.
        self.oracle.connect(-1, 0)
        self._sockets = [connect(target.address, LIMIT) for _ in range(clients)]
        self._readers = [ReplyReader() for _ in range(clients)]
        for number in range(1, clients + 1):
            self.oracle.connect(number, self._now())
            target.clock.settle()
        self._writer = Writer(self._chance, self.oracle.model)

    def _now(self) -> int:
        return round(self._target.clock.time() * 1e9)

    def step(self) -> None:
        """One command, or some time; raises Violation or Inconclusive."""
        if self._chance.random() < 0.1:
            self._advance(self._chance.choice((0.3, 0.7, 1.0, 1.5, 3.0, 500.0, 1001.0)))
        elif free := self._free():
            self._writer.model = self.oracle.model
            self._send(self._chance.choice(free), self._writer.command())
        self._hear()

    def _hear(self) -> None:
        """Takes in replies until none is missing."""
        limit = time.monotonic() + LIMIT
        while True:
            self._target.clock.settle()
            self._receive()
            try:
                return self.oracle.quiet(self._now())
            except Violation:
                if time.monotonic() > limit:
                    raise

    def _advance(self, seconds: float) -> None:
        """From timer to timer: a server may do strange things if many fall due in one jump."""
        end = self._now() + round(seconds * 1e9)
        while (now := self._now()) < end:
            due = self.oracle.next_due(now)
            self._move(now, end if due is None else min(due, end))
            # Far enough beyond it that it must have fired, unless its client is idle.
            self._move(self._now(), self._now() + 4 * LATENESS)
            for conn in self._free():
                self._send(conn, b"list-tube-used\r\n")
            self._hear()

    def _move(self, now: int, until: int) -> None:
        self._target.clock.move((until - now) / 1e9)
        self.oracle.moved(now, self._now())
        self._hear()

    def _free(self) -> list[int]:
        waiting = self.oracle.model.is_waiting
        return [conn for conn in range(1, len(self._sockets) + 1) if not waiting(conn)]

    def _send(self, conn: int, data: bytes) -> None:
        self.oracle.sent(conn, data, self._now())
        self._sockets[conn - 1].sendall(data)

    def _receive(self) -> None:
        ready = select.select(self._sockets, [], [], 0)[0]
        for sock in ready:
            number = self._sockets.index(sock)
            self._readers[number].receive(sock.recv(2**20))
            while (reply := self._readers[number].next_reply()) is not None:
                self.oracle.received(number + 1, reply, self._now())

    def close(self) -> None:
        """Ends all connections."""
        for sock in self._sockets:
            sock.shutdown(socket.SHUT_RDWR)
            sock.close()
