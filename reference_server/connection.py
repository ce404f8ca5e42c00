"""A client's connection: bytes from its socket to the engine, and replies back."""

from __future__ import annotations

import socket
from functools import partial

from reference_server.engine import Engine
from reference_server.loop import ERROR, HANGUP, READ, WRITE, Loop
from reference_server.reserve import RESERVE

READ_SIZE = 16384
"""Bytes read at a time, so that one client cannot keep the others waiting."""
BUFFER_LIMIT = 65536
"""Bytes kept for a client that may not be answered yet; beyond it, its socket is not read."""


class ServedConnection:
    """One client; the engine's link to it."""

    unsent_limit = BUFFER_LIMIT
    """Bytes of replies kept for a client that does not read; beyond it, it is not answered."""

    def __init__(self, loop: Loop, engine: Engine, sock: socket.socket) -> None:
        self.congested = False
        self.loop = loop
        self._engine = engine
        self._socket = sock
        self._unsent = bytearray()
        self._is_open = True
        self._is_paused = self._has_ended = self._is_closing = False
        sock.setblocking(False)
        loop.watch(sock.fileno(), self._happens)
        try:
            self._number = engine.connect(self)
        except BaseException:
            self._release()
            raise

    def _happens(self, events: int) -> None:
        try:
            if events & WRITE and self._unsent:
                self._send_on()
            if events & ~WRITE and self._is_open:
                self._read(events)
        except Exception:
            self._abort()
            raise

    # ------------------------------------------------------------ what the client sends

    def _is_read(self) -> bool:
        return not (self._is_paused or self._has_ended or self._is_closing)

    def _read(self, events: int) -> None:
        if not self._is_read():
            # Behind its end, a hang-up is that of both directions.
            if events & (ERROR if self._is_paused else ERROR | HANGUP):
                self._abort()
            return
        try:
            data = RESERVE.needed(self._receive)
        except BlockingIOError:
            return
        except OSError:
            self._abort()
            return
        if not data:
            self._has_ended = True
            self.ends()
            self._again()
            return
        self.takes(data)
        if len(data) == READ_SIZE or events & ~(READ | WRITE):
            self._again()

    def _receive(self) -> bytes:
        return self._socket.recv(READ_SIZE)

    def _again(self) -> None:
        """Let the loop watch for what this connection can do next."""
        if self._is_open:
            interest = (READ if self._is_read() else 0) | (WRITE if self._unsent else 0)
            self.loop.again(self._socket.fileno(), interest)

    def takes(self, data: bytes) -> None:
        """Handle what the client has sent."""
        self._limit_reading(self._engine.receive(self._number, data))

    def _limit_reading(self, waiting: int) -> None:
        """Do not read what would only wait: ``waiting`` bytes do already."""
        model = self._engine.model
        too_much = waiting > BUFFER_LIMIT and (
            self.congested or (self._number in model.connections and model.is_waiting(self._number))
        )
        if too_much != self._is_paused:
            self._is_paused = too_much
            self._again()

    def _reconsider(self) -> None:
        if self._is_paused and self._is_open:
            self._limit_reading(self._engine.receive(self._number, b""))

    def ends(self) -> None:
        """Note that the client sends nothing more."""
        self._engine.eof(self._number)

    # ------------------------------------------------------------ what it is sent

    def write(self, data: bytes) -> None:
        """Send a reply, or keep what the client does not take yet."""
        if self._is_paused:
            # It may be answered again, but only when this has been seen to the end.
            self.loop.call_soon(self._reconsider)
        if self._unsent:
            RESERVE.needed(partial(self._keep, data, 0))
        else:
            try:
                sent = self._send(data)
            except OSError:
                # The engine is at work with this client.
                self.loop.call_soon(self._abort)
                return
            if sent < len(data):
                RESERVE.needed(partial(self._keep, data, sent))
                self._again()
        self.congested = len(self._unsent) > self.unsent_limit

    def _keep(self, data: bytes, sent: int) -> None:
        self._unsent += memoryview(data)[sent:]

    def _send(self, data: bytes | bytearray) -> int:
        """Return how many bytes could be sent; raise OSError if the client is gone."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    def _send_on(self) -> None:
        try:
            sent = self._send(self._unsent)
        except OSError:
            self._abort()
            return
        del self._unsent[:sent]
        if not self._unsent:
            if self._is_closing:
                self._release()
                return
            self._again()
        if self.congested and len(self._unsent) <= self.unsent_limit // 4:
            self.congested = False
            self._engine.resume(self._number)
            self._reconsider()

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """End the connection, when all replies have been sent."""
        self._is_closing = True
        if self._unsent:
            self._again()
        else:
            self._release()

    def _abort(self) -> None:
        """End the connection with a client that is gone, or that cannot be served."""
        if self._is_open:
            self._release()
            self.lost()

    def lost(self) -> None:
        """Note that the client is gone."""
        self._engine.lost(self._number)

    def _release(self) -> None:
        if self._is_open:
            self._is_open = False
            self._unsent.clear()
            self.loop.forget(self._socket.fileno())
            self._socket.close()
