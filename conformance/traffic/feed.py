"""The feed of the judge: copies of events, in a bounded queue before a pipe.

The judge may lag behind. Beyond the bound, the feed drops whole conversations: of each
that would have been added to, nothing follows but its end. The judge gets to know which.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque

from conformance.traffic.events import ENDS, Kind, encoded

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

BOUND = 32 << 20
"""Bytes kept for a judge that lags behind."""
_PIPE = 1 << 20
"""Bytes that the pipe itself holds, where the system allows it."""
_CHUNK = 1 << 16
"""Bytes that are worth a write."""
_MOST_PUT_OFF = 0.02
"""Seconds for which events are gathered, so that the judge is not woken for each."""


class Feed:
    """Writes events to the pipe ``fd``; it never waits.

    ``dropped_count``: conversations of which the judge does not get all. ``is_broken``: nobody
    reads the pipe any more.
    """

    def __init__(self, fd: int, bound: int = BOUND) -> None:
        self.dropped_count = 0
        self._began = time.time_ns() - time.monotonic_ns()
        self._fd = fd
        self._bound = bound
        self._frames: list[bytes] = []
        self._size = 0
        self._full: deque[bytes] = deque()
        self._waiting = 0
        self._since = 0.0
        self._dropped: set[int] = set()
        self.is_broken = False
        os.set_blocking(fd, False)
        if fcntl is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE)

    def note(self, conn: int, kind: Kind, data: bytes = b"") -> None:
        """Add an event, or drop the rest of its conversation."""
        if conn in self._dropped:
            if kind not in ENDS:
                return
            self._dropped.discard(conn)
            data = b""
        elif self._waiting > self._bound and kind not in ENDS:
            self._dropped.add(conn)
            self.dropped_count += 1
            kind, data = Kind.DROPPED, b""
        if not self._frames:
            self._since = time.monotonic()
        # The wall clock may be set; time must not jump.
        frame = encoded(self._began + time.monotonic_ns(), conn, kind, data)
        self._frames.append(frame)
        self._size += len(frame)
        if self._size >= _CHUNK:
            self._flush()

    def tick(self) -> None:
        """Write what has been gathered for long enough, or did not fit into the pipe."""
        if (self._frames and time.monotonic() - self._since > _MOST_PUT_OFF) or self._full:
            self._flush()

    def _flush(self) -> None:
        if self._frames:
            self._full.append(b"".join(self._frames))
            self._waiting += self._size
            self._frames.clear()
            self._size = 0
        while self._full and not self.is_broken:
            chunk = self._full[0]
            try:
                written = os.write(self._fd, chunk)
            except BlockingIOError:
                return
            except OSError:
                self.is_broken = True
                break
            self._waiting -= written
            if written < len(chunk):
                self._full[0] = chunk[written:]
                return
            self._full.popleft()
        if self.is_broken:
            # Nobody judges any more: forwarding goes on.
            self._full.clear()
            self._waiting = 0

    def close(self, seconds: float) -> bool:
        """Write the rest within a time, and close; return whether all was written."""
        end = time.monotonic() + seconds
        self._flush()
        while self._full and time.monotonic() < end:
            time.sleep(0.005)
            self._flush()
        whole = not self._full and not self.is_broken
        os.close(self._fd)
        return whole
