"""Runs random conversations on the model and on a real server, and compares every byte.

Both see a clock that hardly moves, so that ages and times left are equal too. The model says how
many bytes must come on which connection, and those are read: nothing waits for a timeout.
"""

from __future__ import annotations

import argparse
import re
import socket
import sys
import time
from collections import deque
from random import Random

from conformance.target.address import connect
from conformance.target.launch import Launched
from conformance.target.limits import USUAL
from fuzz.program import STILL, Writer
from reference_server.engine import Engine
from reference_server.model import Model
from reference_server.profiles import PROFILES, Profile
from reference_server.wire import OK, ProtocolError, Reply, ReplyReader, escape
from tests.servers import BEANSTALKD_COMMAND, REFERENCE_COMMAND, creeping

# What no two processes have in common.
VOLATILE = re.compile(
    rb"^(pid|rusage-utime|rusage-stime|uptime|id|hostname|os|platform|version): .*\n|\"",
    re.MULTILINE,
)
"""The values that differ, and quotes: the model has them around names that YAML misreads."""
PATIENCE = 20.0
"""Seconds after which a server that has not answered is taken to be silent."""


SHARE = 25_000
"""Commands for one server: with more of them, its clock would reach the next second."""


class Difference(AssertionError):
    """The server did not answer as the model did."""


class CreepingClock:
    """Moves a microsecond each time it is looked at, as the server's does."""

    _now = 0

    def __call__(self) -> int:
        self._now += 1000
        return self._now


class Line:
    """One connection, to the model and to the server at once; also the model's link."""

    congested = False

    def __init__(
        self, name: str, address: tuple[str, int], engine: Engine, log: deque[str]
    ) -> None:
        self.name = name
        self._log = log
        self._engine = engine
        self._socket = connect(address, PATIENCE)
        self._expected = bytearray()
        self.closed = self.gone = self.leaving = False
        self.unsent = b""
        self.rest = 0
        self.number = engine.connect(self)

    def write(self, data: bytes) -> None:
        self._expected += data

    def close(self) -> None:
        self.closed = True

    @property
    def waiting(self) -> bool:
        return not self.closed and self._engine.model.is_waiting(self.number)

    def send(self, data: bytes) -> int:
        """Send to both; return how many of the bytes the model has not understood yet."""
        self._log.append(f"{self.name} > {escape(data)[:600]}")
        self._socket.sendall(data)
        return self._engine.receive(self.number, data)

    def half_close(self) -> None:
        self._log.append(f"{self.name} half-closes")
        self._socket.shutdown(socket.SHUT_WR)
        self._engine.eof(self.number)

    def hang_up(self) -> None:
        self._log.append(f"{self.name} closes")
        self._socket.close()
        # A server notices that the client sends no more before it notices that it is gone.
        self._engine.eof(self.number)
        self._engine.lost(self.number)
        self.closed = self.gone = True

    def compare(self) -> None:
        """Read what the model says must come by now."""
        expected = bytes(self._expected)
        self._expected.clear()
        try:
            if b"\nrusage-utime: " in expected or b'"' in expected:
                self._compare_volatile(expected)
            else:
                self._compare_bytes(expected)
            if self.closed:
                rest = self._socket.recv(4096)
                if rest:
                    self._differ(b"the end of the connection", rest)
        except ConnectionResetError as error:
            raise Difference(f"{self.name}: {error!r} instead of {escape(expected)}") from error
        finally:
            if self.closed:
                self._socket.close()

    def _compare_bytes(self, expected: bytes) -> None:
        observed = bytearray()
        while len(observed) < len(expected):
            try:
                data = self._socket.recv(len(expected) - len(observed))
            except TimeoutError:
                data = b""
            if not data:
                break
            observed += data
            if not expected.startswith(observed):
                break
        if observed != expected:
            self._differ(expected, bytes(observed))

    def _compare_volatile(self, expected: bytes) -> None:
        tells_priority = self._engine.model.profile.tells_priority
        model, server = ReplyReader(tells_priority), ReplyReader(tells_priority)
        model.receive(expected)
        while (want := model.next_reply()) is not None:
            while (got := server.next_reply()) is None:
                data = self._socket.recv(1)
                if not data:
                    self._differ(want.encode(), server.pending)
                server.receive(data)
            if _constant(want) != _constant(got):
                self._differ(_constant(want).encode(), _constant(got).encode())

    def _differ(self, expected: bytes, observed: bytes) -> None:
        pairs = zip(expected, observed, strict=False)
        same = next((n for n, (a, b) in enumerate(pairs) if a != b), len(observed))
        start = max(expected.rfind(b"\n", 0, max(same - 1, 0)) + 1, same - 200)
        model, server = escape(expected[start:])[:600], escape(observed[start:])[:600]
        before = escape(expected[max(start - 200, 0) : start])
        raise Difference(f"{self.name}, after …{before}\n model:  {model}\n server: {server}")


def _constant(reply: Reply) -> Reply:
    return reply if reply.body is None else OK(VOLATILE.sub(b"", reply.body))


class Differential:
    """Some clients, and one more that only asks for the time of day, as a barrier."""

    def __init__(self, seed: int, address: tuple[str, int], profile: Profile, clients: int) -> None:
        self._random = Random(seed)
        self._address = address
        self._engine = Engine(Model(profile), CreepingClock())
        self._engine.model.total_connections = 1  # the one that awaited the server's start
        self.log: deque[str] = deque(maxlen=40)
        self.commands = self._opened = 0
        self._barrier = self._open()
        self._clients = [self._open() for _ in range(clients)]
        self._writer = Writer(self._random, STILL, lambda id: id)

    def _open(self) -> Line:
        self._opened += 1
        line = Line(f"c{self._opened}", self._address, self._engine, self.log)
        if self._opened > 1:
            # A level-triggered server such as beanstalkd may see a new client some rounds later.
            self._synchronise(4)
        return line

    def _synchronise(self, times: int) -> None:
        """Let the server come to where the model is: it serves clients in turn."""
        for _ in range(times):
            self._barrier.send(b"list-tube-used\r\n")
            self._barrier.compare()

    def run(self, commands: int) -> None:
        """Run at least this many commands; raises :class:`Difference`."""
        while self.commands < commands:
            self._turn()

    def _turn(self) -> None:
        random = self._random
        index = random.randrange(len(self._clients))
        client = self._clients[index]
        fate = random.random()
        if not client.rest and (fate < 0.004 or (client.waiting and fate < 0.1)):
            client.hang_up()
            self._settle(4)
        elif fate < 0.008 or (client.waiting and fate < 0.2):
            client.half_close()
            self._settle(1)
        elif not client.leaving and (not client.waiting or fate > 0.97):
            rest = self._burst(client)
            self._settle(3 + rest // 200 if rest or client.waiting else 0)
        if client.closed:
            self._clients[index] = self._open()

    def _settle(self, barriers: int) -> None:
        self._engine.tick()  # the end of a pause of 0 seconds
        for line in self._clients:
            if not line.gone:
                line.compare()
        self._synchronise(barriers)

    def _command(self, client: Line) -> bytes:
        ask = self._writer.ask(self._engine.model, 0, client.number)
        return ask.text if ask.job is None else ask.text % ask.job

    def _burst(self, client: Line) -> int:
        random = self._random
        count = random.choice((1, 1, 1, 2, 3, 8, 20))
        careful = any(line.rest and line.waiting for line in self._clients if line is not client)
        if careful:
            # A wake-up would let two clients run on at once, in an unspecified order.
            if client.unsent or client.waiting:
                return 0
            count = 1
        data = client.unsent + b"".join(self._command(client) for _ in range(count))
        self.commands += count
        may_wait = client.waiting or b"reserve" in data
        if may_wait and client.rest + len(data) > USUAL.behind:
            # A server need not read on, and so need not see the end of the connection.
            return client.rest
        client.unsent = b""
        if random.random() < 0.002:
            # What comes behind a quit may reset the connection, and then replies get lost.
            client.leaving = True
            data += b"quit\r\n"
            self.commands += 1
        elif not careful and random.random() < 0.05:
            keep = random.randrange(len(data))
            data, client.unsent = data[:keep], data[keep:]
        for piece in _pieces(random, data):
            client.rest = client.send(piece)
        return client.rest


def compare(command: str, profile: Profile, seed: int, commands: int, clients: int = 4) -> int:
    """Compare ``commands`` random commands; return how many were run, raise Difference."""
    with Launched(command, env=creeping()) as server:
        run = Differential(seed, server.address, profile, clients)
        try:
            run.run(commands)
        except (Difference, ProtocolError, OSError) as error:
            log = "\n".join(run.log)
            raise Difference(f"seed {seed}, command {run.commands}:\n{log}\n{error}") from error
        return run.commands


def _pieces(random: Random, data: bytes) -> list[bytes]:
    """Return the same bytes in one segment or in several."""
    if random.random() < 0.6 or len(data) < 2:
        return [data]
    cuts = sorted(random.randrange(1, len(data)) for _ in range(random.randrange(1, 4)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def main() -> int:
    """``python -m tests.differential``: a long run, with its figures."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--commands", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", choices=("beanstalkd", "reference"), default="beanstalkd")
    parser.add_argument("--profile", choices=list(PROFILES), default="1.12")
    args = parser.parse_args()
    command = BEANSTALKD_COMMAND
    if args.server == "reference":
        command = f"{REFERENCE_COMMAND} --profile {args.profile}"
    start, done, seed = time.monotonic(), 0, args.seed
    while done < args.commands:
        share = min(SHARE, args.commands - done)
        done += compare(command, PROFILES[args.profile], seed, share)
        seed += 1
        rate = done / (time.monotonic() - start)
        print(f"{done:,} commands, no difference, {rate:,.0f} a second", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
