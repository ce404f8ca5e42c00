"""The parts of an operating system that not every one has."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
import traceback
from pathlib import Path

try:
    import resource
except ImportError:
    # Windows: the clock of a process is as exact there, and descriptors have no limit.
    def cpu_times() -> tuple[float, float]:
        """Return the seconds of CPU time of this process: its own, and the system's for it."""
        times = os.times()
        return times.user, times.system

    def allow_many_connections() -> None:
        """Raise the limit of descriptors as far as this process may."""

    def file_limit() -> int | None:
        """Return how many bytes a file of this process may have; None if any number."""
        return None
else:
    _MOST_FILES = 1 << 20
    """Descriptors beyond which a system may refuse the limit, or take long for it."""

    def cpu_times() -> tuple[float, float]:
        """Return the seconds of CPU time of this process: its own, and the system's for it."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime, usage.ru_stime

    def allow_many_connections() -> None:
        """Raise the limit of descriptors as far as this process may, to a million at most."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

    def file_limit() -> int | None:
        """Return how many bytes a file of this process may have; None if any number."""
        limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        return None if limit == resource.RLIM_INFINITY else limit


def tell(what: str) -> None:
    """Say something on standard error, if that is possible: a full disk may prevent it."""
    with contextlib.suppress(OSError, MemoryError):
        print(what, file=sys.stderr, flush=True)


def tell_error() -> None:
    """Say on standard error which exception is handled, if that is possible."""
    with contextlib.suppress(OSError, MemoryError):
        traceback.print_exc()


def unix_socket() -> socket.socket:
    """Return a new UNIX socket; raises OSError where there are none."""
    family = getattr(socket, "AF_UNIX", None)
    if family is None:
        raise OSError(errno.EAFNOSUPPORT, "this system has no UNIX sockets")
    return socket.socket(family)


def allocate(file: int, size: int) -> None:
    """Take room on the disk for so many bytes of a file; raises OSError where there is none."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.ftruncate(file, size)


def sync_data(file: int) -> None:
    """Let the bytes of a file outlast the power."""
    (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(file)


def sync_folder(folder: Path) -> None:
    """Let the names in a folder outlast the power; where folders cannot be opened, they do."""
    with contextlib.suppress(PermissionError):
        number = os.open(folder, os.O_RDONLY)
        os.fsync(number)
        os.close(number)
