"""Memory that is kept back, so that a server that gets no more can still answer everybody.

When the system gives no memory, the reserve is given up for that one thing. Until there is a
reserve again, puts are refused and new clients hung up on: both would use it up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SIZE = 2**20
"""Bytes that are kept back: much more than anything takes but the body of a job."""
ROOM = 2**16
"""Bytes that there must be besides the body, when a job is taken: for whatever tells of it."""


class Reserve:
    """The reserve of this process; ``is_spent``: it has been given up."""

    def __init__(self) -> None:
        self._kept: bytes | None = None
        self.is_spent = False

    def fill(self) -> None:
        """Keep memory back, if the system gives any."""
        try:
            self._kept = bytes(SIZE)
        except MemoryError:
            self.is_spent = True
        else:
            self.is_spent = False

    def refill(self) -> None:
        """Fill it again if it was given up."""
        if self.is_spent:
            self.fill()

    def spend(self) -> None:
        """Give it up; nothing if it is not kept."""
        self.is_spent = self.is_spent or self._kept is not None
        self._kept = None

    def needed(self, function: Callable[[], T]) -> T:
        """Return what a function gives, which may be called again; raises MemoryError."""
        try:
            return function()
        except MemoryError:
            self.spend()
            return function()

    @property
    def has_room(self) -> bool:
        """Return whether there is memory for another job."""
        if self._kept is None:
            return not self.is_spent
        try:
            bytes(ROOM)
        except MemoryError:
            return False
        return True


RESERVE = Reserve()
