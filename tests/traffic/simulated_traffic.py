"""Simulated traffic: a reference server, clients at work on it, and a network that delays all.

Nothing here sleeps, and the clock is a number: so thousands of interleavings take a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from conformance.traffic.events import Event, Kind
from reference_server.engine import Engine
from reference_server.faults import NO_FAULT, Fault
from reference_server.profiles import NEWEST, Profile
from reference_server.state import SECOND
from reference_server.wire import ReplyReader

TUBES = ("default", "mail", "video")


@dataclass
class _Client:
    """A simulated client: it knows some jobs, and may pipeline."""

    conn: int
    pipelines: bool
    to_server: deque[bytes] = field(default_factory=deque)
    to_client: deque[bytes] = field(default_factory=deque)
    asked: int = 0
    heard: int = 0
    reader: ReplyReader = field(default_factory=ReplyReader)
    held: list[int] = field(default_factory=list)
    congested: bool = False
    number: int = 0
    is_closed: bool = False

    def write(self, data: bytes) -> None:
        self.to_client.append(data)

    def close(self) -> None:
        self.is_closed = True


class Simulation:
    """Lets clients work on a server with a fault; ``take`` gets each event that a proxy would see.

    ``prior``: clients whose traffic nobody sees put so many jobs first.
    """

    def __init__(
        self,
        seed: int,
        take: Callable[[Event], object],
        clients: int = 6,
        fault: Fault = NO_FAULT,
        profile: Profile = NEWEST,
        prior: int = 0,
        long_waits: bool = True,
    ) -> None:
        self.now = 1_700_000_000 * SECOND
        self.commands = 0
        self._chance = Random(seed)
        self._take = take
        self._long_waits = long_waits
        profile = fault.profile(profile)
        model = fault.model(profile, now=self.now)
        self._engine = Engine(model, lambda: self.now, fault.reader)
        self._jobs: deque[int] = deque(maxlen=60)
        self._last = 0
        self._clients: list[_Client] = []
        hidden = self._engine.connect(_Client(0, True))
        for job in range(prior):
            self._engine.receive(hidden, b"put %d 0 1 1\r\nx\r\n" % (job % 3))
        self._jobs.extend(range(1, prior + 1))
        self._engine.lost(hidden)
        for _ in range(clients):
            self._arrives()

    def _event(self, client: _Client, kind: Kind, data: bytes = b"") -> None:
        self._take(Event(self.now, client.conn, kind, data))

    def _arrives(self) -> None:
        self._last += 1
        client = _Client(self._last, self._chance.random() < 0.5)
        client.number = self._engine.connect(client)
        self._clients.append(client)
        self._event(client, Kind.OPENED, b"client-%d" % client.conn)

    def _leaves(self, client: _Client) -> None:
        """Let a client go: in order, or at once."""
        self._clients.remove(client)
        if self._chance.random() < 0.5:
            self._event(client, Kind.CLIENT_ENDED)
            while client.to_server:
                self._engine.receive(client.number, client.to_server.popleft())
            self._engine.eof(client.number)
            self._engine.lost(client.number)
            self._delivers(client, all=True)
            self._event(client, Kind.SERVER_ENDED)
            self._event(client, Kind.CLOSED)
        else:
            self._event(client, Kind.RESET, b"client")
            # The server comes to some of what was sent, and to the end later.
            while client.to_server and self._chance.random() < 0.5:
                self._engine.receive(client.number, client.to_server.popleft())
            self._engine.lost(client.number)

    def run(self, commands: int) -> None:
        """Go on until so many commands were sent; then let all be answered that is due."""
        while self.commands < commands:
            self._turn()
        for client in self._clients:
            while client.to_server:
                self._engine.receive(client.number, client.to_server.popleft())
        for client in self._clients:
            self._delivers(client, all=True)

    def _turn(self) -> None:
        chance = self._chance
        self.now += chance.choice((1000, 20_000, 200_000, 5_000_000))
        if self._long_waits and chance.random() < 0.004:
            self.now += chance.randrange(3 * SECOND)
        if self._long_waits and chance.random() < 0.1:
            self._engine.tick()
        client = chance.choice(self._clients)
        what = chance.random()
        if what < 0.001:
            self._leaves(client)
            self._arrives()
        elif what < 0.35:
            if client.asked == client.heard or (
                client.pipelines and client.asked < 20 + client.heard
            ):
                self._speaks(client)
        elif what < 0.7:
            if client.to_server:
                self._engine.receive(client.number, client.to_server.popleft())
        else:
            self._delivers(client)

    def _delivers(self, client: _Client, all: bool = False) -> None:
        while client.to_client:
            data = client.to_client.popleft()
            self._event(client, Kind.RECEIVED, data)
            client.reader.receive(data)
            while (reply := client.reader.next_reply()) is not None:
                client.heard += 1
                if reply.word == "RESERVED":
                    client.held.append(int(reply.args[0]))
                    self._jobs.append(int(reply.args[0]))
                elif reply.word == "INSERTED":
                    self._jobs.append(int(reply.args[0]))
            if not all:
                break

    def _speaks(self, client: _Client) -> None:
        count = self._chance.randint(1, 8) if client.pipelines else 1
        data = b"".join(self._command(client) for _ in range(count))
        client.asked += count
        self.commands += count
        self._event(client, Kind.SENT, data)
        client.to_server.append(data)

    def _command(self, client: _Client) -> bytes:
        chance = self._chance
        tube = chance.choice(TUBES).encode()
        known = [*self._jobs] or [1]
        job = chance.choice(known)
        own = client.held.pop(chance.randrange(len(client.held))) if client.held else job
        body = bytes(chance.randrange(256) for _ in range(chance.choice((0, 1, 5, 40))))
        pri, delay = chance.choice((0, 1, 5, 1024)), chance.choice((0, 0, 0, 1, 2))
        ttr = chance.choice((1, 2, 60, 60))
        options: list[tuple[int, bytes]] = [
            (20, b"put %d %d %d %d\r\n%b" % (pri, delay, ttr, len(body), body)),
            (3, b"use %b" % tube),
            (3, b"watch %b" % tube),
            (2, b"ignore %b" % tube),
            (12, b"reserve-with-timeout %d" % chance.choice((0, 0, 0, 1, 2))),
            (1, b"reserve"),
            (3, b"reserve-job %d" % job),
            (12, b"delete %d" % own),
            (3, b"delete %d" % job),
            (5, b"release %d %d %d" % (own, pri, delay)),
            (4, b"bury %d %d" % (own, pri)),
            (3, b"touch %d" % own),
            (3, b"kick %d" % chance.choice((1, 2, 10))),
            (2, b"kick-job %d" % job),
            (3, b"peek %d" % job),
            (2, b"peek-ready"),
            (2, b"peek-delayed"),
            (2, b"peek-buried"),
            (3, b"stats-job %d" % job),
            (1, b"stats-tube %b" % tube),
            (1, b"stats"),
            (1, b"list-tubes"),
            (1, b"list-tube-used"),
            (1, b"list-tubes-watched"),
            (1, b"pause-tube %b %d" % (tube, chance.choice((0, 1)))),
        ]
        known_to = self._engine.model.profile.commands
        options = [one for one in options if one[1].split(b" ")[0].decode() in known_to]
        weights = [weight for weight, _ in options]
        (line,) = chance.choices([line for _, line in options], weights)
        return line + b"\r\n"
