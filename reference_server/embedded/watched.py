"""The reader and the connection of an embedded server: they record, and misbehave on demand.

They are mixed into those of the server, which may have a fault.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from reference_server.connection import ServedConnection
from reference_server.embedded.conversation import EmbeddedTranscript
from reference_server.embedded.misbehaviour import Misbehaviour
from reference_server.entries import CLIENT_CLOSES, CLIENT_HALF_CLOSES, TARGET_CLOSES
from reference_server.fault import Fault
from reference_server.wire import Body, Command, Malformed, Put, Reply, Request, RequestReader


@dataclass
class Wire:
    """The state that all connections of a server share; ``clock`` gives its time in nanoseconds."""

    clock: Callable[[], int]
    conversation: EmbeddedTranscript = field(default_factory=EmbeddedTranscript)
    misbehaviour: Misbehaviour = field(default_factory=Misbehaviour)
    connections: set[WatchedConnection] = field(default_factory=set)

    def send_on(self) -> float | None:
        """Send the bytes that slow connections owe by now; return the seconds until the next."""
        waits = [connection.send_on() for connection in [*self.connections]]
        return min((wait for wait in waits if wait is not None), default=None)

    def set_rate(self, bytes_per_second: float | None) -> None:
        """Send no faster from now on; None: as fast as clients read."""
        self.misbehaviour.bytes_per_second = bytes_per_second
        for connection in self.connections:
            connection.start_pace()

    def drop_all(self) -> None:
        """End all connections, right now."""
        # The end of one may be what another waits for: it gets nothing any more.
        for connection in self.connections:
            connection.is_dropped = True
        for connection in [*self.connections]:
            connection.drop()

    def close(self) -> None:
        """Give back all sockets, whatever has not been sent."""
        for connection in [*self.connections]:
            connection.cut_off()


class WatchedReader(RequestReader):
    """A reader that takes a request for a mistake if its reply is to be replaced."""

    wire: ClassVar[Wire]
    _instead: Reply | None = None
    """The reply to a put whose body has not arrived yet."""

    def next_request(self) -> Request | None:
        """Return the next request, or a line that is answered with another reply."""
        if self._instead is None:
            request = super().next_request()
            if request is None or type(request) is Body:
                return request
            reply = self.wire.misbehaviour.replaces(request)
            if reply is None:
                return request
            if type(request) is not Put:
                return Malformed(reply, request.verb if type(request) is Command else None)
            self._instead = reply
        if super().next_request() is None:
            return None
        reply, self._instead = self._instead, None
        return Malformed(reply, "put")


class WatchedConnection(ServedConnection):
    """A connection that is recorded, and that may be slow, or end too early.

    ``is_dropped``: nothing is read from the client any more, nor sent to it.
    """

    wire: ClassVar[Wire]

    def __init__(self, *args: Any) -> None:
        self._letter = self.wire.conversation.next_letter()
        self._sent_before = b""
        self._slow = bytearray()
        self._slow_since = 0.0
        self._slow_count = 0
        self.is_dropped = self._is_half_closed = self._closes_when_sent = False
        super().__init__(*args)
        self.wire.connections.add(self)

    def _record(self, event: bytes) -> None:
        self.wire.conversation.happened(event, self.wire.clock(), self._letter)

    # ------------------------------------------------------------ what the client sends

    def takes(self, data: bytes) -> None:
        """Record what the client has sent, and handle it."""
        if not self.is_dropped:
            self.wire.conversation.sent_by_client(self._letter, data, self.wire.clock())
            super().takes(data)

    def ends(self) -> None:
        """Note that the client sends nothing more; a reply that follows shows that it reads."""
        self._is_half_closed = True
        super().ends()

    # ------------------------------------------------------------ what it is sent

    def write(self, data: bytes) -> None:
        """Send a reply, at once or slowly."""
        if self.wire.misbehaviour.bytes_per_second is None and not self._slow:
            self._pass_on(data)
            return
        if not self._slow:
            self.start_pace()
        self._slow += data

    def start_pace(self) -> None:
        """Count the bytes a second from now on."""
        self._slow_since = time.monotonic()
        self._slow_count = 0

    def send_on(self) -> float | None:
        """Send the bytes that are owed by now; return the seconds until the next, None if none."""
        if not self._slow:
            return None
        rate, passed = self.wire.misbehaviour.bytes_per_second, time.monotonic() - self._slow_since
        due = len(self._slow) if rate is None else int(passed * rate) - self._slow_count
        if due > 0:
            piece = bytes(self._slow[:due])
            del self._slow[:due]
            self._slow_count += len(piece)
            self._pass_on(piece)
        if rate is None or not self._slow:
            if self._closes_when_sent:
                self.close()
            return None
        return max((self._slow_count + 1) / rate - passed, 0.0)

    def _pass_on(self, data: bytes) -> None:
        if self.is_dropped:
            return
        if self._is_half_closed:
            self._record(CLIENT_HALF_CLOSES)
            self._is_half_closed = False
        misbehaviour = self.wire.misbehaviour
        end = misbehaviour.cut(self._sent_before, data)
        remembered = misbehaviour.remembered
        self._sent_before = (self._sent_before + data)[-remembered:] if remembered else b""
        self.wire.conversation.sent_by_server(self._letter, data[:end], self.wire.clock())
        super().write(data[:end])
        if end is not None:
            self.is_dropped = True
            # The engine is at work with this client.
            self.loop.call_soon(self.drop)

    # ------------------------------------------------------------ the end

    def drop(self) -> None:
        """End the connection after what has been sent, for the client without a reason."""
        self.is_dropped = True
        if self._is_open and not self._is_closing:
            self._slow.clear()
            super().lost()
            self.close()

    def close(self) -> None:
        """End the connection, when all replies have been sent."""
        if self._slow:
            self._closes_when_sent = True
            return
        if self._is_open and not self._is_closing:
            self._record(CLIENT_CLOSES if self._is_half_closed else TARGET_CLOSES)
        super().close()

    def lost(self) -> None:
        """Note that the client is gone."""
        self._record(CLIENT_CLOSES)
        super().lost()

    def cut_off(self) -> None:
        """Give the socket back."""
        self._slow.clear()
        self._release()

    def _release(self) -> None:
        super()._release()
        self.wire.connections.discard(self)


def watched(fault: Fault, wire: Wire) -> Fault:
    """Return a fault, or none, whose connections are recorded and misbehave on demand."""
    shared = {"wire": wire}
    connection = fault.connection or ServedConnection
    return replace(
        fault,
        reader=type("WatchedReader", (WatchedReader, fault.reader), shared),
        connection=type("WatchedConnection", (WatchedConnection, connection), shared),
    )
