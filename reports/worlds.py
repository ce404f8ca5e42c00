"""Small worlds in a report: in words, and as a map of commands by states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from reports.results import WorldRecord

KINDS = {"1": "taken", "0": "left", "!": "deviates"}
"""The marks of a world's map, and what they mean."""


class WorldStretch(NamedTuple):
    """Adjacent states with the same mark: the first, their number, and the mark's meaning."""

    at: int
    width: int
    kind: str


def transitions(worlds: Iterable[WorldRecord]) -> str:
    """Return how many transitions were taken, of all."""
    seen = [(world.taken, world.transitions) for world in worlds]
    return f"{sum(taken for taken, _ in seen):,} of {sum(count for _, count in seen):,} transitions"


def stretches(row: str) -> Iterator[WorldStretch]:
    """Yield what is drawn of a command's row."""
    at = 0
    for mark, same in groupby(row):
        width = len(list(same))
        if mark in KINDS:
            yield WorldStretch(at, width, KINDS[mark])
        at += width
