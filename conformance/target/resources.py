"""The resources of a server that we started: its usage, and limits on it.

They are set on its running processes, and lifted again: address space, descriptors, size of files,
and system calls that fail.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from conformance.target.failing_allocations import FailingAllocations
from conformance.target.failing_calls import FailingCalls
from conformance.target.sanitizers import QUARANTINES, has_sanitizer
from conformance.target.starvation import CpuTime, processes, session
from conformance.target.target import Target
from conformance.target.tcp_table import ESTABLISHED, KEEPALIVE, tcp_sockets
from conformance.transcript import LIMITED, RESTARTS
from conformance.verdict import GOES_ON, NotTestable, Outage, TargetLost

try:
    import resource
except ImportError:
    _LIMITS = {}
else:
    _LIMITS = {
        name: number
        for name in ("RLIMIT_AS", "RLIMIT_NOFILE", "RLIMIT_FSIZE")
        if (number := getattr(resource, name, None)) is not None and hasattr(resource, "prlimit")
    }

Note = Callable[[bytes], object]
"""Records an event of the server, which is shown in the transcript."""
_FEW = (
    *(sys.executable, "-ISc"),
    "import os, resource, sys; number = int(sys.argv[1]);"
    " resource.setrlimit(resource.RLIMIT_NOFILE, (number, number));"
    " os.execvp(sys.argv[2], sys.argv[2:])",
)
"""The program that becomes another one with few descriptors: their number is its argument."""
FAULTS = (signal.SIGSEGV, getattr(signal, "SIGBUS", signal.SIGSEGV))
"""The signals that end a process which accesses memory that it does not have."""
_SIZE, _RESIDENT = "VmSize", "VmRSS"


class Resources:
    """The processes of a target; raises NotTestable if they cannot be seen or limited.

    ``were_limited``: what becomes of it is a matter of exhaustion.
    """

    def __init__(self, target: Target, note: Note) -> None:
        if not _LIMITS:
            raise NotTestable("needs a system that limits running processes: Linux")
        self._target = target
        self._note = note
        self._before: dict[tuple[int, int], tuple[int, int]] = {}
        self._failing: list[FailingCalls] = []
        self._refuses = self._refused = False
        self.were_limited = False
        target.check_processes()

    def _folders(self) -> list[Path]:
        return [*processes(self._pid)]

    @property
    def _pid(self) -> int:
        assert self._target.pid is not None
        return self._target.pid

    # ------------------------------------------------------------ what it takes

    @property
    def memory(self) -> int:
        """The bytes of memory that it has in use."""
        return sum(_bytes(folder, _RESIDENT) for folder in self._folders())

    @property
    def private_memory(self) -> int:
        """The bytes of memory that it has written to, and no file holds, to a page."""
        return sum(map(_anonymous, self._folders()))

    @property
    def keeps_freed_memory(self) -> bool:
        """Return whether its allocator keeps what it has freed, as AddressSanitizer's does."""
        return has_sanitizer(self._pid, QUARANTINES)

    @property
    def descriptors(self) -> int:
        """The descriptors that it has open."""
        return sum(len(_open(folder)) for folder in self._folders())

    def cpu_time(self) -> CpuTime:
        """Return the CPU time that the server used, and waited for; raises NotTestable."""
        time = session(self._pid).read()
        if not time.ran:
            raise NotTestable("needs a system that reports the CPU time of threads in schedstat")
        return time

    def written(self) -> int:
        """Return the bytes that the server has written so far, anywhere; 0 if unknown."""
        count = 0
        for folder in self._folders():
            with contextlib.suppress(OSError):
                match = re.search(r"^wchar: (\d+)$", (folder / "io").read_text(), re.MULTILINE)
                count += int(match[1]) if match else 0
        return count

    def keeps_alive(self, client: int, server: int) -> bool | None:
        """Return whether TCP keep-alive probes an idle client; None if no socket shows it.

        ``client`` and ``server`` are their ports; a client's port may be in use
        for other servers as well.
        """
        for folder in self._folders():
            for one in tcp_sockets(folder, ESTABLISHED):
                if (one.local, one.remote) == (server, client):
                    return one.timer == KEEPALIVE
        return None

    # ------------------------------------------------------------ limits

    def limit_memory(self, spare: int) -> None:
        """Let its address space grow by so many bytes at most."""
        self._limit("RLIMIT_AS", b"memory", lambda folder: _bytes(folder, _SIZE) + spare)

    def refuse_allocations(self) -> None:
        """Let no allocation succeed, of whatever size; raises NotTestable."""
        self._allocations().fail(self._folders())
        self._refuses = self._refused = self.were_limited = True
        self._note(b"allocations" + LIMITED)

    def _allocations(self) -> FailingAllocations:
        if self._target.allocations is None:
            raise NotTestable("needs a server that was started with libfiu")
        return self._target.allocations

    def may_end(self, outage: Outage) -> bool:
        """Return whether it may end like this, since it could allocate nothing at all.

        The runtimes of most languages do; a server that crashes has not checked the result.
        """
        return self._refused and outage.signal not in FAULTS

    def try_with_descriptors(self, number: int) -> Outage | None:
        """End it, and try to start it with so many descriptors; see :meth:`Target.end_and_try`."""
        return self._try(b"descriptors", (*_FEW, str(number)), {})

    def try_with_allocations(self, part: float) -> Outage | None:
        """End it, and try to start it while a share of all allocations fails."""
        return self._try(b"allocations", (), self._allocations().from_the_start(part))

    def _try(
        self, what: bytes, prefix: Sequence[str], environment: Mapping[str, str]
    ) -> Outage | None:
        self.were_limited = True
        self._note(RESTARTS + b", " + what + LIMITED)
        return self._target.end_and_try(prefix, environment)

    def limit_descriptors(self, spare: int) -> None:
        """Let it open so many descriptors more at most."""

        def least(folder: Path) -> int:
            taken = _open(folder)
            free = (number for number in itertools.count() if number not in taken)
            return next(itertools.islice(free, spare, None))

        self._limit("RLIMIT_NOFILE", b"descriptors", least)

    def limit_files(self, size: int) -> None:
        """Let it write nothing into files beyond so many bytes."""
        self._limit("RLIMIT_FSIZE", b"files", lambda _: size)

    def fail(self, error: str, *calls: str, step: int = 1) -> None:
        """Let one in ``step`` of each of these system calls fail with this error, as ``ENFILE``.

        Raises NotTestable, and TargetLost if it ends as soon as they fail.
        """
        try:
            self._failing.append(FailingCalls(self._folders(), calls, error, step))
        except NotTestable:
            outage = self._target.ended()
            if outage is None:
                raise
            self.were_limited = True
            raise TargetLost(GOES_ON, outage) from None
        self._target.accepts = "accept" not in calls
        self.were_limited = True
        self._note(f"{', '.join(calls)} ({error})".encode() + LIMITED)

    def _limit(self, name: str, what: bytes, least: Callable[[Path], int]) -> None:
        number = _LIMITS[name]
        for folder in self._folders():
            pid = int(folder.name)
            try:
                soft, hard = self._before.setdefault((pid, number), resource.prlimit(pid, number))
                value = least(folder)
                if 0 <= soft < value:
                    value = soft
                resource.prlimit(pid, number, (value, hard))
            except (PermissionError, ValueError) as error:
                raise NotTestable(
                    f"needs the right to limit the server's processes: {error}"
                ) from error
        self.were_limited = True
        self._note(what + LIMITED)

    def lift(self) -> int | None:
        """Take all limits away again, as far as its processes are still there.

        Return how many system calls have failed; None if none were to.
        """
        for (pid, number), limits in self._before.items():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, number, limits)
        self._before.clear()
        failed = self.end()
        self._note(b"limits lifted")
        return failed

    def end(self) -> int | None:
        """End all injected failures; return how many calls failed, None if none were injected."""
        failed = sum(failing.end() for failing in self._failing) if self._failing else None
        if self._refuses:
            self._refuses = False
            with contextlib.suppress(NotTestable):
                # It may be gone.
                self._allocations().succeed(self._folders())
        self._target.accepts = True
        self._failing.clear()
        return failed


def _bytes(folder: Path, key: str) -> int:
    match = re.search(rf"^{key}:\s+(\d+) kB$", (folder / "status").read_text(), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def _anonymous(folder: Path) -> int:
    """Return what a process has in memory of its own; VmRSS may lag behind by some pages."""
    try:
        sizes = (folder / "smaps_rollup").read_text()
    except OSError:
        return _bytes(folder, _RESIDENT)
    match = re.search(r"^Anonymous:\s+(\d+) kB$", sizes, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def _open(folder: Path) -> set[int]:
    return {int(name) for name in os.listdir(folder / "fd")}
