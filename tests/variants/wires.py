"""Servers whose bytes travel differently: in other pieces, later, or in another order.

Time here is real time, whatever clock the process sees.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from reference_server.connection import ServedConnection
from reference_server.engine import Engine
from reference_server.events import Event
from reference_server.loop import Loop
from reference_server.model import Model
from reference_server.reserve import RESERVE
from reference_server.serve import Server
from reference_server.state import Job
from tests.variants.variant import Variant, non_strict

MILLISECOND = 0.001
SLOW = 5 * MILLISECOND


class RealTimer:
    """Calls back on the loop after a span of real time, in any order, all that asked meanwhile."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: list[Callable[[], None]] = []
        self._set = threading.Event()
        self._loop: Loop | None = None
        self._chance = Random(7)

    def _span(self) -> float:
        """Return the seconds until it calls back."""
        return self._seconds

    def call(self, loop: Loop, callback: Callable[[], None]) -> None:
        """Call this when the time is over that runs already, or begin to run."""
        if self._loop is None:
            self._loop = loop
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
                select.select([never], [], [], self._span())
                try:
                    self._loop.call_soon(self._fire)
                except OSError:
                    return

    def _fire(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._chance.shuffle(waiting)
        for callback in waiting:
            callback()


class RandomTimer(RealTimer):
    """Calls back after a random time, up to a span."""

    def _span(self) -> float:
        return self._chance.uniform(0, self._seconds)


def _server(connection: type[ServedConnection], **values: Any) -> type[Server]:
    """Return a server whose connections are of this kind, and have these values."""

    class Other(Server):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            seconds = values.get("seconds")
            timer = values.get("kind", RealTimer)
            shared = {} if seconds is None else {"timer": timer(seconds)}
            kind: Any = type("Kind", (connection,), {**values, **shared})
            self.connection = kind

    return Other


class _Buffered(ServedConnection):
    """What is to be sent is kept first, and sent before the end."""

    def __init__(self, *args: Any) -> None:
        self._kept = bytearray()
        self._ends_then = False
        super().__init__(*args)

    def _give(self, size: int) -> None:
        """Send so many bytes of it."""
        super().write(RESERVE.needed(lambda: bytes(self._kept[:size])))
        del self._kept[:size]
        if self._ends_then and not self._kept:
            super().close()

    def close(self) -> None:
        self._ends_then = True
        if not self._kept:
            super().close()


class _Pieces(ServedConnection):
    """Replies are sent in pieces of so many bytes at most, large ones in larger ones."""

    size = 1

    def write(self, data: bytes) -> None:
        step = self.size if len(data) < 4096 else 1024
        for start in range(0, len(data), step):
            super().write(data[start : start + step])


class _OddPieces(_Buffered):
    """Replies are sent in pieces of odd sizes, in a turn of the loop each."""

    chance = Random(7)

    def write(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) == len(data):
            self.loop.call_soon(self._goes_on)

    def _goes_on(self) -> None:
        self._give(self.chance.randrange(1, 40) + len(self._kept) // 8)
        if self._kept:
            self.loop.call_soon(self._goes_on)


class _Collects(_Buffered):
    """Replies to all clients are collected for a while, and then sent."""

    timer: RealTimer

    def write(self, data: bytes) -> None:
        if not self._kept:
            self.timer.call(self.loop, lambda: self._give(len(self._kept)))
        self._kept += data


class _WaitsForItsClock(_Buffered):
    """Replies are sent when a random time has passed by the server's own clock.

    So they wait for ever where that clock stands still.
    """

    most = 0.0
    _chance = Random(7)
    _due = 0.0

    def write(self, data: bytes) -> None:
        if not self._kept:
            self._due = time.monotonic() + self._chance.uniform(0, self.most)
            self.loop.call_soon(self._looks)
        self._kept += data

    def _looks(self) -> None:
        if not self._is_open:
            return
        if time.monotonic() >= self._due:
            self._give(len(self._kept))
            return
        select.select([self._socket], [], [], 0.0005)
        self.loop.call_soon(self._looks)


class _ReadsPieces(ServedConnection):
    """What clients send is read in small pieces, with a turn for all others after each."""

    size = 1
    _is_lost = False

    def __init__(self, *args: Any) -> None:
        self._unread = bytearray()
        self._ends_then = False
        super().__init__(*args)

    def takes(self, data: bytes) -> None:
        if not self._unread:
            self._reads_later()
        RESERVE.needed(lambda: self._unread.extend(data))

    def _reads_later(self) -> None:
        self.loop.call_soon(self._reads)

    def _size(self) -> int:
        return max(self.size, len(self._unread) // 64)

    def _reads(self) -> None:
        if self._is_lost:
            return
        try:
            self._takes_a_piece(self._size())
        except MemoryError:
            self._abort()
            raise
        if self._unread:
            self.loop.call_soon(self._reads)
        elif self._ends_then:
            super().ends()

    def _takes_a_piece(self, size: int) -> None:
        data = RESERVE.needed(lambda: bytes(self._unread[:size]))
        del self._unread[:size]
        super().takes(data)

    def ends(self) -> None:
        self._ends_then = True
        if not self._unread:
            super().ends()

    def lost(self) -> None:
        self._is_lost = True
        super().lost()


class _ReadsLate(_ReadsPieces):
    """What clients send lies unread for a while; whose is read first then is anybody's guess."""

    timer: RealTimer

    def _reads_later(self) -> None:
        self.timer.call(self.loop, self._reads)

    def _size(self) -> int:
        return len(self._unread)


class _NoticesLate(ServedConnection):
    """That a client has gone is noticed a while later."""

    timer: RealTimer

    def lost(self) -> None:
        self.timer.call(self.loop, super().lost)


class _SmallBuffers(ServedConnection):
    """A client that does not read its replies is not read from, either."""

    unsent_limit = 0

    def __init__(self, loop: Loop, engine: Engine, sock: socket.socket) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        super().__init__(loop, engine, sock)


class _AcceptsLate(Server):
    """The kernel keeps a connection back for a second, or until something is sent on it."""

    def start(
        self, loop: Loop, address: str, port: int, listening: Sequence[socket.socket] = ()
    ) -> str:
        bound = super().start(loop, address, port, listening)
        assert self._listeners is not None
        for sock in self._listeners.socks:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)
        return bound


def _travels(summary: str, connection: type[ServedConnection], **values: Any) -> Variant:
    slow = values.get("seconds", 0) >= SLOW
    # What they keep beside the server's own buffers is not held back.
    of_memory = []
    if issubclass(connection, _Buffered):
        of_memory = ["exhaustion.slow-readers-memory"]
    elif issubclass(connection, _ReadsPieces):
        # Without memory for them, it hangs up.
        of_memory = ["exhaustion.refused-bodies-memory", "exhaustion.memory-serves-again"]
    server = _server(connection, **values)
    return Variant(summary, server=server, non_strict=non_strict(*of_memory), slow=slow)


class _ServesNobody(Model):
    """A job that becomes ready is given to a client that waits for it only when ``service`` is on.

    ``is_awaited``: there is one.
    """

    is_awaited = service = False

    def _make_ready(self, job: Job) -> None:
        tube = job.tube
        if not tube.waiting or tube.pause or self._is_full(tube):
            super()._make_ready(job)
            return
        self._queue(job)
        self.is_awaited = True

    def _handle(self, event: Event, conn: int) -> None:
        super()._handle(event, conn)
        if not self.service:
            return
        for tube in [tube for tube in self.tubes if not tube.pause]:
            # Where there is no pause to end, this only serves the clients that wait.
            self._unpause(tube)


class _ServesLater(Server):
    """Clients that wait are served a while after there is a job, if no other client got it."""

    seconds: float

    def start(
        self, loop: Loop, address: str, port: int, listening: Sequence[socket.socket] = ()
    ) -> str:
        self._loop, self._timer = loop, RealTimer(self.seconds)
        return super().start(loop, address, port, listening)

    @property
    def _model(self) -> _ServesNobody:
        model = self.engine.model
        assert isinstance(model, _ServesNobody)
        return model

    def before_wait(self) -> float | None:
        seconds = super().before_wait()
        if self._model.is_awaited:
            self._model.is_awaited = False
            self._timer.call(self._loop, self._serve_waiting)
        return seconds

    def _serve_waiting(self) -> None:
        self._model.service = True
        self.engine.tick()
        self._model.service = False


def _serves_later(summary: str, seconds: float) -> Variant:
    server = type("Later", (_ServesLater,), {"seconds": seconds})
    return Variant(summary, _ServesNobody, server=server, slow=seconds >= SLOW)


WIRES = (
    _travels("one byte a packet", _Pieces, size=1),
    _travels("seven bytes a packet", _Pieces, size=7),
    _travels("replies in pieces of odd sizes", _OddPieces),
    _travels("replies collected for a millisecond", _Collects, seconds=MILLISECOND),
    _travels("replies collected for 5 milliseconds", _Collects, seconds=5 * MILLISECOND),
    _travels("replies collected for 30 milliseconds", _Collects, seconds=30 * MILLISECOND),
    _travels("replies a random time later", _Collects, seconds=20 * MILLISECOND, kind=RandomTimer),
    _travels(
        "replies a random time later by its own clock", _WaitsForItsClock, most=20 * MILLISECOND
    ),
    _travels("reads a byte at a time", _ReadsPieces, size=1),
    _travels("reads 50 bytes at a time", _ReadsPieces, size=50),
    _travels("reads a millisecond later", _ReadsLate, seconds=MILLISECOND),
    _travels("reads 10 milliseconds later", _ReadsLate, seconds=10 * MILLISECOND),
    _travels("notices ends 20 milliseconds later", _NoticesLate, seconds=20 * MILLISECOND),
    _travels("small buffers", _SmallBuffers),
    _serves_later("clients that wait are served a millisecond later", MILLISECOND),
    _serves_later("clients that wait are served 20 milliseconds later", 20 * MILLISECOND),
    Variant("silent connections are accepted a second later", server=_AcceptsLate),
)
