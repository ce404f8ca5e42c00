"""A System V shared memory segment in which an instrumented server counts edges.

It is marked for removal as soon as we have it: the system keeps it as long as anybody has it, and
then removes it, however we end. On Linux, a server can still take it, by its number.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from functools import cache

_PRIVATE, _REMOVE = 0, 0
_MODE = 0o1600
_FAILED = ctypes.c_void_p(-1).value


class NoMemory(Exception):
    """There is no such memory here; the text says why."""


class SharedSegment:
    """Counters of ``size`` edges, a byte each; raises NoMemory if there can be none."""

    def __init__(self, size: int) -> None:
        libc = _libc()
        self.size = size
        self._number = libc.shmget(_PRIVATE, size, _MODE)
        if self._number < 0:
            raise _failed("made")
        self._start = libc.shmat(self._number, None, 0)
        failed = _failed("used") if self._start == _FAILED else None
        libc.shmctl(self._number, _REMOVE, None)
        if failed is not None:
            raise failed

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables that name it to a server."""
        return {"__AFL_SHM_ID": str(self._number), "AFL_MAP_SIZE": str(self.size)}

    def take(self) -> bytes:
        """Return the counters, which begin anew."""
        counters = ctypes.string_at(self._start, self.size)
        ctypes.memset(self._start, 0, self.size)
        return counters

    def close(self) -> None:
        """Let go of it."""
        if self._start is not None:
            _libc().shmdt(self._start)
            self._start = None


@cache
def _libc() -> ctypes.CDLL:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        libc.shmat.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
        libc.shmdt.argtypes = (ctypes.c_void_p,)
        libc.shmget.argtypes = (ctypes.c_int, ctypes.c_size_t, ctypes.c_int)
    except (AttributeError, OSError, TypeError) as error:
        raise NoMemory("this system has no System V shared memory") from error
    return libc


def _failed(what: str) -> NoMemory:
    return NoMemory(f"shared memory cannot be {what}: {os.strerror(ctypes.get_errno())}")
