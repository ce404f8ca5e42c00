"""The codec and the model joined: bytes of many connections in, bytes out, still without I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from reference_server.events import Close, Connected, Drain, Event, HalfClose, Hangup, Output, Tick
from reference_server.model import Model
from reference_server.reserve import RESERVE
from reference_server.wire import OUT_OF_MEMORY, Command, Reply, RequestReader


class Link(Protocol):
    """The part of a connection's transport that the engine needs.

    ``congested`` is true while the client does not read; its next commands wait until then, so
    that a slow reader costs no memory.
    """

    congested: bool

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


@dataclass
class RecordingLink:
    """A link that keeps what a client is sent, where nobody reads it from a socket."""

    sent: bytes = b""
    congested: bool = False
    is_closed: bool = False

    def write(self, data: bytes) -> None:
        """Keep a reply."""
        self.sent += data

    def close(self) -> None:
        """Keep that the server has ended the connection."""
        self.is_closed = True


class Journal(Protocol):
    """A journal of all changes, each of them written before anybody is told of it."""

    @property
    def is_behind(self) -> bool: ...

    @property
    def is_full(self) -> bool: ...

    def catch_up(self) -> bool: ...


class _NoJournal:
    """Nothing is written."""

    is_behind = is_full = False

    def catch_up(self) -> bool:
        return True


class _Session:
    def __init__(self, link: Link, reader: RequestReader) -> None:
        self.link = link
        self.reader = reader
        self.eof = False
        self.is_over = False
        self.out = bytearray()

    def say(self, reply: Reply, texts: dict[str, str]) -> None:
        try:
            self.out += reply.spoken(texts)
        except MemoryError:
            RESERVE.spend()
            self.out += reply.spoken(texts)

    def flush(self) -> None:
        if self.out:
            try:
                data = bytes(self.out)
            except MemoryError:
                RESERVE.spend()
                data = bytes(self.out)
            self.out.clear()
            self.link.write(data)
        if self.is_over:
            self.link.close()


class Engine:
    """Serves the connections of one :class:`Model`.

    ``clock`` gives the time in nanoseconds; it is looked at for each event. While ``journal`` is
    behind, replies are held until :meth:`catch_up`.
    """

    FLUSH = 65536
    """Bytes of replies gathered before they are written."""

    def __init__(
        self,
        model: Model,
        clock: Callable[[], int],
        reader: type[RequestReader] = RequestReader,
        journal: Journal | None = None,
    ) -> None:
        self.model = model
        self._reader = reader
        self._clock = clock
        self._journal = journal or _NoJournal()
        self._held: dict[_Session, None] = {}
        self._is_stuck = False
        self._sessions: dict[int, _Session] = {}
        self._last = 0
        self._texts = dict(model.profile.dialect.texts)

    def connect(self, link: Link) -> int:
        """Take a new connection and return its number."""
        self._last += 1
        profile = self.model.profile
        if profile.max_job_size != self.model.max_job_size:
            profile = replace(profile, max_job_size=self.model.max_job_size)
        self._sessions[self._last] = _Session(link, self._reader(profile))
        self._run(self._last, Connected())
        return self._last

    def receive(self, conn: int, data: bytes) -> int:
        """Take bytes from a client; return how many wait because it may not be answered yet."""
        session = self._sessions.get(conn)
        if session is None:
            return 0
        try:
            session.reader.receive(data)
        except MemoryError:
            RESERVE.spend()
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

    def catch_up(self) -> bool:
        """Send what was held, if the journal can be written; return whether it could.

        No request is handled from when it cannot be until it can.
        """
        was_stuck = self._is_stuck
        self._is_stuck = self._journal.is_behind and not self._journal.catch_up()
        if self._is_stuck:
            return False
        held, self._held = self._held, {}
        for session in held:
            session.flush()
        if was_stuck:
            self._serve([*self._sessions])
            # Their changes have to be written, too, and nothing may ever wake the server again.
            return self.catch_up()
        return True

    def _flush(self, session: _Session) -> None:
        """Send the replies of a client, or hold them."""
        if self._journal.is_behind:
            self._held[session] = None
        else:
            session.flush()

    def _run(self, conn: int, event: Event) -> None:
        answered = self._step(conn, event)
        self._serve([conn, *answered])

    def _step(self, conn: int, event: Event) -> list[int]:
        """Step the model; return the other connections that got a reply."""
        others = []
        for receiver, reply in self._outputs(conn, event):
            session = self._sessions.get(receiver)
            if session is None:
                continue
            if isinstance(reply, Hangup):
                self._hang_up(receiver)
                continue
            try:
                session.say(reply, self._texts)
            except MemoryError:
                # The job that it was to get goes to somebody else.
                self._hang_up(receiver)
                continue
            if receiver != conn:
                others.append(receiver)
        return others

    def _outputs(self, conn: int, event: Event) -> list[Output]:
        """Step the model; return what it says, even if there is no memory for that."""
        try:
            return self.model.step(event, self._clock(), conn)
        except MemoryError:
            RESERVE.spend()
            if isinstance(event, Command):
                return [(conn, OUT_OF_MEMORY)]
            raise

    def _serve(self, conns: list[int]) -> None:
        """Handle all requests that may be handled now, on these connections and any they wake.

        The list grows by those.
        """
        for conn in conns:
            session = self._sessions.get(conn)
            if session is None:
                continue
            while not (self._is_stuck or session.link.congested or self.model.is_waiting(conn)):
                request = session.reader.next_request()
                if request is None:
                    if session.eof:
                        self._hang_up(conn)
                    break
                # Those that it wakes are served in this loop, too.
                conns += self._step(conn, request)
                if conn not in self._sessions:
                    break
                if len(session.out) > self.FLUSH or self._journal.is_full:
                    self.catch_up()
                    self._flush(session)
            self._flush(session)

    def _hang_up(self, conn: int) -> None:
        session = self._sessions.pop(conn)
        session.is_over = True
        self._flush(session)
        self._run(conn, Close())
