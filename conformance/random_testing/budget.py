"""The time budget of random conversations, and the length of each."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from conformance.target.address import ask, visit
from conformance.target.command_rate import COMMAND_RATE
from conformance.target.starvation import SEEN, CpuTime, Starvation
from conformance.target.target import Target
from conformance.verdict import Inconclusive
from reference_server.wire import ProtocolError

SECONDS, WITH_WAITING = 0.8, 1.0
"""Seconds that a conversation may take, one with another; the same where time flows in it."""
SAMPLES = 5
"""Round trips that are measured; a busy machine may make some of them longer."""
SLOW = 0.005
"""Seconds of a round trip from which on a target is slow: its tests do not wait for each other."""
LEAST = 10
"""The least commands of a conversation; a shorter one shows nothing."""
SHARE = 2
"""One in so many conversations should fit in; they get shorter for that."""
BUSY = 3
"""Times the budget that are added where others need the CPU."""
GRACE = 6.0
"""Seconds that are added at most until enough have fitted in."""
ENOUGH = 5
"""One in so many conversations must have fitted in, or nothing is said."""


def round_trip(target: Target) -> float:
    """Measure what a round trip costs, in seconds; 0 if the target gives no reply."""
    taken, limit = [0.0], target.limits.probe
    with (
        contextlib.suppress(OSError, EOFError, ProtocolError),
        visit(target.address, limit, target.traits) as sock,
    ):
        for _ in range(SAMPLES):
            start = time.perf_counter()
            ask(sock, target.sync_line, limit)
            taken.append(time.perf_counter() - start)
    return min(taken[1:], default=0.0)


@dataclass(slots=True)
class Budget:
    """``seconds`` for one kind of conversations, with a target of this ``round_trip``."""

    seconds: float = math.inf
    round_trip: float = 0.0
    begun: int = 0
    """Conversations that have fitted in."""
    _end: float = math.inf
    _starvation: Starvation = field(default_factory=lambda: Starvation(CpuTime))
    _found: bool = False

    def start(self) -> None:
        """Let the time run from now on."""
        self._end = time.monotonic() + self.seconds
        self._starvation = Starvation(CpuTime)

    def allows(self, count: int = 0) -> bool:
        """Return whether there is time for one more conversation, which is counted then.

        A busy machine gets more time for them, within bounds; so does a run that has not yet had
        enough of ``count``.
        """
        # A gentle run takes longer, and tries as much.
        self._end += COMMAND_RATE.begin()
        more = 0.0 if self.is_enough(count) else GRACE
        allowed = (late := time.monotonic() - self._end) < 0 or late < max(more, self._starved)
        self.begun += allowed
        return allowed

    @property
    def _starved(self) -> float:
        return min(SEEN * self._starvation.since().seconds, BUSY * self.seconds)

    def found(self) -> None:
        """Give as much time again, once, to see again what was found."""
        if not self._found:
            self.start()
        self._found = True

    def turns(self, count: int) -> Iterator[int]:
        """Yield so many turns, or those that fit in."""
        self.start()
        for number in range(count):
            if not self.allows(count):
                return
            yield number

    def length(self, most: int, count: int, round_trips: float) -> int:
        """Return how many commands each conversation may have, ``most`` of a fast target.

        A command takes so many round trips.
        """
        cost = self.round_trip * round_trips * count / SHARE
        return most if cost * most <= self.seconds else max(int(self.seconds / cost), LEAST)

    def shortfall(self, count: int, kind: str) -> str:
        """Return how many of so many conversations fitted in, empty if all did."""
        if self.begun >= count:
            return ""
        return f"{self.begun} of {count} {kind} within the budget of {self.seconds:g} s"

    def reached(self, count: int, kind: str) -> str:
        """Return the same; raises Inconclusive if what fitted in says nothing."""
        shortfall = self.shortfall(count, kind)
        if not self.is_enough(count):
            raise Inconclusive(f"reached only {shortfall}")
        return shortfall

    def is_enough(self, count: int) -> bool:
        """Return whether what fitted in says anything."""
        return self.begun * ENOUGH >= count
