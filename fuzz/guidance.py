"""The corpus of a grey box: programs with the edges that they reach, and which to vary next.

It knows nothing of targets or processes: the player of programs reports what they have reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from conformance.random_testing.steps import Program
from fuzz.edges import count, edges

_STRIKES = 3
"""Times after which an edge flickers that was reached, and then not reached again."""
_CANDIDATES = 8
"""Edges that are drawn, to go for the rarest of them."""
_FOLLOWED = 300
"""Variations by which a new edge is followed up at once."""
_NEW, _ANY = 0.5, 0.1
"""The chances of an entry that is followed up, and of any, which may reach but another count."""


class CorpusEntry(NamedTuple):
    """A program that is kept, and what it reaches, as a set of ``fuzz.edges``."""

    program: Program
    reached: int


def union(entries: Iterable[CorpusEntry]) -> list[CorpusEntry]:
    """Return entries, short ones first, that together reach what all of them reach."""
    kept, seen = list[CorpusEntry](), 0
    for entry in sorted(entries, key=lambda entry: len(entry.program)):
        if entry.reached & ~seen:
            seen |= entry.reached
            kept.append(entry)
    return kept


class Guidance:
    """The edges that were reached, the programs that reach them, and their rarity."""

    def __init__(self) -> None:
        self.entries: list[CorpusEntry] = []
        self.seen = 0
        """The edges that entries reach."""
        self._met = 0
        self._missed = [0] * _STRIKES
        """The edges that were reached and not again: at least once, twice, and so on."""
        self._hits: Counter[int] = Counter()
        self._new: list[tuple[CorpusEntry, int]] = []
        """Entries that reach edges which none has reached before, and how often to vary each."""
        self._best: dict[int, CorpusEntry] = {}
        """The shortest entry that reaches an edge."""

    @property
    def edges(self) -> int:
        """The number of edges that were reached, be it once."""
        return count((self._met | self.seen) & ~self.flickers)

    @property
    def flickers(self) -> int:
        """The edges that are reached now and then, whatever is sent, as a set of ``fuzz.edges``."""
        return self._missed[-1]

    def new_edges(self, reached: int) -> int:
        """Return the edges of it that were never reached before, and do not flicker."""
        return reached & ~(self.seen | self.flickers)

    def has_new_edge(self, reached: int) -> bool:
        """Return whether an edge of it is new, and not just how often it was taken."""
        return count(self.seen | self.new_edges(reached)) > count(self.seen)

    def meet(self, reached: int) -> None:
        """Take in what was reached somehow."""
        self._met |= reached

    def note(self, reached: int) -> None:
        """Count the edges that some program has reached."""
        self.meet(reached)
        self._hits.update(edges(reached))

    def note_missing(self, new: int) -> None:
        """Note edges that were new, but were not reached when the program was played again."""
        for times in reversed(range(1, _STRIKES)):
            self._missed[times] |= self._missed[times - 1] & new
        self._missed[0] |= new

    def keep(self, entry: CorpusEntry) -> bool:
        """Keep an entry that reaches something new, each time; return whether it does."""
        reached = entry.reached & ~self.flickers
        if not self.new_edges(reached):
            return False
        kept = entry._replace(reached=reached)
        if self.has_new_edge(reached):
            self._new.append((kept, _FOLLOWED))
        self.seen |= reached
        self.entries.append(kept)
        for edge in edges(reached):
            best = self._best.setdefault(edge, kept)
            if len(kept.program) < len(best.program):
                self._best[edge] = kept
        return True

    def pick(self, chance: Random) -> CorpusEntry:
        """Return an entry to vary: a new one, the shortest that reaches a rare edge, or any."""
        kind = chance.random()
        if self._new and kind < _NEW:
            entry, left = self._new.pop()
            if left > 1:
                self._new.append((entry, left - 1))
            return entry
        if kind > 1 - _ANY:
            return chance.choice(self.entries)
        known = list(self._best)
        rarest = min((chance.choice(known) for _ in range(_CANDIDATES)), key=self._hits.__getitem__)
        return self._best[rarest]
