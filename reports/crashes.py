"""The crashes of a durability campaign, in words."""

from __future__ import annotations

from collections import Counter

from reports.results import Crashes, CrashPart
from reports.words import counted


def rate(part: CrashPart) -> str:
    """Return how many were tried in a second; empty if that was not measured."""
    if part.rate is None:
        return ""
    return f"{part.rate:,.0f}" if part.rate >= 10 else f"{part.rate:.1f}"


def line(part: CrashPart) -> str:
    """Return a part for a terminal."""
    a_second = f", {rate(part)} a second" if part.rate is not None else ""
    return f"{part.name}: {_counted(part.tried, part.kind)} ({part.said}){a_second}"


def tried(crashes: Crashes) -> str:
    """Return how much was tried of each kind."""
    counts: Counter[str] = Counter()
    for part in crashes.parts:
        counts[part.kind] += part.tried
    return ", ".join(_counted(count, kind) for kind, count in counts.items()) or "nothing"


def _counted(count: int, kind: str) -> str:
    """Return a number of things of a kind, which is in the plural."""
    first, blank, rest = kind.partition(" ")
    return counted(count, f"{first.removesuffix('s')}{blank}{rest}", kind)
