"""The clock of a server that can be moved: it flows as real time does, or stands still."""

from __future__ import annotations

import time

LOOK = 1000
"""Nanoseconds by which a clock that stands still moves each time the server looks at it."""


class MovableClock:
    """Nanoseconds that never go back.

    A clock that stands still moves by ``step`` whenever it is called, so that whatever is due
    in the next instant, such as the end of a pause of 0 seconds, happens.
    """

    def __init__(self, flows: bool) -> None:
        self.step = LOOK
        self._ahead = 0
        self._stands_at: int | None = None if flows else 0

    def __call__(self) -> int:
        """Return the time for a server that looks at its clock."""
        if self._stands_at is not None:
            self._stands_at += self.step
        return self.now

    @property
    def now(self) -> int:
        """The time; to read it moves nothing."""
        if self._stands_at is not None:
            return self._stands_at
        return time.monotonic_ns() + self._ahead

    def forward(self, nanoseconds: int) -> None:
        """Move the clock; the server fires its timers when it next looks."""
        if self._stands_at is None:
            self._ahead += nanoseconds
        else:
            self._stands_at += nanoseconds

    def freeze(self) -> None:
        """Let the clock stand still; nothing if it does."""
        self._stands_at = self.now

    def flow(self) -> None:
        """Let the clock go on as real time does; nothing if it does."""
        if self._stands_at is not None:
            self._ahead = self._stands_at - time.monotonic_ns()
            self._stands_at = None
