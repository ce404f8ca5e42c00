"""The reference server: the model behind a TCP or UNIX socket."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import platform
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from reference_server.binlog import Binlog, BinlogError
from reference_server.connection import ServedConnection
from reference_server.dialect import DialectError
from reference_server.engine import Engine
from reference_server.fault import NO_FAULT, Fault
from reference_server.finding import find_profile
from reference_server.keeping import Keeper, observed
from reference_server.listening import Listeners
from reference_server.loop import Loop
from reference_server.profiles import NEWEST, PROFILES, Profile
from reference_server.reserve import RESERVE
from reference_server.system import allow_many_connections, cpu_times

LARGEST_JOB = 2**30
"""The largest limit of a job's body that can be set."""
_LONGEST_WAIT = 3600.0


def host() -> Callable[[], Mapping[str, object]]:
    """Return the values of stats that belong to this process."""
    name = platform.uname()
    fixed = {
        "pid": os.getpid(),
        "id": os.urandom(8).hex(),
        "hostname": name.node,
        "os": name.version,
        "platform": name.machine,
    }

    def values() -> Mapping[str, object]:
        user, system = cpu_times()
        return {**fixed, "rusage-utime": f"{user:.6f}", "rusage-stime": f"{system:.6f}"}

    return values


class Server:
    """Runs a model on a loop; ``clock`` gives nanoseconds that never go back."""

    connection = ServedConnection
    """Takes the loop, the engine and the socket of a new client."""

    def __init__(
        self,
        profile: Profile = NEWEST,
        max_job_size: int | None = None,
        max_jobs_ready: int | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        fault: Fault = NO_FAULT,
        binlog: Binlog | None = None,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self.clock = clock
        self._keeper: Keeper | None = None
        of_process = host()
        options: dict[str, Any] = {
            "max_job_size": max_job_size,
            "max_jobs_ready": max_jobs_ready,
            "binlog": binlog is not None,
            "now": clock(),
            "host": lambda: {
                **of_process(),
                # Nothing but a fault asks for it: no duration depends on it.
                "wall-clock": wall(),
                **(self._keeper.numbers() if self._keeper else {}),
            },
        }
        profile = fault.profile(profile)
        if binlog is None:
            model = fault.model(profile, **options)
        else:
            model = kept = observed(fault.model)(profile, **options)
            self._keeper = fault.keeper(kept, binlog, clock, wall)
        self.engine = Engine(model, clock, fault.reader, self._keeper)
        self._fault = fault
        self._listeners: Listeners | None = None
        self._ticked: int | None = None

    def start(
        self, loop: Loop, address: str, port: int, listening: Sequence[socket.socket] = ()
    ) -> str:
        """Listen on a TCP port (0: any free one) or ``unix:/path``; return where it does.

        ``listening``: the sockets of a server that has ended by :meth:`hand_over`.
        """

        def accepted(sock: socket.socket) -> None:
            (self._fault.connection or self.connection)(loop, self.engine, sock)

        self._listeners = self._fault.listeners(loop, address, port, accepted, listening)
        loop.before_wait = self.before_wait
        return self._listeners.where

    def hand_over(self) -> list[socket.socket]:
        """End all connections, and return the sockets that listen, for the server that follows."""
        listening = [] if self._listeners is None else self._listeners.let_go()
        self.close()
        return listening

    def close(self) -> None:
        """Stop listening, and end all connections."""
        if self._listeners is not None:
            self._listeners.close()
        self.engine.close()
        self.engine.catch_up()
        if self._keeper is not None:
            self._keeper.close()

    def abandon(self) -> None:
        """End as if killed: what has not been written, is lost."""
        if self._keeper is not None:
            self._keeper.abandon()
        self.close()

    def before_wait(self) -> float | None:
        """Let all timers fire that are due, and send what waits until it is written.

        Return the seconds until there is more to do.
        """
        RESERVE.refill()
        wait = self._tick()
        self.engine.catch_up()
        due = None if self._keeper is None else self._keeper.next_due()
        return min((seconds for seconds in (wait, due) if seconds is not None), default=None)

    def _tick(self) -> float | None:
        due = self.engine.model.next_due
        # One that is still due after that does not fire, whatever the reason.
        if due is None or due == self._ticked:
            return None
        left = due - self.clock()
        if left > 0:
            return min(left / 1e9, _LONGEST_WAIT)
        self._ticked = due
        self.engine.tick()
        return 0.0


def _obey_signals(loop: Loop, engine: Engine) -> None:
    """End with SIGTERM and SIGINT, drain with SIGUSR1: between two events, in their order."""
    signal.set_wakeup_fd(loop.wakeup_fd(), warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.stop())
    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, lambda *_: loop.call_soon(engine.drain))


class _Parser(argparse.ArgumentParser):
    """A parser that ends with one sentence, and 4, where it cannot go on."""

    def error(self, message: str) -> NoReturn:
        self.exit(4, f"{self.prog}: {message}\n")


def _profile(name: str) -> Profile:
    try:
        return find_profile(name)
    except DialectError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _fault(name: str) -> Fault:
    # There are hundreds, and a server without faults starts sooner.
    from reference_server.faults import FAULTS

    if name not in FAULTS:
        raise argparse.ArgumentTypeError(f"there is no fault called {name!r}")
    return FAULTS[name]


def main(argv: Sequence[str] | None = None, name: str = "python -m reference_server") -> int:
    """Run the server until SIGTERM or SIGINT; SIGUSR1 puts it into drain mode.

    ``name``: how it was called.
    """
    parser = _Parser(prog=name, description="The reference server of beanstalk.")
    parser.add_argument("--host", "-l", default="127.0.0.1", help="address, or unix:/path")
    parser.add_argument("--port", "-p", type=int, default=11300, help="TCP port; 0: any free one")
    parser.add_argument(
        "--profile",
        type=_profile,
        default=NEWEST,
        metavar="NAME",
        help=f"{', '.join(PROFILES)}, or a file with a fork's dialect",
    )
    parser.add_argument(
        "-z", dest="max_job_size", type=int, metavar="BYTES", help="the largest job body accepted"
    )
    parser.add_argument(
        "--max-jobs-ready", type=int, metavar="COUNT", help="how many jobs the ready queue holds"
    )
    parser.add_argument("-b", dest="binlog", metavar="DIR", help="a folder that keeps the jobs")
    parser.add_argument(
        "-f",
        dest="sync",
        type=float,
        default=50,
        metavar="MS",
        help="with -b: milliseconds until what was written is synced; 0: before it is answered",
    )
    parser.add_argument(
        "-F", dest="sync", action="store_const", const=None, help="with -b: never sync"
    )
    parser.add_argument(
        "--fault", type=_fault, default=NO_FAULT, metavar="NAME", help="a bug to have"
    )
    args = parser.parse_args(argv)
    if not 0 <= args.port < 65536:
        parser.error("a port is a number from 0 to 65535")
    if args.max_job_size is not None and args.max_job_size < 0:
        parser.error("-z takes a size in bytes, 0 or more")
    if args.max_jobs_ready is not None and args.max_jobs_ready < 1:
        parser.error("--max-jobs-ready takes a count, 1 or more")
    if args.max_jobs_ready is not None and args.profile.max_jobs_ready is None:
        parser.error(f"profile {args.profile.name} has no limit of ready jobs")
    if args.max_job_size is not None and args.max_job_size > LARGEST_JOB:
        args.max_job_size = LARGEST_JOB
        print(f"-z: no job may be larger than {LARGEST_JOB} bytes", file=sys.stderr, flush=True)
    allow_many_connections()
    if args.sync is not None and not 0 <= args.sync < math.inf:
        parser.error("-f takes milliseconds, 0 or more")
    fault = args.fault
    try:
        every = None if args.sync is None else args.sync / 1000
        binlog = None if args.binlog is None else fault.binlog(args.binlog, every)
        server = Server(
            args.profile, args.max_job_size, args.max_jobs_ready, fault=fault, binlog=binlog
        )
    except BinlogError as error:
        parser.error(str(error))
    loop = Loop()
    # A client that sees it listen may end it at once.
    _obey_signals(loop, server.engine)
    RESERVE.fill()
    try:
        where = server.start(loop, args.host, args.port)
    except OSError as error:
        parser.error(f"cannot listen on {args.host} port {args.port}: {error.strerror}")
    print(
        f"beanstalk reference server, profile {args.profile.name}, listening on {where}", flush=True
    )
    loop.run()
    server.close()
    if where.startswith("unix:"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(where.removeprefix("unix:"))
    return 0
