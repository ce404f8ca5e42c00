"""The growth of costs: ``scale.json``, its schema, and the page that is made from it.

Times are in seconds, memory is in bytes. ``python -m reports.scale`` prints the JSON Schema, which
is kept in ``reports/scale.schema.json``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from reports.html import STYLES, page
from reports.plots import AxisTick, PlotBox, duration
from reports.results import ResultsError, SuiteRecord, Text, content_of

Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0)]


class _ScaleData(BaseModel):
    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class Estimate(_ScaleData):
    """A number with its 95 % interval."""

    value: Number
    low: Number
    high: Number

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


class Latency(_ScaleData):
    """A distribution of latencies, from when a request was due; None: too few were measured."""

    count: Whole
    longest: Number
    p50: Number | None = None
    p99: Number | None = None
    p999: Number | None = None


class ScalePoint(_ScaleData):
    """A command at a size."""

    size: Whole
    cost: Number
    """Per command, corrected by that of a small server at the same time."""
    throughput: Number | None = None
    """Commands in a second, many of them sent at once; None if we were the bottleneck."""
    latency: Latency | None = None


class ScaleCurve(_ScaleData):
    """The cost of a command while something grows."""

    grows: Text
    command: Text
    points: list[ScalePoint]
    shape: Text = ""
    """Empty if it was measured at too few sizes."""
    exponent: Estimate | None = None
    """At the largest size: 0 if the cost is constant, 1 if it is linear."""
    factor: Estimate | None = None
    """The cost at the largest size, by that at the smallest."""
    expected: Number
    """The exponent that the command needs: that of a list is 1."""
    is_steep: bool = False
    """It grows faster than it needs to."""

    @property
    def excess(self) -> float:
        """The lower end of the exponent, above the expected one."""
        return -1.0 if self.exponent is None else self.exponent.low - self.expected


class MemoryCurve(_ScaleData):
    """The resident memory of a server while something grows; ``each``: the last bytes per one."""

    grows: Text
    points: list[tuple[Whole, Whole]]
    each: float | None = None


class ScaleServer(_ScaleData):
    """A server that was measured."""

    name: Text
    version: Text
    command: Text
    """The command that started it; empty if somebody else runs it."""
    unit: Text
    """The kind of its costs: CPU time, or time that passed."""
    curves: list[ScaleCurve]
    memory: list[MemoryCurve]
    findings: list[Text]
    violations: list[Text]
    missing: list[Text]
    """Commands that it does not have."""


class ScaleRatio(_ScaleData):
    """The cost of a command, by that of another server that was measured in turn."""

    grows: Text
    command: Text
    size: Whole
    ratio: Estimate


class Scale(_ScaleData):
    """A measurement of one server, or of one beside another."""

    format: Literal["beanstalk-conformance scale"] = "beanstalk-conformance scale"
    suite: SuiteRecord
    date: AwareDatetime
    seconds: Number
    servers: list[ScaleServer]
    ratios: list[ScaleRatio] = []
    """The costs of the first server by those of the second."""
    worse: list[Text] = []
    """Sentences about growth that is worse than the baseline."""
    unmeasured: list[Text] = []
    """Sizes that were not measured, and why."""
    is_interrupted: bool = False

    def encode(self) -> str:
        """Return the text of ``scale.json``."""
        return self.model_dump_json(indent=1, exclude_none=True) + "\n"


def read_scale(path: Path) -> Scale:
    """Return the measurements in a file; raises :class:`ResultsError`."""
    try:
        return Scale.model_validate_json(content_of(path))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"]) or "the file"
        raise ResultsError(f"{path} is no measurement of scale: {where}: {first['msg']}") from None


def strongest(curves: Iterable[ScaleCurve]) -> list[ScaleCurve]:
    """Return curves, those first that grow faster than they need to."""
    return sorted(curves, key=lambda curve: -curve.excess)


# ---------------------------------------------------------------- the page

BOX = PlotBox(650, 330, left=70, right=500, top=16, bottom=282)
"""The plot; the names of the lines are to its right."""
HUES = 8
_STYLES = ("Solid", "dashed", "dotted", "dashed and dotted")
"""The lines of the first servers, as ``scale.css`` has them."""
_NAME_STEP = 15


class ScaleLine(NamedTuple):
    """The line of a command; ``hue`` and ``dash`` tell commands and servers apart."""

    name: str
    points: list[tuple[float, float, str]]
    hue: int
    dash: int
    label_y: float | None


class ScalePlot(NamedTuple):
    """A plot with two logarithmic axes; ``box`` is where it is drawn."""

    title: str
    summary: str
    lines: list[ScaleLine]
    across: list[AxisTick]
    up: list[AxisTick]
    box: PlotBox = BOX


def scale_page(measurements: Sequence[Scale]) -> str:
    """Return the page of one or more measurements."""
    servers = [server for one in measurements for server in one.servers]
    ratios = [one for one in measurements if one.ratios]
    return page(
        "scale.html",
        [],
        styles=(*STYLES, "scale.css"),
        measurements=measurements,
        servers=servers,
        tables=[(server, strongest(server.curves)) for server in servers],
        plots=[*_plots(servers), *_memory_plots(servers)],
        heat=[_heat(one) for one in ratios],
    )


def _plots(servers: Sequence[ScaleServer]) -> Iterator[ScalePlot]:
    """Yield a plot for each thing that grows."""
    for grows in dict.fromkeys(curve.grows for server in servers for curve in server.curves):
        lines = [
            _Series(curve.command, number, [(point.size, point.cost) for point in curve.points])
            for number, server in enumerate(servers)
            for curve in server.curves
            if curve.grows == grows
        ]
        yield from _plot(f"{servers[0].unit} by {grows}", lines, servers, duration)


def _memory_plots(servers: Sequence[ScaleServer]) -> Iterator[ScalePlot]:
    lines = [
        _Series(curve.grows, number, curve.points)
        for number, server in enumerate(servers)
        for curve in server.memory
    ]
    yield from _plot("Memory", lines, servers, memory)


class _Series(NamedTuple):
    """Sizes and values; ``server`` is its number."""

    name: str
    server: int
    values: Sequence[tuple[int, float]]


def memory(size: float) -> str:
    """Return bytes as a reader says them."""
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= one:
            return f"{size / one:.3g} {unit}"
    return f"{size:.3g} B"


def _plot(
    title: str,
    lines: Sequence[_Series],
    servers: Sequence[ScaleServer],
    written: Callable[[float], str],
) -> Iterator[ScalePlot]:
    """Yield the plot of lines, if they have points; ``written``: a value in words."""
    points = [(size, value) for line in lines for size, value in line.values if size and value > 0]
    if not points:
        return
    sizes, values = zip(*points, strict=True)
    left, right = math.floor(math.log10(min(sizes))), math.ceil(math.log10(max(sizes)))
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    right, high = max(right, left + 1), max(high, low + 1)

    def across(size: float) -> float:
        part = (math.log10(size) - left) / (right - left)
        return round(BOX.left + (BOX.right - BOX.left) * part, 1)

    def up(value: float) -> float:
        part = (math.log10(value) - low) / (high - low)
        return round(BOX.bottom - (BOX.bottom - BOX.top) * part, 1)

    ends = {line.name: up(line.values[-1][1]) for line in reversed(lines) if line.values}
    places = dict(zip(ends, _apart([*ends.values()]), strict=True))
    hues = {name: number % HUES for number, name in enumerate(sorted(ends))}
    drawn = []
    for line in lines:
        marks = [
            (across(size), up(value), f"{line.name}: {written(value)} at {size:,}")
            for size, value in line.values
            if size and value > 0
        ]
        # The lines of a command on several servers share their name, and its place.
        place = places.pop(line.name, None)
        dash = line.server % len(_STYLES)
        drawn.append(ScaleLine(line.name, marks, hues.get(line.name, 0), dash, place))
    styles = zip(_STYLES, servers, strict=False)
    legend = "; ".join(f"{style}: {server.name}" for style, server in styles)
    yield ScalePlot(
        title,
        f"{written(min(values))} to {written(max(values))}."
        + (f" {legend}." if len(servers) > 1 else ""),
        drawn,
        [AxisTick(across(10.0**at), f"{10**at:,}") for at in range(left, right + 1)],
        [AxisTick(up(10.0**at), written(10.0**at)) for at in range(low, high + 1)],
    )


def _apart(ends: Sequence[float]) -> list[float]:
    """Return heights for labels, as near to these as they can be without covering each other."""
    places = [0.0] * len(ends)
    at = -math.inf
    for number in sorted(range(len(ends)), key=lambda number: ends[number]):
        at = max(at + _NAME_STEP, ends[number])
        places[number] = at
    over = max(0.0, at - BOX.bottom)
    return [round(place - over, 1) for place in places]


class HeatMap(NamedTuple):
    """The ratios of two servers: a row for each command and growth, a column for each size."""

    name: str
    other: str
    sizes: list[int]
    rows: list[tuple[str, list[tuple[str, int] | None]]]


_WARMTH = 3
"""Colours for ratios above 1, and for those below."""


def _heat(scale: Scale) -> HeatMap:
    first, second, *_ = scale.servers
    sizes = sorted({one.size for one in scale.ratios})
    found = {(one.grows, one.command, one.size): one for one in scale.ratios}
    rows = dict.fromkeys((one.grows, one.command) for one in scale.ratios)
    return HeatMap(
        first.name,
        second.name,
        sizes,
        [
            (f"{command}, {grows}", [_cell(found.get((grows, command, size))) for size in sizes])
            for grows, command in rows
        ],
    )


def _cell(one: ScaleRatio | None) -> tuple[str, int] | None:
    """Return a ratio, and how warm it is: 0 if it may be 1."""
    if one is None:
        return None
    warmth = 0
    if not one.ratio.low <= 1 <= one.ratio.high and one.ratio.value > 0:
        warmth = round(math.log2(one.ratio.value))
        warmth = max(-_WARMTH, min(_WARMTH, warmth))
    return f"{one.ratio.value:.2g}", warmth


def schema() -> dict[str, Any]:
    """Return the JSON Schema of ``scale.json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Scale.model_json_schema(mode="serialization"),
    }


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2))
