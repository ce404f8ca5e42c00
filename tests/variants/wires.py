"""Servers whose bytes travel differently: in other pieces, later, or in another order.

Time here is real time, whatever clock the process sees.
"""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from collections.abc import Callable
from random import Random
from typing import Any

from reference_server.serve import Connection, Server
from tests.variants.variant import Variant

MILLISECOND = 0.001
SLOW = 5 * MILLISECOND


class RealTimer:
    """Calls back on the loop after a span of real time, in any order, all that asked meanwhile."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: list[Callable[[], None]] = []
        self._set = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._chance = Random(7)

    def call(self, callback: Callable[[], None]) -> None:
        """Calls this when the time is over that runs already, or begins to run."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            threading.Thread(target=self._run, daemon=True).start()
        self._waiting.append(callback)
        self._set.set()

    def _run(self) -> None:
        assert self._loop is not None
        never, other = socket.socketpair()
        with never, other:
            while True:
                self._set.wait()
                self._set.clear()
                # Unlike sleep, it does not look at a clock that somebody may move.
                select.select([never], [], [], self._seconds)
                try:
                    self._loop.call_soon_threadsafe(self._fire)
                except RuntimeError:
                    return

    def _fire(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._chance.shuffle(waiting)
        for callback in waiting:
            callback()


def _server(connection: type[Connection], **values: Any) -> type[Server]:
    """A server whose connections are of this kind, and have these values."""

    class Other(Server):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            seconds = values.get("seconds")
            shared = {} if seconds is None else {"timer": RealTimer(seconds)}
            self._kind = type("Kind", (connection,), {**values, **shared})

        def _accept(self) -> asyncio.BaseProtocol:
            kind: Connection = self._kind(self)
            return kind

    return Other


class _Buffered(Connection):
    """What is to be sent is kept first, and sent before the end."""

    _is_gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._unsent = bytearray()
        self._ends = False

    def _send(self, size: int) -> None:
        """Sends so many bytes of it."""
        if not self._is_gone:
            super().write(bytes(self._unsent[:size]))
        del self._unsent[:size]
        if self._ends and not self._unsent:
            super().close()

    def close(self) -> None:
        self._ends = True
        if not self._unsent:
            super().close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_gone = True
        super().connection_lost(exc)


class _Pieces(Connection):
    """Replies are sent in pieces of so many bytes at most, large ones in larger ones."""

    size = 1

    def write(self, data: bytes) -> None:
        step = self.size if len(data) < 4096 else 1024
        for start in range(0, len(data), step):
            if self._transport.is_closing():
                return
            super().write(data[start : start + step])


class _OddPieces(_Buffered):
    """Replies are sent in pieces of odd sizes, in a turn of the loop each."""

    chance = Random(7)

    def write(self, data: bytes) -> None:
        self._unsent += data
        if len(self._unsent) == len(data):
            asyncio.get_running_loop().call_soon(self._goes_on)

    def _goes_on(self) -> None:
        self._send(self.chance.randrange(1, 40) + len(self._unsent) // 8)
        if self._unsent:
            asyncio.get_running_loop().call_soon(self._goes_on)


class _Collects(_Buffered):
    """Replies to all clients are collected for a while, and then sent."""

    timer: RealTimer

    def write(self, data: bytes) -> None:
        if not self._unsent:
            self.timer.call(lambda: self._send(len(self._unsent)))
        self._unsent += data


class _ReadsPieces(Connection):
    """What clients send is read in small pieces, with a turn for all others after each."""

    size = 1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._unread = bytearray()
        self._ends = False

    def buffer_updated(self, nbytes: int) -> None:
        if not self._unread:
            asyncio.get_running_loop().call_soon(self._reads)
        self._unread += memoryview(self._server.buffer)[:nbytes]

    def _reads(self) -> None:
        if self._is_lost:
            return
        size = max(self.size, len(self._unread) // 64)
        self.takes(bytes(self._unread[:size]))
        del self._unread[:size]
        if self._unread:
            asyncio.get_running_loop().call_soon(self._reads)
        elif self._ends:
            super().eof_received()

    def eof_received(self) -> bool:
        self._ends = True
        if not self._unread:
            super().eof_received()
        return True

    _is_lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        super().connection_lost(exc)


class _ReadsLate(_ReadsPieces):
    """What clients send lies unread for a while; whose is read first then is anybody's guess."""

    timer: RealTimer

    def buffer_updated(self, nbytes: int) -> None:
        if not self._unread:
            self.timer.call(self._reads)
        self._unread += memoryview(self._server.buffer)[:nbytes]

    def _reads(self) -> None:
        if self._is_lost:
            return
        data = bytes(self._unread)
        self._unread.clear()
        self.takes(data)
        if self._ends:
            Connection.eof_received(self)


class _NoticesLate(Connection):
    """That a client has gone is noticed a while later."""

    timer: RealTimer

    def connection_lost(self, exc: Exception | None) -> None:
        self.timer.call(lambda: super(_NoticesLate, self).connection_lost(exc))


class _SmallBuffers(Connection):
    """A client that does not read its replies is not read from, either."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)


def _travels(summary: str, connection: type[Connection], **values: Any) -> Variant:
    slow = values.get("seconds", 0) >= SLOW
    return Variant("", summary, server=_server(connection, **values), slow=slow)


WIRES = (
    _travels("one byte a packet", _Pieces, size=1),
    _travels("seven bytes a packet", _Pieces, size=7),
    _travels("replies in pieces of odd sizes", _OddPieces),
    _travels("replies collected for a millisecond", _Collects, seconds=MILLISECOND),
    _travels("replies collected for 5 milliseconds", _Collects, seconds=5 * MILLISECOND),
    _travels("replies collected for 30 milliseconds", _Collects, seconds=30 * MILLISECOND),
    _travels("reads a byte at a time", _ReadsPieces, size=1),
    _travels("reads 50 bytes at a time", _ReadsPieces, size=50),
    _travels("reads a millisecond later", _ReadsLate, seconds=MILLISECOND),
    _travels("reads 10 milliseconds later", _ReadsLate, seconds=10 * MILLISECOND),
    _travels("notices ends 20 milliseconds later", _NoticesLate, seconds=20 * MILLISECOND),
    _travels("small buffers", _SmallBuffers),
)
