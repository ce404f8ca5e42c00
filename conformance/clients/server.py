"""The server that a library talks with: the reference server, with replies altered by data."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from conformance.clients.checks import CallRecord
from conformance.clients.driver import Channel
from conformance.clients.protocol import Answer
from conformance.target.starvation import Starvation
from reference_server.engine import Engine, RecordingLink
from reference_server.model import Model
from reference_server.profiles import NEWEST
from reference_server.state import SECOND
from reference_server.wire import Put, RequestReader, escape

End = Literal["close", "reset", "silence"]
_RESET = struct.pack("ii", 1, 0)
_PIECE = 1 << 16
_SHOWN = 300
"""Bytes of what is sent or received at a time that the transcript quotes."""
_PROMPT = 0.2
"""Seconds in which most answers come: until then, CPU starvation is not checked."""
_LONGEST = 20
"""The number of timeouts that a library has for all that it reads."""


@dataclass(frozen=True, slots=True)
class Change:
    """A row of data that alters the replies to an operation.

    ``says`` takes the place of the reply to the command that was asked. ``at`` is another command,
    whose reply is altered ``times`` often, whenever the library sends it. Segments have ``chunk``
    bytes and are ``delay`` seconds apart; with ``pause``, there are two, and the delay is between
    them. ``every``: all replies are sent so. After ``cut`` bytes, the connection ends as ``end``
    says. ``repeat``: so often the reply is sent. ``early`` comes before any request is read, in the
    moment of connecting; ``leaves``: the connection ends there.
    """

    says: bytes | None = None
    at: str = ""
    times: int = 0
    every: bool = False
    chunk: int = 0
    delay: float = 0.0
    pause: int | None = None
    cut: int | None = None
    end: End = "close"
    repeat: int = 1
    early: bytes = b""
    leaves: bool = False

    @property
    def alters_one(self) -> bool:
        """Return whether the change is about the reply to one command."""
        is_altered = self.says is not None or self.cut is not None
        return is_altered and not self.every and not self.at


PLAIN = Change()


@dataclass(eq=False)
class ServerPeer:
    """A connection of the library. ``due`` has pieces to send, None for the end, and times."""

    socket: socket.socket
    server: ScriptedServer
    number: int = 0
    reader: RequestReader = field(default_factory=lambda: RequestReader(NEWEST))
    stream: bytearray = field(default_factory=bytearray)
    due: deque[tuple[float, bytes | memoryview | None, str]] = field(default_factory=deque)
    congested: bool = False
    change: Change = PLAIN
    history: list[bytes] = field(default_factory=list)

    def write(self, data: bytes) -> None:
        """Take a reply of the engine."""
        self.server.reply(self, data)

    def close(self) -> None:
        """End the connection after all that is due."""
        self.due.append((0.0, None, "close"))


class ScriptedServer:
    """A listening server, fresh for each case; it runs while an answer of the driver is due."""

    def __init__(
        self,
        change: Change = PLAIN,
        jobs: tuple[bytes, ...] = (),
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.model = Model(NEWEST, now=clock())
        self.engine = Engine(self.model, clock)
        self.change = change
        self.is_armed = False
        """True while the reply to the command that was asked is to be altered."""
        self.altered = 0
        """The number of altered replies."""
        self._asked = ""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._peers: list[ServerPeer] = []
        self.commands: list[bytes] = []
        """The requests since the last mark, as bytes with their line ends."""
        self.received = bytearray()
        """All bytes since the last mark."""
        self.replies: list[bytes] = []
        """The replies of the engine since the last mark."""
        self.histories: list[list[bytes]] = []
        """All requests of each connection."""
        self.lost_count = self.cut_count = 0
        """The numbers of connections that have ended, and of those that this server has ended."""
        self.sent_count = 0
        """Bytes that all connections have taken."""
        self._elided: tuple[str, str, int] = ("", "", 0)
        """The last line that quotes a part, that part, and the size of all."""
        self.transcript: list[str] = []
        self.other_client = self.engine.connect(RecordingLink())
        """The number of a client in the server itself, which puts jobs."""
        for body in jobs:
            put = b"put 5 0 60 %d\r\n%b\r\n" % (len(body), body)
            self.engine.receive(self.other_client, put)

    def refuse(self) -> None:
        """Accept no more connections."""
        self._listener.close()

    def mark(self) -> None:
        """Begin to collect what the library sends."""
        self.commands.clear()
        self.received.clear()
        self.replies.clear()

    def recorded(
        self, question: str, answer: Answer | None, waited: float, ended: str
    ) -> CallRecord:
        """Return what the library has sent since :meth:`mark`, and its answer to a question.

        ``waited`` and ``ended``: see :class:`CallRecord`.
        """
        return CallRecord(
            question=question,
            answer=answer,
            commands=[*self.commands],
            received=bytes(self.received),
            replies=[*self.replies],
            waited=waited,
            ended=ended,
        )

    def await_answer(self, driver: Channel, question: str, seconds: float) -> Answer | None:
        """Ask a driver, and serve until it answers; return None if it does not in this time.

        While others keep the driver or us from a CPU, the wait goes on. Raises
        :class:`DriverError` and :class:`DriverEnded`.
        """
        self._asked = question.split()[0]
        self.transcript.append(f"  asked: {question[:300]}")
        driver.ask(question)
        begun, starvation = time.monotonic(), None
        prompt, limit = begun + _PROMPT, begun + seconds
        while (now := time.monotonic()) < limit:
            if starvation is None and now >= prompt:
                starvation = Starvation(driver.cpu_time)
            ready = self._turn(driver, (limit if starvation else min(prompt, limit)) - now)
            if starvation and time.monotonic() >= limit:
                starved = starvation.since().seconds
                limit = begun + seconds + min(starved, seconds)
            if driver.fileno() in ready and (answer := driver.answer()):
                # What it has sent before belongs to this question: also on a new connection.
                while self._turn(None, 0):
                    pass
                self.transcript.append(f"  answered: {answer}")
                return answer
        self.transcript.append(f"> no answer within {seconds:g} s")
        return None

    def deliver(self, seconds: float, is_enough: Callable[[], bool] = lambda: False) -> bool:
        """Serve until nothing is due any more, the library reads nothing for so long, or enough.

        Return False if the library still reads after twenty times as long.
        """
        now = time.monotonic()
        limit, end = now + seconds, now + _LONGEST * seconds
        while any(peer.due for peer in self._peers) and now < limit and not is_enough():
            if now > end:
                return False
            before = self.sent_count
            self._turn(None, limit - now)
            now = time.monotonic()
            limit = now + seconds if self.sent_count > before else limit
        return True

    def _turn(self, driver: Channel | None, wait: float) -> set[int]:
        """Serve what is ready; return the descriptors that are."""
        reads = {peer.socket.fileno(): peer for peer in self._peers if peer.socket.fileno() >= 0}
        watched = [*reads, *([driver.fileno()] if driver else [])]
        if self._listener.fileno() >= 0:
            watched.append(self._listener.fileno())
        if (due := self._next_due()) is not None:
            wait = min(wait, max(due - time.monotonic(), 0.0))
        blocked = [p.socket.fileno() for p in self._peers if p.congested and p.socket.fileno() >= 0]
        blocked += driver.unread if driver else []
        ready, writable, _ = select.select(watched, blocked, [], wait)
        if driver and driver.unread:
            driver.push()
        if self._listener.fileno() in ready:
            self._accept()
        for number, peer in reads.items():
            if number in writable:
                peer.congested = False
            if number in ready:
                self._read(peer)
        if (due := self._model_due()) is not None and due <= time.monotonic():
            self.engine.tick()
        for peer in [*self._peers]:
            self._send(peer)
        return set(ready)

    def _next_due(self) -> float | None:
        times = [peer.due[0][0] for peer in self._peers if peer.due and not peer.congested]
        if (model_due := self._model_due()) is not None:
            times.append(model_due + 0.001)
        return min(times, default=None)

    def _model_due(self) -> float | None:
        """Return when the model has something to do, in seconds of the machine's clock."""
        due = self.model.next_due
        return None if due is None else due / SECOND

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            accepted, _ = self._listener.accept()
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # In a large buffer, it would not show for long whether the library reads.
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * _PIECE)
            peer = ServerPeer(accepted, self)
            self._peers.append(peer)
            self.histories.append(peer.history)
            peer.number = self.engine.connect(peer)
            if self.change.early:
                peer.due.append((0.0, self.change.early, ""))
            if self.change.leaves:
                peer.due.append((0.0, None, self.change.end))

    def _read(self, peer: ServerPeer) -> None:
        try:
            data = peer.socket.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose(peer)
            return
        self.received += data
        self._note("client", data)
        peer.stream += data
        peer.reader.receive(data)
        while (request := peer.reader.next_request()) is not None:
            if type(request) is not Put:
                end = len(peer.stream) - peer.reader.buffered
                raw = bytes(peer.stream[:end])
                del peer.stream[:end]
                self._handle(peer, raw)

    def _handle(self, peer: ServerPeer, raw: bytes) -> None:
        self.commands.append(raw)
        peer.history.append(raw)
        words = raw.split(maxsplit=1)
        verb = words[0].decode("latin-1") if words else ""
        is_altered = self._alters(verb)
        self.altered += is_altered
        peer.change = self.change if is_altered or self.change.every else PLAIN
        if is_altered and self.change.says is not None:
            self._schedule(peer, self.change.says)
        else:
            self.engine.receive(peer.number, raw)

    def _alters(self, verb: str) -> bool:
        """Return whether the reply to a command is altered."""
        if not self.is_armed or 0 < self.change.times <= self.altered:
            return False
        both = ("reserve", "reserve-with-timeout")
        wanted = self.change.at or self._asked
        return verb == wanted or (verb in both and wanted in both)

    def reply(self, peer: ServerPeer, data: bytes) -> None:
        """Send a reply of the engine, altered if it is one that the change is about."""
        self.replies.append(data)
        self._schedule(peer, data)

    def _schedule(self, peer: ServerPeer, data: bytes) -> None:
        change, at = peer.change, time.monotonic()
        data *= change.repeat
        if change.cut is not None:
            data = data[: change.cut]
        size = change.chunk or max(len(data), 1)
        parts = [data[start : start + size] for start in range(0, len(data), size)]
        if change.pause is not None:
            parts = [data[: change.pause], data[change.pause :]]
        for number, part in enumerate(parts):
            at += change.delay if number or change.pause is None else 0.0
            peer.due.append((at, part, ""))
        if change.cut is not None and change.end != "silence":
            peer.due.append((at, None, change.end))

    def _send(self, peer: ServerPeer) -> None:
        while peer.due and not peer.congested and peer.due[0][0] <= time.monotonic():
            at, piece, end = peer.due.popleft()
            if piece is None:
                self.transcript.append(f"  server: {end}s the connection")
                if end == "reset":
                    linger = (socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    peer.socket.setsockopt(*linger)
                self.cut_count += 1
                self._lose(peer)
                return
            try:
                sent = peer.socket.send(piece)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._lose(peer)
                return
            self.sent_count += sent
            self._note("server", bytes(piece[:sent]))
            if sent < len(piece):
                # It may be large: no byte of the rest is copied.
                peer.due.appendleft((at, memoryview(piece)[sent:], end))
                peer.congested = True

    def _note(self, who: str, data: bytes) -> None:
        if not data or len(self.transcript) >= 2000:
            return
        size = len(data)
        beginning = f"  {who}: {escape(data[:_SHOWN])}"
        if size > _SHOWN:
            line, quoted, count = self._elided
            if self.transcript[-1:] == [line] and quoted == beginning:
                # A line without an end is sent in many pieces.
                self.transcript.pop()
                size += count
            line = f"{beginning}… ({size:,} bytes)"
            self._elided = (line, beginning, size)
            beginning = line
        self.transcript.append(beginning)

    def _lose(self, peer: ServerPeer) -> None:
        if peer in self._peers:
            self._peers.remove(peer)
            self.lost_count += 1
            peer.socket.close()
            self.engine.lost(peer.number)

    def disconnect(self) -> None:
        """End all connections."""
        for peer in [*self._peers]:
            self._lose(peer)

    def close(self) -> None:
        """End all connections, and accept no more."""
        self._listener.close()
        self.disconnect()
