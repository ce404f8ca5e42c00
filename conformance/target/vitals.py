"""The vital signs of a server that we started: memory, descriptors, CPU."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import NamedTuple

from conformance.target.starvation import processes

EVERY = 2.0
"""Seconds between two looks, as each takes some milliseconds."""
_USER, _SYSTEM = 11, 12
"""The fields after the name in /proc/PID/stat that hold the CPU time of a process."""


class Vitals(NamedTuple):
    """The resources of the server that process ``pid`` leads, and all that it has started.

    ``memory`` in bytes at most, open ``descriptors``, ``cpu`` in seconds since it was started.
    """

    pid: int
    memory: int
    descriptors: int
    cpu: float


class VitalsWatch:
    """Samples all servers that we started: now and then, and before they end."""

    def __init__(self) -> None:
        self._running: set[int] = set()
        self._ended: list[Vitals] = []
        self._next = 0.0

    def begins(self, pid: int) -> None:
        """Take in a server that was started."""
        self._running.add(pid)

    def ends(self, pid: int) -> None:
        """Look for the last time at a server that is to end; harmless if it is not known."""
        if pid in self._running:
            self._running.discard(pid)
            self._ended += filter(None, [vitals(pid)])

    def look(self) -> list[Vitals]:
        """Return their vital signs; running servers are skipped if they were sampled just now."""
        found, self._ended = self._ended, []
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY
            found += filter(None, map(vitals, list(self._running)))
        return found


def vitals(pid: int) -> Vitals | None:
    """Return the vital signs of the processes of a session; None if they cannot be seen."""
    found = [one for folder in processes(pid) if (one := _of(folder, pid)) is not None]
    if not found:
        return None
    return Vitals(
        pid,
        sum(one.memory for one in found),
        sum(one.descriptors for one in found),
        round(sum(one.cpu for one in found), 2),
    )


def _of(folder: Path, pid: int) -> Vitals | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        peak = re.search(r"^VmHWM:\s+(\d+) kB$", (folder / "status").read_text(), re.MULTILINE)
        times = (folder / "stat").read_text().rpartition(")")[2].split()
        ticks = int(times[_USER]) + int(times[_SYSTEM])
        descriptors = len(list((folder / "fd").iterdir()))
        memory = int(peak[1]) * 1024 if peak else 0
        return Vitals(pid, memory, descriptors, ticks / os.sysconf("SC_CLK_TCK"))
    return None


WATCH = VitalsWatch()
