"""The results of a campaign: as data, and as the table that a terminal shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.run.report_writer import now, this_suite
from conformance.scale import growth
from conformance.scale.baseline import Known, compared, key
from conformance.scale.growth import FEWEST
from conformance.scale.histogram import Histogram
from conformance.scale.measuring import CostPoint, GrowthCosts, ScaleCampaign, Subject
from conformance.scale.workloads import Growth
from reports import scale as format
from reports.plots import duration
from reports.scale import memory, strongest
from reports.words import counted

STEEP, LEAST_FACTOR = 0.4, 2.0
"""By how much an exponent must exceed the one to be expected, and the least factor of a cost."""
LEAK, LEAST_LEAK = 16.0, 2**18
"""Bytes for each job of the past that must not be kept, and bytes that may be kept in all."""
_SHOWN = 25
"""Curves of a server that a terminal shows, those first that grow fastest."""


def measured_server(subject: Subject) -> format.ScaleServer:
    """Return what was measured of a server."""
    curves = [
        _curve(grows, name, measured)
        for grows, measured in subject.measured.items()
        for name in measured.points
    ]
    memories = [_memory(grows, one) for grows, one in subject.measured.items() if one.memory]
    return format.ScaleServer(
        name=subject.name,
        version=subject.version,
        command=subject.command,
        unit=subject.unit,
        curves=[curve for curve in curves if curve.points],
        memory=memories,
        findings=[*_steep(curves), *_leaks(memories)],
        violations=[one for m in subject.measured.values() for one in m.violations],
        missing=sorted(subject.missing),
    )


def _curve(grows: Growth, name: str, measured: GrowthCosts) -> format.ScaleCurve:
    costs = measured.costs(name)
    expected = measured.expected[name]
    found = growth.fit(costs, key(name, grows))
    points = [
        _point(round(one.size), growth.typical(one.costs), measured.points[name][round(one.size)])
        for one in costs
    ]
    if found is None:
        return format.ScaleCurve(grows=grows, command=name, points=points, expected=expected)
    is_steep = found.exponent.low > expected + STEEP and found.factor.low > LEAST_FACTOR
    return format.ScaleCurve(
        grows=grows,
        command=name,
        points=points,
        shape=found.shape,
        exponent=estimate(found.exponent),
        factor=estimate(found.factor),
        expected=expected,
        is_steep=is_steep,
    )


def estimate(interval: growth.Interval) -> format.Estimate:
    """Return an interval as results have it."""
    return format.Estimate(**{name: round(one, 4) for name, one in interval._asdict().items()})


def _point(size: int, cost: float, point: CostPoint) -> format.ScalePoint:
    rate = None if point.is_limited_by_us else sorted(point.rates)[len(point.rates) // 2]
    return format.ScalePoint(
        size=size,
        cost=cost,
        throughput=rate and round(rate, 1),
        latency=_latency(point.latencies) if point.latencies.count else None,
    )


def _latency(latencies: Histogram) -> format.Latency:
    return format.Latency(
        count=latencies.count,
        p50=latencies.quantile(0.5),
        p99=latencies.quantile(0.99),
        p999=latencies.quantile(0.999),
        longest=latencies.longest,
    )


def _memory(grows: Growth, measured: GrowthCosts) -> format.MemoryCurve:
    points = list(measured.memory.items())
    each = None
    if len(points) > 1:
        (size, before), (larger, after) = points[-2:]
        each = round((after - before) / (larger - size), 2)
    return format.MemoryCurve(grows=grows, points=points, each=each)


def _steep(curves: Sequence[format.ScaleCurve]) -> Iterator[str]:
    """Yield a sentence for each thing with which commands grow too fast; one cause may have all."""
    steep = [curve for curve in strongest(curves) if curve.is_steep]
    for grows in dict.fromkeys(curve.grows for curve in steep):
        first, *others = [curve for curve in steep if curve.grows == grows]
        least, most = first.points[0], first.points[-1]
        also = f"; so do {', '.join(curve.command for curve in others)}" if others else ""
        yield (
            f"{first.command} grows with {grows} as {first.shape}: {duration(least.cost)} at"
            f" {least.size:,}, {duration(most.cost)} at {most.size:,}; exponent"
            f" {first.exponent}{also}"
        )


def _leaks(memories: Sequence[format.MemoryCurve]) -> Iterator[str]:
    for one in memories:
        grown = one.points[-1][1] - one.points[0][1]
        if one.grows == Growth.PAST and one.each and one.each > LEAK and grown > LEAST_LEAK:
            yield f"{one.each:.0f} bytes are kept for each job that was put and deleted"


def ratios(first: Subject, second: Subject) -> list[format.ScaleRatio]:
    """Return the costs of a server by those of another, at all sizes that both have."""
    found = []
    for grows, measured in first.measured.items():
        other = second.measured.get(grows, GrowthCosts())
        for name, points in measured.points.items():
            for size, point in points.items():
                beside = other.points.get(name, {}).get(size)
                if beside is not None and point.costs and beside.costs:
                    costs = [
                        growth.SizeCosts(size, one.costs, one.noise) for one in (point, beside)
                    ]
                    ratio = growth.ratio(costs[0], costs[1], key(name, grows))
                    found.append(
                        format.ScaleRatio(
                            grows=grows, command=name, size=size, ratio=estimate(ratio)
                        )
                    )
    return found


def results(campaign: ScaleCampaign, known: Known, is_interrupted: bool) -> format.Scale:
    """Return the results of a campaign, compared with known growth."""
    first, *others = campaign.subjects
    beside = ratios(first, others[0]) if others else []
    worse, left = compared(known, first.measured, beside) if known else ([], [])
    return format.Scale(
        suite=this_suite(),
        date=now(),
        seconds=round(campaign.seconds, 1),
        servers=[measured_server(subject) for subject in campaign.subjects],
        ratios=beside,
        worse=worse,
        unmeasured=[*campaign.unmeasured, *left],
        is_interrupted=is_interrupted,
    )


def lines(scale: format.Scale) -> Iterator[str]:
    """Yield what a terminal shows."""
    for server in scale.servers:
        yield from _server(server)
    yield from _ratios(scale)
    yield from (f"worse than the baseline: {one}" for one in scale.worse)
    yield from (f"not measured: {one}" for one in scale.unmeasured)


def _server(server: format.ScaleServer) -> Iterator[str]:
    yield f"{server.name} {server.version}: {server.unit} of commands"
    curves = [curve for curve in strongest(server.curves) if curve.exponent]
    if curves:
        titles = f"{'what grows':<35} {'growth':<9} {'exponent':<20} {'cost':<19} p50, p99"
        yield f"  {'command':<18} {titles}"
    for curve in curves[:_SHOWN]:
        first, last = curve.points[0], curve.points[-1]
        cost = f"{duration(first.cost)} → {duration(last.cost)}"
        quantiles = [last.latency.p50, last.latency.p99] if last.latency else []
        late = ", ".join(duration(one) for one in quantiles if one is not None)
        yield (
            f"{'! ' if curve.is_steep else '  '}{curve.command:<18}"
            f" {f'{curve.grows} to {last.size:,}':<35} {curve.shape:<9} {curve.exponent!s:<20}"
            f" {cost:<19} {late}"
        )
    if (left := len(curves) - _SHOWN) and left > 0:
        yield f"  and {counted(left, 'curve')} that grow less"
    if short := sum(curve.exponent is None for curve in server.curves):
        yield f"  no exponent of {counted(short, 'curve')}: measured at fewer than {FEWEST} sizes"
    limited = sum(point.throughput is None for curve in server.curves for point in curve.points)
    if limited:
        yield (
            f"  no throughput at {counted(limited, 'point')}: there, sending and receiving took us"
            " longer than the server"
        )
    each = [
        f"{memory(one.each)} for each of the {one.grows}"
        for one in server.memory
        if one.each is not None and one.each >= 1 and one.grows != Growth.BODY
    ]
    if each:
        yield f"  memory: {', '.join(each)}"
    if server.missing:
        yield f"  not measured, as the server lacks them: {', '.join(server.missing)}"
    yield from (f"  finding: {finding}" for finding in server.findings)
    yield from (f"  WRONG: {violation}" for violation in server.violations)


def _ratios(scale: format.Scale) -> Iterator[str]:
    if not scale.ratios:
        return
    first, second, *_ = scale.servers
    yield f"costs of {first.name} by those of {second.name}"
    largest = {(one.command, one.grows): one for one in scale.ratios}
    ordered = sorted(largest.values(), key=lambda one: -one.ratio.low)
    for one in ordered[:_SHOWN]:
        yield f"  {one.command:<18} {f'{one.grows} at {one.size:,}':<35} {one.ratio}"
    if (left := len(ordered) - _SHOWN) > 0:
        yield f"  and {counted(left, 'ratio')} that are less"
