"""The forwarder: it carries bytes between clients and a server, and shows a copy to a tap.

It forwards what it reads at once, in one send for each read. The end of one direction is passed
on, and so is a reset. A side that does not read makes the other side wait, as TCP does; nobody
waits for the tap.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import time
from typing import Protocol

from conformance.target.address import Address
from conformance.traffic.events import Kind
from reference_server.loop import ERROR, HANGUP, READ, WRITE, Levels, Poller

READ_SIZE = 1 << 16
"""Bytes read at a time."""
_RESET = struct.pack("ii", 1, 0)
_TICK = 0.02
"""Seconds after which the tap may flush what it has."""
_BATCH = 256
_BACKLOG = 1024
_ACCEPTED = 64
"""Clients accepted before others are served."""
_PAUSE = 0.1
"""Seconds without new clients after the system had no room for one."""
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Tap(Protocol):
    """A listener that gets a copy of everything; it must return at once."""

    def note(self, conn: int, kind: Kind, data: bytes = b"") -> None:
        """Take an event, before the forwarder acts on it."""

    def tick(self) -> None:
        """Do what was put off; called now and then."""


class _Side:
    """One side of a connection: a socket, and what it has not taken yet."""

    __slots__ = ("ended", "events", "is_client", "other", "pair", "sock", "unsent")

    def __init__(self, sock: socket.socket, pair: _Pair, is_client: bool) -> None:
        self.sock = sock
        self.pair = pair
        self.is_client = is_client
        self.other: _Side = self
        self.unsent = b""
        self.ended = False
        """It sends nothing more."""
        self.events = 0


class _Pair:
    """A client's connection, and the one to the server."""

    __slots__ = ("client", "conn", "is_connected", "server")

    def __init__(self, conn: int, client: socket.socket, server: socket.socket) -> None:
        self.conn = conn
        self.is_connected = False
        self.client = _Side(client, self, True)
        self.server = _Side(server, self, False)
        self.client.other, self.server.other = self.server, self.client


class Forwarder:
    """Forwards the connections of a listening socket to ``target``."""

    def __init__(
        self,
        listener: socket.socket,
        target: Address,
        tap: Tap,
    ) -> None:
        self._listener = listener
        self._target = target
        self._tap = tap
        self._family = _family(target)
        self._poller: Poller = select.epoll() if hasattr(select, "epoll") else Levels()
        self._sides: dict[int, _Side] = {}
        self._last = 0
        self._runs = True
        self._accepts_at: float | None = None
        listener.setblocking(False)
        self._poller.register(listener.fileno(), READ)

    def stop(self) -> None:
        """Let :meth:`run` return soon; from a signal handler or another thread."""
        self._runs = False

    def run(self) -> None:
        """Forward until :meth:`stop`; then end all connections."""
        poll, sides, tap = self._poller.poll, self._sides, self._tap
        accepting = self._listener.fileno()
        while self._runs:
            has_clients = False
            for fd, events in poll(_TICK, _BATCH):
                side = sides.get(fd)
                if side is not None:
                    self._happens(side, events)
                else:
                    has_clients |= fd == accepting
            if has_clients:
                # At last: their sockets may have numbers that the batch knew as those of others.
                self._accept()
            tap.tick()
            if self._accepts_at is not None and time.monotonic() > self._accepts_at:
                self._accepts_at = None
                self._poller.register(accepting, READ)
        self._close()

    def _close(self) -> None:
        for side in [*self._sides.values()]:
            if side.is_client:
                self._finish(side.pair, Kind.CLOSED)
        if self._accepts_at is None:
            self._poller.unregister(self._listener.fileno())
        self._listener.close()
        self._poller.close()

    # ------------------------------------------------------------ coming and going

    def _accept(self) -> None:
        for _ in range(_ACCEPTED):
            try:
                client, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self._pause(error)
                return
            try:
                server = socket.socket(self._family, socket.SOCK_STREAM)
            except OSError as error:
                client.close()
                self._pause(error)
                return
            self._connect(client, server, address)

    def _pause(self, error: OSError) -> None:
        """Accept nobody for a while if the system has no room."""
        if error.errno in _NO_ROOM:
            self._poller.unregister(self._listener.fileno())
            self._accepts_at = time.monotonic() + _PAUSE

    def _connect(self, client: socket.socket, server: socket.socket, address: object) -> None:
        self._last += 1
        pair = _Pair(self._last, client, server)
        for sock in (client, server):
            sock.setblocking(False)
            if sock.family != getattr(socket, "AF_UNIX", None):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = "{}:{}".format(*address[:2]) if isinstance(address, tuple) else "unix"
        self._tap.note(pair.conn, Kind.OPENED, name.encode())
        for side in (pair.client, pair.server):
            self._sides[side.sock.fileno()] = side
            side.events = WRITE if side is pair.server else 0
            self._poller.register(side.sock.fileno(), side.events)
        try:
            server.connect(self._target)
        except BlockingIOError:
            pass
        except OSError:
            self._reset(pair.server)

    def _connected(self, pair: _Pair) -> None:
        if pair.server.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._reset(pair.server)
            return
        pair.is_connected = True
        self._want(pair.client)
        self._want(pair.server)

    def _reset(self, side: _Side) -> None:
        """Reset the connection of the other side, as that of this side was reset."""
        with contextlib.suppress(OSError):
            side.other.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._finish(side.pair, Kind.RESET, b"client" if side.is_client else b"server")

    def _finish(self, pair: _Pair, kind: Kind, data: bytes = b"") -> None:
        self._tap.note(pair.conn, kind, data)
        for side in (pair.client, pair.server):
            fd = side.sock.fileno()
            del self._sides[fd]
            self._poller.unregister(fd)
            side.sock.close()

    # ------------------------------------------------------------ bytes

    def _happens(self, side: _Side, events: int) -> None:
        pair = side.pair
        if not pair.is_connected:
            if side is pair.server:
                self._connected(pair)
            elif events & (ERROR | HANGUP):
                self._reset(side)
            return
        if events & WRITE and side.unsent and not self._send_on(side):
            return
        if events & READ:
            self._read(side)
        elif events & ERROR or (events & HANGUP and not side.events & READ):
            # It has ended in both directions, or was reset; a read says which.
            self._end_of(side)

    def _read(self, side: _Side) -> None:
        try:
            data = side.sock.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            self._reset(side)
            return
        if not data:
            self._half_close(side)
            return
        other = side.other
        self._tap.note(side.pair.conn, Kind.SENT if side.is_client else Kind.RECEIVED, data)
        try:
            sent = other.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._reset(other)
            return
        if sent < len(data):
            other.unsent = data[sent:]
            if other.is_client:
                self._tap.note(side.pair.conn, Kind.BLOCKED)
            self._want(side)
            self._want(other)

    def _end_of(self, side: _Side) -> None:
        """Note a hang-up of a side that is not read now."""
        if side.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._reset(side)
        elif side.ended:
            # No reader is left for the rest.
            self._reset(side) if side.unsent else self._finish(side.pair, Kind.CLOSED)
        else:
            side.other.unsent = b""
            self._reset(side)

    def _half_close(self, side: _Side) -> None:
        side.ended = True
        kind = Kind.CLIENT_ENDED if side.is_client else Kind.SERVER_ENDED
        self._tap.note(side.pair.conn, kind)
        if not side.other.unsent:
            self._pass_end(side)
        else:
            self._want(side)

    def _pass_end(self, side: _Side) -> None:
        """Forward the end of a side, when the other has taken all that came before it."""
        if side.other.ended and not side.unsent:
            self._finish(side.pair, Kind.CLOSED)
            return
        with contextlib.suppress(OSError):
            side.other.sock.shutdown(socket.SHUT_WR)
        self._want(side)

    def _send_on(self, side: _Side) -> bool:
        """Send what a side had no room for; return whether its connection goes on."""
        try:
            sent = side.sock.send(side.unsent)
        except BlockingIOError:
            return True
        except OSError:
            self._reset(side)
            return False
        side.unsent = side.unsent[sent:]
        if side.unsent:
            return True
        if side.is_client:
            self._tap.note(side.pair.conn, Kind.UNBLOCKED)
        self._want(side)
        if side.other.ended:
            self._pass_end(side.other)
            return side.sock.fileno() >= 0
        self._want(side.other)
        return True

    def _want(self, side: _Side) -> None:
        """Register with the poller the events that a side can handle next."""
        events = 0 if side.ended or side.other.unsent else READ
        events |= WRITE if side.unsent else 0
        if events != side.events:
            side.events = events
            self._poller.modify(side.sock.fileno(), events)


def _family(target: Address) -> int:
    if isinstance(target, str):
        return socket.AF_UNIX
    return socket.getaddrinfo(*target, type=socket.SOCK_STREAM)[0][0]


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; raises OSError."""
    family, _, _, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
