"""The rate of a gentle run: how many commands this process sends per second, on average.

A pause inside a test would change what the test measures. So commands are only counted where they
are sent, and the pause comes before the next test or random conversation. A single test is as fast
as ever; the average is kept.
"""

from __future__ import annotations

import math
import threading
import time

GENTLE = 1000
"""Commands in a second, over all processes of a gentle run."""
_BEGINS = 20
"""Commands that are counted in advance where a test begins: many may do so at the same time."""


class CommandRate:
    """Counts commands, and waits until they are no more than ``rate`` in a second."""

    def __init__(self) -> None:
        self.rate = math.inf
        self._free = 0.0
        """When the average is as low as it should be, on the monotonic clock."""
        self._lock = threading.Lock()

    def sends(self, data: bytes | bytearray) -> None:
        """Count the commands that are sent, each line of them."""
        if self.rate < math.inf:
            with self._lock:
                self._count(data.count(b"\n"))

    def begin(self) -> float:
        """Wait until something else may begin; return for how many seconds."""
        if self.rate == math.inf:
            return 0.0
        with self._lock:
            seconds = max(self._free - time.monotonic(), 0.0)
            self._count(_BEGINS)
        time.sleep(seconds)
        return seconds

    def _count(self, commands: int) -> None:
        self._free = max(self._free, time.monotonic()) + commands / self.rate


COMMAND_RATE = CommandRate()
"""The pace of this process."""
