"""Numbers in words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")


def counted(count: int, noun: str, many: str = "") -> str:
    """Return a number of things: one of them, or many, as a regular noun has it."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {many or f'{noun}s'}"


def by_numbers(texts: Iterable[str]) -> Counter[str]:
    """Count texts; those that differ only in numbers are one, with the range of each number."""
    kinds: defaultdict[str, list[list[str]]] = defaultdict(list)
    for text in texts:
        kinds[_NUMBER.sub("0", text)].append(_NUMBER.findall(text))
    counts: Counter[str] = Counter()
    for kind, found in kinds.items():
        ranges = iter([_range(numbers) for numbers in zip(*found, strict=True)])
        counts[_NUMBER.sub(lambda _, ranges=ranges: next(ranges), kind)] = len(found)  # type: ignore[misc]
    return counts


def _range(numbers: Iterable[str]) -> str:
    """Return the least and the largest of numbers; or their only one."""
    ordered = sorted({*numbers}, key=lambda number: float(number.replace(",", "")))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"
