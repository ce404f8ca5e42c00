"""The reference server: the model behind a TCP or UNIX socket."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import platform
import resource
import secrets
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from reference_server.engine import Engine
from reference_server.faults import FAULTS, NO_FAULT, Fault
from reference_server.profiles import NEWEST, PROFILES, Profile

READ_SIZE = 16384
"""Bytes read at a time, so that one client cannot keep the others waiting."""
BUFFER_LIMIT = 65536
"""Bytes kept for a client that may not be answered yet; beyond it, its socket is not read."""


def host() -> Callable[[], Mapping[str, object]]:
    """Return the values of stats that belong to this process."""
    name = platform.uname()
    fixed = {
        "pid": os.getpid(),
        "id": secrets.token_hex(8),
        "hostname": name.node,
        "os": name.version,
        "platform": name.machine,
    }

    def values() -> Mapping[str, object]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        times = {"rusage-utime": f"{usage.ru_utime:.6f}", "rusage-stime": f"{usage.ru_stime:.6f}"}
        return {**fixed, **times}

    return values


class Server:
    """Runs a model on an asyncio loop; ``clock`` gives nanoseconds that never go back."""

    def __init__(
        self,
        profile: Profile = NEWEST,
        max_job_size: int | None = None,
        max_jobs_ready: int | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        fault: Fault = NO_FAULT,
        binlog: bool = False,
    ) -> None:
        self.clock = clock
        model = fault.model(
            fault.profile(profile),
            max_job_size=max_job_size,
            max_jobs_ready=max_jobs_ready,
            binlog=binlog,
            now=clock(),
            host=host(),
        )
        self.engine = Engine(model, clock, fault.reader)
        # One for all connections: what was read is consumed before the next read.
        self.buffer = bytearray(READ_SIZE)
        self._listener: asyncio.Server | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_due: int | None = None

    async def start(self, address: str, port: int) -> str:
        """Listens on a TCP port (0: any free one) or ``unix:/path``; gives where it does."""
        loop = asyncio.get_running_loop()
        if address.startswith("unix:"):
            path = address.removeprefix("unix:")
            self._listener = await loop.create_unix_server(self._accept, path, backlog=1024)
            return address
        self._listener = await loop.create_server(self._accept, address, port, backlog=1024)
        bound = self._listener.sockets[0].getsockname()
        return f"{bound[0]}:{bound[1]}"

    def _accept(self) -> asyncio.BaseProtocol:
        return Connection(self)

    def close(self) -> None:
        """Stop listening, and end all connections."""
        if self._listener is not None:
            self._listener.close()
        self.engine.close()

    def tick(self) -> None:
        """Let the model see the time, and set the alarm for the next time it must."""
        self._alarm_due = None
        self.engine.tick()
        self.schedule()

    def schedule(self) -> None:
        """Set the alarm to the model's next timer, if it has moved."""
        due = self.engine.model.next_due
        if due == self._alarm_due:
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._alarm_due = due
        if due is not None:
            delay = max(due - self.clock(), 0) / 1e9
            # A long alarm is set again every hour: loops limit the length of theirs.
            self._alarm = asyncio.get_running_loop().call_later(min(delay, 3600.0), self.tick)


class Connection(asyncio.BufferedProtocol):
    """One client; the engine's link to it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._engine = server.engine
        self.congested = False
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(BUFFER_LIMIT)
        self._number = self._engine.connect(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.takes(bytes(memoryview(self._server.buffer)[:nbytes]))

    def takes(self, data: bytes) -> None:
        """Handle what the client has sent."""
        waiting = self._engine.receive(self._number, data)
        self._limit_reading(waiting)
        self._server.schedule()

    def _limit_reading(self, waiting: int) -> None:
        blocked = self.congested or (
            self._number in self._engine.model.connections
            and self._engine.model.is_waiting(self._number)
        )
        too_much = blocked and waiting > BUFFER_LIMIT
        if too_much != self._paused:
            self._paused = too_much
            if too_much:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def eof_received(self) -> bool:
        self._engine.eof(self._number)
        self._server.schedule()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._engine.lost(self._number)
        self._server.schedule()

    def pause_writing(self) -> None:
        self.congested = True

    def resume_writing(self) -> None:
        self.congested = False
        self._engine.resume(self._number)
        self._reconsider()
        self._server.schedule()

    def write(self, data: bytes) -> None:
        self._transport.write(data)
        if self._paused:
            # It may be answered again, but only when this has been seen to the end.
            asyncio.get_running_loop().call_soon(self._reconsider)

    def _reconsider(self) -> None:
        if self._paused and not self._transport.is_closing():
            self._limit_reading(self._engine.receive(self._number, b""))

    def close(self) -> None:
        self._transport.close()


def _allow_many_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(args: argparse.Namespace) -> None:
    fault = FAULTS[args.fault] if args.fault else NO_FAULT
    server = Server(PROFILES[args.profile], args.max_job_size, args.max_jobs_ready, fault=fault)
    where = await server.start(args.host, args.port)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, server.engine.drain)
    print(f"beanstalk reference server, profile {args.profile}, listening on {where}", flush=True)
    await stop.wait()
    server.close()
    if where.startswith("unix:"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(where.removeprefix("unix:"))


class _Parser(argparse.ArgumentParser):
    """A parser that ends with one sentence, and 4, where it cannot go on."""

    def error(self, message: str) -> NoReturn:
        self.exit(4, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server until SIGTERM or SIGINT; SIGUSR1 puts it into drain mode."""
    parser = _Parser(
        prog="python -m reference_server", description="The reference server of beanstalk."
    )
    parser.add_argument("--host", "-l", default="127.0.0.1", help="address, or unix:/path")
    parser.add_argument("--port", "-p", type=int, default=11300, help="TCP port; 0: any free one")
    parser.add_argument("--profile", choices=list(PROFILES), default=NEWEST.name)
    parser.add_argument(
        "-z", dest="max_job_size", type=int, metavar="BYTES", help="the largest job body accepted"
    )
    parser.add_argument(
        "--max-jobs-ready", type=int, metavar="COUNT", help="how many jobs the ready queue holds"
    )
    parser.add_argument("--fault", metavar="NAME", help="a bug to have")
    args = parser.parse_args(argv)
    if args.fault and args.fault not in FAULTS:
        parser.error(f"there is no fault called {args.fault!r}")
    if not 0 <= args.port < 65536:
        parser.error("a port is a number from 0 to 65535")
    if args.max_job_size is not None and args.max_job_size < 0:
        parser.error("-z takes a size in bytes, 0 or more")
    if args.max_jobs_ready is not None and args.max_jobs_ready < 1:
        parser.error("--max-jobs-ready takes a count, 1 or more")
    if args.max_jobs_ready is not None and PROFILES[args.profile].max_jobs_ready is None:
        parser.error(f"profile {args.profile} has no limit of ready jobs")
    _allow_many_connections()
    try:
        asyncio.run(_serve(args))
    except (OSError, socket.gaierror) as error:
        parser.error(f"cannot listen on {args.host} port {args.port}: {error.strerror}")
    return 0
