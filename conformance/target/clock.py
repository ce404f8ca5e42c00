"""The clocks of a target: real, fake (libfaketime), or virtual (our own server)."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from conformance.target.address import Address, connect, next_reply
from conformance.target.failing_allocations import CONTROLS
from conformance.target.libraries import library_folders
from conformance.target.place import SOCKETS
from conformance.target.starvation import SEEN, watch
from conformance.target.transport import Transport
from reference_server.wire import CRLF, ProtocolError, ReplyReader

GRANULARITY = 0.01
"""Seconds by which the clocks of target and tester may differ over one scenario."""

LOOK = 1000
"""Nanoseconds by which a moved clock creeps each time that the target reads it."""
_EXACT = 125 * 10**6
"""Nanoseconds. libfaketime reads times as floating-point numbers: multiples of this are exact."""
_FEWER, _OFTEN = 4, 3
"""The divisor of timeouts after a hang, and the number of hangs that makes it permanent."""
_LEAST = 0.05
"""The shortest timeout, in seconds, of a server that hangs."""
_REST, _NAP = 0.5, 0.0005
"""Seconds that a server gets to go to sleep after its last reply, and those between two looks."""
FOLDER = "beanstalk-conformance-clock-"
"""The beginning of the names of the folders of clocks."""
_SHARED_MEMORY = Path("/dev/shm")
"""The files of a clock are there if they can be: to replace one on a disk takes milliseconds."""
_COUNTER = struct.Struct("Q")


class TargetClock(Protocol):
    """The clock that the target sees; ``movable`` if it can be moved."""

    movable: bool

    def time(self) -> float:
        """Return the seconds that it shows; they never go back."""
        ...

    def move(self, seconds: float) -> bool:
        """Move the clock, and return when the target has done what that makes due.

        Return False if it hangs.
        """
        ...

    def synchronise(self, seconds: float = math.inf) -> bool:
        """Return when the target has done what it was sent before, or so many seconds are over.

        Return False if it hangs.
        """
        ...


def pause(clock: TargetClock, seconds: float) -> None:
    """Let so many seconds pass, in real time and on a clock that is moved."""
    time.sleep(seconds)
    if clock.movable:
        clock.move(seconds)


class RealClock:
    """Time as it flows, for targets whose clock cannot be moved."""

    movable = False

    def time(self) -> float:
        return time.monotonic()

    def move(self, seconds: float) -> bool:
        raise AssertionError("a real clock cannot be moved")

    def synchronise(self, seconds: float = math.inf) -> bool:
        return True


class Attendant:
    """A connection for round trips, after which the server has handled everything else."""

    # Servers look at their timers, and at other clients, only before they next wait.
    ROUND_TRIPS = 3

    def __init__(self) -> None:
        self._control: Transport | None = None
        self._reader = ReplyReader()
        self._owed = self._hung = 0
        self._limit = self._timeout = 0.0
        self._line = b""

    def watch(self, address: Address, limit: float, asked: bytes) -> None:
        """Name the server, each reply of which may take ``limit`` seconds; raises OSError.

        ``asked``: the line that it is asked.
        """
        self.close()
        self._limit = limit
        self._timeout = self._usual_timeout()
        self._line = asked + CRLF
        self._reader, self._owed = ReplyReader(), 0
        self._control = Transport(connect(address, limit))

    def synchronise(self, seconds: float = math.inf) -> bool:
        """Return when the server has done what it was sent before, if it does that in turn.

        Each reply may take so many seconds. Return False if it hangs: then it need not be waited
        for so long again, nor a server that has hung often.
        """
        late = watch().overslept()
        try:
            for _ in range(self.ROUND_TRIPS):
                self._go_back_and_forth(min(seconds, self._timeout))
        except TimeoutError:
            if seconds >= self._timeout:
                late = watch().overslept() - late
                self._hung += self._timeout == self._limit and SEEN * late < self._limit
                self._timeout = max(self._timeout / _FEWER, _LEAST)
            return False
        except (OSError, EOFError, ProtocolError):
            return True
        self._timeout = self._usual_timeout()
        return True

    def _usual_timeout(self) -> float:
        return self._limit if self._hung < _OFTEN else self._limit / _FEWER

    def _go_back_and_forth(self, seconds: float) -> None:
        """Ask, and take in all replies that are owed: some may have been missed before."""
        assert self._control is not None
        end = time.monotonic() + seconds
        self._control.send(self._line)
        self._owed += 1
        while self._owed:
            next_reply(self._control, self._reader, end)
            self._owed -= 1

    def close(self, seconds: float | None = None) -> None:
        """Hang up; wait so many seconds at most for the end, or as long as for a reply."""
        if self._control is not None:
            self._control.hang_up(self._limit if seconds is None else seconds)


class ControlledClock(Attendant):
    """A clock that we move.

    ``step``: the nanoseconds by which it creeps each time that the target reads it.
    """

    movable = True
    step = LOOK

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Let the clock show the same time until it is moved; it shows whole milliseconds."""
        self.synchronise()
        self._set_step(0)
        try:
            yield
        finally:
            self._set_step(LOOK)

    def _set_step(self, step: int) -> None:
        """Go on with another step, from a time that can be shown exactly."""
        raise NotImplementedError


def next_exact(now: int) -> int:
    """Return the first time after ``now`` that can be shown exactly, in nanoseconds."""
    return (now // _EXACT + 1) * _EXACT


class FakeClock(ControlledClock):
    """libfaketime over a launched server: its time hardly moves until we move it.

    It creeps a microsecond each time the server reads it, so that no two timers are due in the very
    same instant, except where a test lets it stand still. How often the server has read it is read
    back, so that we know what its clock shows.
    """

    def __init__(self, library: Path) -> None:
        super().__init__()
        clear_leftovers()
        self._library = library
        self._folder = tempfile.TemporaryDirectory(
            prefix=f"{FOLDER}{os.getpid()}-", dir=clock_home()
        )
        self._file = Path(self._folder.name) / "now"
        # Early, as a server may count nanoseconds in 64 bits: up to the year 2262.
        self._start = self._now = 10**16
        self._looks: Looks | None = None
        self._pid = 0
        self._restless = 0
        self._write()

    def environment(self) -> Mapping[str, str]:
        """Return the variables that a server needs when it is started.

        Its clock goes on from where that of the last one is now.
        """
        self._now += self._looked()
        self._looks = None
        self._write()
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "TZ": "UTC",
        }

    def read_back(self, pid: int) -> bool:
        """Begin to read what the clock of this process shows; return whether that can be done."""
        self._pid, self._restless = pid, 0
        with contextlib.suppress(OSError, ValueError):
            self._looks = Looks(pid)
        return self._looks is not None

    def _looked(self) -> int:
        """Return the nanoseconds by which the reads so far advance the clock."""
        return self._looks.count() * self.step if self._looks is not None else 0

    def time(self) -> float:
        return (self._now + self._looked() - self._start) / 1e9

    def move(self, seconds: float) -> bool:
        self._now += round(seconds * 1e9)
        self._write()
        return self.synchronise()

    def synchronise(self, seconds: float = math.inf) -> bool:
        """Do as any attendant, and then wait until the server sleeps.

        Some servers handle all requests that arrive meanwhile before they look at their clock.
        """
        is_alive = super().synchronise(seconds)
        # One that spins is not waited for again and again.
        if is_alive and self._restless < _OFTEN:
            end = time.monotonic() + _REST
            while not (is_asleep := _is_asleep(self._pid)) and time.monotonic() < end:
                time.sleep(_NAP)
            self._restless = 0 if is_asleep else self._restless + 1
        return is_alive

    def _set_step(self, step: int) -> None:
        shown = self._now + self._looked()
        self.step = step
        self._now = next_exact(shown) - self._looked()
        self._write()

    def _write(self) -> None:
        whole, rest = divmod(self._now, 10**9)
        text = time.strftime("@%Y-%m-%d %H:%M:%S", time.gmtime(whole))
        text += f".{rest:09d} i{self.step / 1e9:.6f}\n"
        # The server reads the file each time it looks at its clock: it must never be half there.
        new = self._file.with_name("new")
        new.write_text(text)
        os.replace(new, self._file)


class Looks:
    """The number of times that a process and its children have read their fake clock.

    libfaketime counts that in shared memory; raises OSError or ValueError if it does not.
    """

    def __init__(self, pid: int) -> None:
        with Path(f"/dev/shm/faketime_shm_{pid}").open("rb") as file:
            self._memory = mmap.mmap(file.fileno(), _COUNTER.size, prot=mmap.PROT_READ)

    def count(self) -> int:
        """Return the looks so far."""
        (count,) = _COUNTER.unpack_from(self._memory)
        return int(count)


def _is_asleep(pid: int) -> bool:
    """Tell whether no thread of a process runs or is to run, as far as the system shows."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
                if file.read().rpartition(b") ")[2].startswith(b"R"):
                    return False
    return True


def clear_leftovers() -> None:
    """Remove what libfaketime, and we, have left of processes that are gone.

    It keeps a process' clock in shared memory named by the process' id, and leaves it there when
    the process is killed; a later process of the same id would go on with that clock.
    """
    for path in _SHARED_MEMORY.glob("*faketime_s[eh]m_*"):
        if _is_gone(path.name.rpartition("_")[2]):
            with contextlib.suppress(OSError):
                path.unlink()
    usual = Path(tempfile.gettempdir())
    for home, kind in ((clock_home(), FOLDER), (usual, SOCKETS), (usual, CONTROLS)):
        for path in home.glob(f"{kind}*"):
            if _is_gone(path.name.removeprefix(kind).partition("-")[0]):
                shutil.rmtree(path, ignore_errors=True)


def clock_home() -> Path:
    """Return the folder in which the folders of clocks are."""
    try:
        with tempfile.TemporaryFile(dir=_SHARED_MEMORY):
            return _SHARED_MEMORY
    except OSError:
        return Path(tempfile.gettempdir())


def _is_gone(process: str) -> bool:
    try:
        os.getsid(int(process))
    except (ProcessLookupError, OverflowError):
        return True
    except (ValueError, OSError):
        return False
    return False


def faketime_library() -> Path | None:
    """Return the path of libfaketime, if it is installed."""
    for name in ("libfaketimeMT.so.1", "libfaketime.so.1"):
        for folder in library_folders("faketime"):
            if (folder / name).exists():
                return folder / name
    return None
