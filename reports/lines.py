"""Shares over runs or versions: the geometry of a line chart, which a template draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reports.plots import BOX, AxisTick
from reports.shares import Share
from reports.slugs import shortened

_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)
_LABELS = 5
"""Labels for which there is room below."""
_LONGEST_LABEL = 12


class Value(NamedTuple):
    """A share, its label below, and what else is said of it."""

    label: str
    share: Share
    said: str


class Point(NamedTuple):
    """A value, in ``BOX``."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line through at least two points, drawn in ``BOX``."""

    title: str
    summary: str
    points: list[Point]
    across: list[AxisTick]
    up: list[AxisTick]


def line(title: str, values: Sequence[Value]) -> Line | None:
    """Return the line of shares, or None if it had less than two points."""
    values = [value for value in values if value.share.total]
    if len(values) < 2:
        return None
    shares = [value.share.met / value.share.total for value in values]
    step = next((step for step in _STEPS if 1 - min(shares) <= 5 * step), _STEPS[-1])
    steps = max(1, math.ceil((1 - min(shares)) / step - 1e-9))
    low = 1 - steps * step

    def up(share: float) -> float:
        return round(BOX.bottom - (BOX.bottom - BOX.top) * (share - low) / (1 - low), 1)

    def across(number: int) -> float:
        return round(BOX.left + (BOX.right - BOX.left) * number / (len(values) - 1), 1)

    texts = [f"{value.said}: {_share_text(value.share)}" for value in values]
    return Line(
        title,
        f"First {texts[0]}. Last {texts[-1]}.",
        [Point(across(n), up(share), texts[n]) for n, share in enumerate(shares)],
        [
            AxisTick(across(n), shortened(values[n].label, _LONGEST_LABEL))
            for n in _labelled(values)
        ],
        [AxisTick(up(1 - n * step), f"{1 - n * step:.0%}") for n in range(steps + 1)],
    )


def _share_text(share: Share) -> str:
    return f"{share.percent} %, {share.met} of {share.total}"


def _labelled(values: Sequence[Value]) -> list[int]:
    """Return which values have a label: the first of those with the same one, and not too many."""
    distinct = [n for n, value in enumerate(values) if not n or values[n - 1].label != value.label]
    apart = math.ceil(len(distinct) / _LABELS)
    return distinct[::apart]
