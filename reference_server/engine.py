"""The codec and the model joined: bytes of many connections in, bytes out, still without I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from reference_server.events import Close, Connected, Drain, Event, HalfClose, Hangup, Tick
from reference_server.model import Model
from reference_server.wire import RequestReader


class Link(Protocol):
    """The part of a connection's transport that the engine needs.

    ``congested`` is true while the client does not read; its next commands wait until then, so
    that a slow reader costs no memory.
    """

    congested: bool

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class _Session:
    def __init__(self, link: Link, reader: RequestReader) -> None:
        self.link = link
        self.reader = reader
        self.eof = False
        self.out = bytearray()

    def flush(self) -> None:
        if self.out:
            data = bytes(self.out)
            self.out.clear()
            self.link.write(data)


class Engine:
    """Serves the connections of one :class:`Model`.

    ``clock`` gives the time in nanoseconds; it is looked at for each event.
    """

    FLUSH = 65536
    """Bytes of replies gathered before they are written."""

    def __init__(
        self,
        model: Model,
        clock: Callable[[], int],
        reader: type[RequestReader] = RequestReader,
    ) -> None:
        self.model = model
        self._reader = reader
        self._clock = clock
        self._sessions: dict[int, _Session] = {}
        self._last = 0
        self._texts = dict(model.profile.dialect.texts)

    def connect(self, link: Link) -> int:
        """Take a new connection and return its number."""
        self._last += 1
        profile = replace(self.model.profile, max_job_size=self.model.max_job_size)
        self._sessions[self._last] = _Session(link, self._reader(profile))
        self._run(self._last, Connected())
        return self._last

    def receive(self, conn: int, data: bytes) -> int:
        """Take bytes from a client; return how many wait because it may not be answered yet."""
        session = self._sessions.get(conn)
        if session is None:
            return 0
        session.reader.receive(data)
        self._serve([conn])
        return session.reader.buffered

    def eof(self, conn: int) -> None:
        """Note that the client sends nothing more; what it sent before is still answered."""
        if conn in self._sessions:
            self._sessions[conn].eof = True
            self._run(conn, HalfClose())

    def lost(self, conn: int) -> None:
        """Forget a connection that is gone."""
        if self._sessions.pop(conn, None) is not None:
            self._run(conn, Close())

    def resume(self, conn: int) -> None:
        """Go on with a client that reads again."""
        self._serve([conn])

    def close(self) -> None:
        """End all connections."""
        while self._sessions:
            # The end of one may be what another has waited for.
            self._hang_up(next(iter(self._sessions)))

    def tick(self) -> None:
        """Let time pass."""
        self._run(0, Tick())

    def drain(self) -> None:
        """Accept no more jobs."""
        self._run(0, Drain())

    def _run(self, conn: int, event: Event) -> None:
        answered = self._step(conn, event)
        self._serve([conn, *answered])

    def _step(self, conn: int, event: Event) -> list[int]:
        """Step the model; return the other connections that got a reply."""
        others = []
        for receiver, reply in self.model.step(event, self._clock(), conn):
            session = self._sessions.get(receiver)
            if session is None:
                continue
            if isinstance(reply, Hangup):
                self._hang_up(receiver)
                continue
            session.out += reply.spoken(self._texts)
            if receiver != conn:
                others.append(receiver)
        return others

    def _serve(self, conns: list[int]) -> None:
        """Handle all requests that may be handled now, on these connections and any they wake."""
        queue = deque(conns)
        while queue:
            conn = queue.popleft()
            session = self._sessions.get(conn)
            if session is None:
                continue
            while not (session.link.congested or self.model.is_waiting(conn)):
                request = session.reader.next_request()
                if request is None:
                    if session.eof:
                        self._hang_up(conn)
                    break
                queue.extend(self._step(conn, request))
                if conn not in self._sessions:
                    break
                if len(session.out) > self.FLUSH:
                    session.flush()
            session.flush()

    def _hang_up(self, conn: int) -> None:
        session = self._sessions.pop(conn)
        session.flush()
        session.link.close()
        self._run(conn, Close())
