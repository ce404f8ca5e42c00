"""The servers that are measured: what a measurement needs of them, launched or somebody else's."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from conformance.target.address import Address, connect
from conformance.target.launch import Launched
from conformance.target.limits import Limits
from conformance.target.starvation import CpuTime, Meter, processes
from conformance.target.target import Remote
from conformance.target.transport import Transport, wait_for

BUILT_IN = f"{shlex.quote(sys.executable)} -m reference_server -l {{host}} -p {{port}}"
"""The command of the reference server."""
_RESIDENT = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)


class BatchWire(Protocol):
    """The part of a connection that is needed; see :class:`Transport`."""

    ended: bool

    def send(self, data: bytes) -> None: ...

    def receive_within(self, seconds: float) -> bytes: ...

    def close(self) -> None: ...


class MeasuredServer(Protocol):
    """A server that is measured; ``unit`` says what its costs are: CPU time, mostly.

    ``is_shared``: others use it, too, so that it is treated as production.
    """

    unit: str
    is_shared: bool

    def connect(self) -> BatchWire: ...

    def first(self, wires: Sequence[BatchWire], seconds: float) -> Sequence[BatchWire]:
        """Return those of some connections on which something comes within so many seconds."""

    def now(self) -> float:
        """Return the seconds of the clock by which its delays are judged."""

    def spent(self) -> CpuTime:
        """Return all that it has cost so far, and for how long it waited for a CPU."""

    def memory(self) -> int | None:
        """Return the bytes of memory that it has in use; None if that cannot be seen."""

    def status(self) -> str:
        """Return how it has ended; empty if it runs, or nothing is known."""

    def close(self) -> None: ...


CPU_TIME, TIME = "CPU time", "time"
_OTHER_FILES = 200
"""Descriptors that are needed besides those of connections, by us or a server."""


def most_connections() -> int:
    """Return how many connections this process may have, and a server that it starts."""
    try:
        import resource
    except ImportError:
        return sys.maxsize
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(soft - _OTHER_FILES, 0)


class _Reached:
    """A server at an address."""

    def first(self, wires: Sequence[BatchWire], seconds: float) -> Sequence[BatchWire]:
        """Return those of some connections on which something comes within so many seconds."""
        return wait_for([wire for wire in wires if isinstance(wire, Transport)], seconds)

    def now(self) -> float:
        """Return the time of a clock that nobody sets."""
        return time.monotonic()


class LaunchedServer(_Reached):
    """A server that we start; raises :class:`LaunchError`."""

    is_shared = False

    def __init__(self, command: str, limits: Limits) -> None:
        self._limits = limits
        self._server = Launched(command, limits=limits)
        self._meter = Meter(self._threads)
        self._processes = list(processes(self._server.process.pid))
        self.unit = CPU_TIME if self._meter.read().ran else TIME

    def _threads(self) -> Iterator[Path]:
        for process in self._processes:
            with contextlib.suppress(OSError):
                yield from (process / "task").iterdir()

    def connect(self) -> BatchWire:
        """Return a new connection; raises OSError."""
        return Transport(connect(self._server.where, self._limits.probe))

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._server.where

    def spent(self) -> CpuTime:
        """Return the CPU time that it has used so far; else the seconds that have passed."""
        return self._meter.read() if self.unit == CPU_TIME else CpuTime(time.perf_counter())

    def memory(self) -> int | None:
        """Return its resident memory, in bytes; None if the system does not tell it."""
        sizes = []
        for process in self._processes:
            with contextlib.suppress(OSError):
                sizes += _RESIDENT.findall((process / "status").read_text())
        return sum(map(int, sizes)) * 1024 if sizes else None

    def status(self) -> str:
        """Return how it has ended, if it has."""
        return self._server.exit_status() or ""

    def close(self) -> None:
        """End it."""
        self._server.end()


class SharedServer(_Reached):
    """A server that somebody else runs."""

    is_shared = True
    unit = TIME

    def __init__(self, target: Remote) -> None:
        self._target = target

    def connect(self) -> BatchWire:
        """Return a new connection; raises OSError."""
        return self._target.connect()

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._target.address

    def spent(self) -> CpuTime:
        """Return the seconds that have passed."""
        return CpuTime(time.perf_counter())

    def memory(self) -> int | None:
        """Return None: it may run anywhere."""
        return None

    def status(self) -> str:
        """Return nothing."""
        return ""

    def close(self) -> None:
        """Leave it alone."""
