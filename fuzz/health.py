"""The resources of a launched server during a campaign, and whether they keep growing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

PAGE = 4096
FEW = 8
"""Samples that are needed to see whether something grows."""
MANY = 1000
"""Looks that are kept at most."""
LEAKED = 30
"""Descriptors more than at first that are too many, while nobody is connected."""
GROWN = 50_000_000
"""Bytes more than at first that are too many, if each case takes some of them."""
PER_CASE = 200
"""Bytes that a case may take for good."""


class Health(NamedTuple):
    """After so many cases, with no client and no job left: memory in bytes, open descriptors."""

    cases: int
    memory: int
    descriptors: int


def look(pid: int, cases: int) -> Health | None:
    """Return the health of a process; None if it cannot be seen."""
    home = Path("/proc", str(pid))
    try:
        pages = int((home / "statm").read_text().split()[1])
        return Health(cases, pages * PAGE, len(list((home / "fd").iterdir())))
    except (OSError, ValueError, IndexError):
        return None


def thinned(looks: list[Health]) -> list[Health]:
    """Return looks, every second one left out if they are too many."""
    return looks if len(looks) < MANY else looks[::2]


def growth(looks: Sequence[Health]) -> Mapping[str, str]:
    """Return a sentence with the slope for each resource that keeps growing.

    It breaks no sentence of the protocol: an allocator or a garbage collector may keep what it has.
    """
    if len(looks) < FEW:
        return {}
    # What a server takes first, it may keep.
    first, late = looks[len(looks) // 4], looks[-len(looks) // 4 :]
    cases = max(late[0].cases - first.cases, 1)
    sentences = {}
    leaked = min(look.descriptors for look in late) - first.descriptors
    if leaked > LEAKED:
        sentences["descriptors"] = (
            f"{leaked} more open descriptors after {cases:,} cases with no client left,"
            f" {leaked / cases:.2g} a case"
        )
    grown = min(look.memory for look in late) - first.memory
    if grown > GROWN and grown > PER_CASE * cases:
        sentences["memory"] = (
            f"{grown / 1e6:.0f} MB more memory after {cases:,} cases with no job left,"
            f" {grown / cases:,.0f} bytes a case"
        )
    return sentences
