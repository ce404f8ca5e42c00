"""Waiting for replies as long as some come, but not for ever."""

from __future__ import annotations

import time

MOST = 12
"""Times the patience for one reply that is waited for many, as long as some come."""


class Waiting:
    """Waiting for replies that may take ``patience`` seconds each, but not for ever."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._end = time.monotonic() + MOST * patience
        self.goes_on()

    def goes_on(self) -> None:
        """Something has come."""
        self._limit = min(time.monotonic() + self._patience, self._end)

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._limit
