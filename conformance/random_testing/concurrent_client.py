"""One of several concurrent clients, with the jobs that it knows of."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from conformance.oracle.invariants import SentCommand
from conformance.target.transport import Transport
from reference_server.wire import ReplyReader

WAITS = "reserve"
"""Commands that ask for a job and wait for it, with a timeout or not."""


@dataclass(slots=True)
class ConcurrentClient:
    """A client beside others, and its state. ``reserves``: it may wait for a job."""

    transport: Transport
    conn: int
    name: str
    reserves: bool
    reader: ReplyReader
    used: str = "default"
    watched: tuple[str, ...] = ("default",)
    held: list[int] = field(default_factory=list)
    asked: deque[SentCommand] = field(default_factory=deque)
    leaving: bool = False

    @property
    def may_wait(self) -> bool:
        """Return whether what it has asked need not be answered yet."""
        return bool(self.asked) and self.asked[0].verb == WAITS

    @property
    def is_busy(self) -> bool:
        """Return whether it must get a reply, or the end of its connection."""
        return self.leaving or (bool(self.asked) and not self.may_wait)
