"""The report of a fuzzing campaign: coverage and findings over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from reports.html import page
from reports.lines import Line, Point
from reports.plots import BOX, AxisTick, duration

_TICKS = 5


class CampaignMoment(NamedTuple):
    """The progress of a campaign after some seconds."""

    seconds: float
    cases: int = 0
    shapes: int = 0
    edges: int = 0
    findings: int = 0


_PLOTS: dict[str, Callable[[CampaignMoment], int]] = {
    "Edges": lambda moment: moment.edges,
    "Shapes of replies": lambda moment: moment.shapes,
    "Findings": lambda moment: moment.findings,
    "Cases": lambda moment: moment.cases,
}


def fuzz_page(
    title: str, moments: Sequence[CampaignMoment], findings: Sequence[str], health: Sequence[str]
) -> str:
    """Return the page of a campaign; it has plots from two moments on.

    ``health``: sentences about the target's resources, and what sanitizers have printed.
    """
    plots = [
        over_time(name, moments, [count(moment) for moment in moments])
        for name, count in _PLOTS.items()
        if len(moments) > 1 and (name == "Findings" or any(map(count, moments)))
    ]
    return page("fuzz.html", [], campaign=title, plots=plots, findings=findings, health=health)


def over_time(title: str, moments: Sequence[CampaignMoment], counts: Sequence[int]) -> Line:
    """Return the line of a count that grows; ``moments`` are two or more."""
    end, top = moments[-1].seconds, max(*counts, 1)

    def up(count: float) -> float:
        return round(BOX.bottom - (BOX.bottom - BOX.top) * count / top, 1)

    def across(seconds: float) -> float:
        return round(BOX.left + (BOX.right - BOX.left) * seconds / max(end, 1e-9), 1)

    step = max(1, math.ceil(top / _TICKS))
    return Line(
        title,
        f"{counts[-1]:,} after {duration(end)}.",
        [
            Point(across(moment.seconds), up(count), f"{count:,} after {duration(moment.seconds)}")
            for moment, count in zip(moments, counts, strict=True)
        ],
        [AxisTick(across(end * n / _TICKS), duration(end * n / _TICKS)) for n in range(_TICKS + 1)],
        [AxisTick(up(count), f"{count:,}") for count in range(0, top + 1, step)],
    )
