"""Histograms of durations on a logarithmic axis: the geometry, which a template draws."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from reports.results import Measured


class PlotBox(NamedTuple):
    """A drawing, and the edges of the plot in it."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int


BOX = PlotBox(650, 240, left=46, right=610, top=30, bottom=192)
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
LOWEST = 1.5
"""The height of a bar at least."""
NEAR = 60
"""Pixels between two marks that are too few for both labels side by side."""
FEW = 10
"""Measurements of which a sentence says more than a plot."""
_NARROWEST = 1 / 10
"""Decades that a bucket is wide."""


class Bar(NamedTuple):
    """One bucket: where it is drawn, and what it says."""

    x: float
    y: float
    width: float
    height: float
    text: str


class AxisTick(NamedTuple):
    """A mark on an axis, or a line across the plot: where, and its label.

    ``is_low``: the label is below that of another mark, which is near.
    """

    at: float
    label: str
    is_low: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """A histogram, drawn in ``BOX``."""

    title: str
    unit: str
    summary: str
    bars: list[Bar]
    across: list[AxisTick]
    up: list[AxisTick]
    marks: list[AxisTick]


def in_words(unit: str, measured: Measured) -> str:
    """Return a distribution in a sentence; ``unit`` is what was counted."""
    if measured.count == 1:
        return f"1 {unit.removesuffix('s')}: {duration(measured.longest)}."
    return (
        f"{measured.count:,} {unit}: half within {duration(measured.median)}, 90 % within"
        f" {duration(measured.p90)}, 99 % within {duration(measured.p99)}, the longest"
        f" {duration(measured.longest)}."
    )


def histogram(title: str, unit: str, measured: Measured) -> Plot:
    """Return the plot of a distribution; ``unit`` is what was counted."""
    low = math.floor(math.log10(measured.buckets[0].upto) - _NARROWEST + 1e-9)
    high = max(low + 1, math.ceil(math.log10(measured.longest or 1e-6) - 1e-9))

    def across(seconds: float) -> float:
        place = (math.log10(max(seconds, 10**low)) - low) / (high - low)
        return round(BOX.left + (BOX.right - BOX.left) * min(place, 1.0), 1)

    shares = [bucket.count / measured.count for bucket in measured.buckets]
    step = next(step for step in (*_STEPS, 1.0) if max(shares) <= 4 * step)
    top = step * math.ceil(max(shares) / step)

    def up(share: float) -> float:
        return round(BOX.bottom - (BOX.bottom - BOX.top) * share / top, 1)

    bars = []
    for bucket, share in zip(measured.buckets, shares, strict=True):
        left = across(bucket.upto / 10**_NARROWEST)
        text = f"{bucket.count} up to {duration(bucket.upto)}"
        width = max(1.0, across(bucket.upto) - left - 1)
        # What is rare is still to be seen.
        height = max(round(BOX.bottom - up(share), 1), LOWEST)
        bars.append(Bar(left, BOX.bottom - height, width, height, text))
    first, last = across(measured.median), across(measured.p99)
    marks = [AxisTick(first, "median"), AxisTick(last, "99 %", is_low=last - first < NEAR)]
    return Plot(
        title,
        unit,
        in_words(unit, measured),
        bars,
        [AxisTick(across(10.0**decade), duration(10.0**decade)) for decade in range(low, high + 1)],
        [AxisTick(up(share), f"{share:.0%}") for share in _until(top, step)],
        marks,
    )


def _until(top: float, step: float) -> Iterator[float]:
    return (number * step for number in range(round(top / step) + 1))


def duration(seconds: float) -> str:
    """Return seconds as a reader says them: 61 µs, 1.2 ms, 5 s, 1,200 s."""
    if seconds >= 999.5:
        return f"{seconds:,.0f} s"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size * 0.9995:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.2g} µs"
