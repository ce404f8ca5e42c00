"""Histograms of durations on a logarithmic axis: the geometry, which a template draws."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from reports.results import Measured


class Box(NamedTuple):
    """A drawing, and the edges of the plot in it."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int


BOX = Box(640, 240, left=46, right=610, top=30, bottom=192)
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
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
    """A mark on an axis, or a line across the plot: where, and its label."""

    at: float
    label: str


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
        bars.append(Bar(left, up(share), width, round(BOX.bottom - up(share), 1), text))
    marks = [("median", measured.median), ("99 %", measured.p99)]
    return Plot(
        title,
        unit,
        f"{measured.count:,} {unit}: half within {duration(measured.median)}, 90 % within"
        f" {duration(measured.p90)}, 99 % within {duration(measured.p99)}, the longest"
        f" {duration(measured.longest)}.",
        bars,
        [AxisTick(across(10.0**decade), duration(10.0**decade)) for decade in range(low, high + 1)],
        [AxisTick(up(share), f"{share:.0%}") for share in _until(top, step)],
        [AxisTick(across(seconds), label) for label, seconds in marks],
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
