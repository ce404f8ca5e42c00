"""The parts of an operating system that not every one has."""

from __future__ import annotations

import errno
import os
import socket

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
else:

    def cpu_times() -> tuple[float, float]:
        """Return the seconds of CPU time of this process: its own, and the system's for it."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime, usage.ru_stime

    def allow_many_connections() -> None:
        """Raise the limit of descriptors as far as this process may."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def unix_socket() -> socket.socket:
    """Return a new UNIX socket; raises OSError where there are none."""
    family = getattr(socket, "AF_UNIX", None)
    if family is None:
        raise OSError(errno.EAFNOSUPPORT, "this system has no UNIX sockets")
    return socket.socket(family)
