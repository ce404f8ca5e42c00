"""The corpus of a grey box: programs, each with the edges that it reaches, and which to vary next.

It knows nothing of targets or processes: who plays programs tells it what they have reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from conformance.random_testing.steps import Program
from fuzz.edges import count, edges

_STRIKES = 3
"""The number of times after which edges flicker that were reached, and not so again."""
_CANDIDATES = 4
"""Entries of which the one that reaches the rarest edges is taken."""


class Entry(NamedTuple):
    """A program that is kept, and what it reaches, as a set of ``fuzz.edges``."""

    program: Program
    reached: int


def union(entries: Iterable[Entry]) -> list[Entry]:
    """Return those entries, short ones first, that reach together what all of them reach."""
    kept, seen = list[Entry](), 0
    for entry in sorted(entries, key=lambda entry: len(entry.program)):
        if entry.reached & ~seen:
            seen |= entry.reached
            kept.append(entry)
    return kept


class Guidance:
    """What was reached in all, the programs that have reached it, and how rare each edge is."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.seen = 0
        self._doubts = [0] * _STRIKES
        """What was reached and not so again: at least once, twice, and so on."""
        self._hits: Counter[int] = Counter()
        self._picked: Counter[int] = Counter()

    @property
    def edges(self) -> int:
        """The number of edges that were reached."""
        return count(self.seen)

    @property
    def flickers(self) -> int:
        """What is reached now and then, whatever is sent, as a set of ``fuzz.edges``."""
        return self._doubts[-1]

    def news(self, reached: int) -> int:
        """Return what of it was never reached before, and does not flicker."""
        return reached & ~(self.seen | self.flickers)

    def note(self, reached: int) -> None:
        """Counts the edges that some program has reached."""
        self._hits.update(edges(reached))

    def doubt(self, news: int) -> None:
        """Takes to mind what was new, and was not reached when the same was done again."""
        for times in reversed(range(1, _STRIKES)):
            self._doubts[times] |= self._doubts[times - 1] & news
        self._doubts[0] |= news

    def keep(self, entry: Entry) -> bool:
        """Keeps an entry that reaches something new, each time; gives whether it does."""
        reached = entry.reached & ~self.flickers
        if not self.news(reached):
            return False
        self.seen |= reached
        self.entries.append(entry._replace(reached=reached))
        return True

    def pick(self, chance: Random) -> Entry:
        """Return an entry to vary: more often one that reaches what few programs reach."""
        numbers = [chance.randrange(len(self.entries)) for _ in range(_CANDIDATES)]
        best = min(numbers, key=self._cost)
        self._picked[best] += 1
        return self.entries[best]

    def _cost(self, number: int) -> int:
        hits = self._hits
        rarest = min((hits[edge] for edge in edges(self.entries[number].reached)), default=0)
        return (1 + rarest) * (1 + self._picked[number])
