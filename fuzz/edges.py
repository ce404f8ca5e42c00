"""Sets of edges with hit counts in classes, as AFL has them.

A set is a number of as many bits as there are edges and classes: eight bits an edge, of which each
count sets one. So sets are joined and compared as fast as the machine can.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_STARTS = (1, 2, 3, 4, 8, 16, 32, 128)
"""The least counts of the eight classes."""
_CLASSES = bytes(
    0 if count == 0 else 1 << (sum(start <= count for start in _STARTS) - 1) for count in range(256)
)
_TAKEN = re.compile(rb"[^\0]", re.DOTALL)


def classed(counters: bytes) -> int:
    """Return the set of edges that counters record, a byte each."""
    return int.from_bytes(counters.translate(_CLASSES), "little")


def marked(numbers: Iterable[int]) -> int:
    """Return the set of edges that were taken once, by their numbers."""
    reached = 0
    for number in numbers:
        reached |= 1 << 8 * number
    return reached


def edges(reached: int) -> list[int]:
    """Return the numbers of the edges of a set."""
    return [taken.start() for taken in _TAKEN.finditer(_bytes(reached))]


def count(reached: int) -> int:
    """Return how many edges are in a set."""
    data = _bytes(reached)
    return len(data) - data.count(0)


def _bytes(reached: int) -> bytes:
    return reached.to_bytes((reached.bit_length() + 7) // 8, "little")
