"""Waits for replies as long as some arrive, up to a limit."""

from __future__ import annotations

from collections.abc import Callable

MOST = 12
"""Times the timeout of one reply that many replies have together, as long as some arrive."""


class Waiting:
    """Waiting for replies that may take ``timeout`` seconds each, but not for ever.

    ``time`` is a clock, in seconds, that stands still while it is not waited.
    """

    def __init__(self, timeout: float, time: Callable[[], float]) -> None:
        self._timeout = timeout
        self._time = time
        self._end = time() + MOST * timeout
        self.goes_on()

    def goes_on(self) -> None:
        """Record that something arrived."""
        self._limit = min(self._time() + self._timeout, self._end)

    @property
    def is_over(self) -> bool:
        return self._time() > self._limit
