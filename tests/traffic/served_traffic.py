"""Traffic in which one client may wait for ever, while another one is served."""

from __future__ import annotations

from collections.abc import Callable

from conformance.traffic.events import Event, Kind
from conformance.traffic.overdue import OVERDUE
from reference_server.state import SECOND

START = 1_700_000_000 * SECOND
WHILE = OVERDUE // SECOND + 3
"""Seconds after which a reply that was due at once is overdue."""


class Traffic:
    """Client 1, and client 2 that shows whether the server serves anybody."""

    def __init__(self, take: Callable[[Event], object]) -> None:
        self.now = START
        self._take = take
        for conn in (1, 2):
            self.event(conn, Kind.OPENED, b"client-%d" % conn)

    def event(self, conn: int, kind: Kind, data: bytes = b"") -> None:
        """Judge an event of now."""
        self._take(Event(self.now, conn, kind, data))

    def say(self, *said: bytes, conn: int = 1) -> None:
        """Let a client send and receive, by turns."""
        for number, data in enumerate(said):
            self.event(conn, (Kind.SENT, Kind.RECEIVED)[number % 2], data)

    def serve(self, seconds: int) -> None:
        """Serve client 2 for a time, twice a second."""
        for _ in range(2 * seconds):
            self.now += SECOND // 2
            self.say(b"list-tube-used\r\n", b"USING default\r\n", conn=2)
