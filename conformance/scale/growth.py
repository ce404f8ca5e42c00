"""The growth of a cost with a size: a curve through measurements, its exponent, intervals.

The curve is ``a + b * size ** k``, with neither ``a`` nor ``b`` negative: a part that is the same
for any size, such as a system call, and one that grows. Its slope on logarithmic axes, at a size,
is the exponent there: doubling the size makes the cost ``2 ** exponent`` times as large. Unlike
``k`` itself it is well defined if nothing grows: then it is 0. Its interval comes from a
bootstrap: the same fit for many samples drawn from the measurements.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class SizeCosts(NamedTuple):
    """The costs at a size, all of them positive.

    ``noise``: the part of a cost by which runs differ, though all repetitions of one may agree.
    """

    size: float
    costs: Sequence[float]
    noise: float = 0.03


Costs = Sequence[SizeCosts]
FEWEST = 3
"""Sizes that a curve needs."""
_POWERS = [step / 10 for step in range(1, 26)]
_DRAWS = 200
_SPREAD = 0.025
"""The share of the draws that is left out at either end of an interval."""
_SHAPES: dict[str, Callable[[float], float]] = {
    "log n": lambda size: math.log(size + 1),
    "n": lambda size: size,
    "n log n": lambda size: size * math.log(size + 1),
    "n²": lambda size: size * size,
}
_FLAT = 1.3
"""A cost that becomes no more than so many times as large is constant: caches do that."""
_TIE = 0.15
"""By how much a shape must fit better than a simpler one, as a part of the cost."""
_LITTLE, _VAGUE = 0.2, 0.5
"""The low end and the width of an interval that leave open whether a cost grows much."""
CONSTANT, UNCLEAR = "constant", "unclear"


class Interval(NamedTuple):
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


class Curve(NamedTuple):
    """A cost: ``fixed + growing * (size / largest) ** power``."""

    fixed: float
    growing: float
    power: float
    largest: float

    def exponent(self, size: float) -> float:
        """Return the slope on logarithmic axes."""
        part: float = self.growing * (size / self.largest) ** self.power
        return self.power * part / (self.fixed + part) if part else 0.0


class Fit(NamedTuple):
    """The growth of a cost: its curves, the drawn ones last, and the shape that is nearest.

    ``exponent``: at the largest size; ``factor``: the cost there, by that at the smallest.
    """

    curves: Sequence[Curve]
    shape: str
    exponent: Interval
    factor: Interval


def interval(values: Iterable[float]) -> Interval:
    """Return an estimate, the first value, with the interval of those that were drawn."""
    first, *drawn = values
    drawn.sort()
    cut = int(len(drawn) * _SPREAD)
    return Interval(first, min(first, drawn[cut]), max(first, drawn[-1 - cut]))


def fit(costs: Costs, seed: str = "") -> Fit | None:
    """Return how costs grow; None if they are of too few sizes. The sizes ascend."""
    if len(costs) < FEWEST:
        return None
    sizes = [one.size for one in costs]
    usual = [typical(one.costs) for one in costs]
    solvers = [_Solver.of(sizes, usual, power) for power in _POWERS]
    drawn = list(_draws(costs, seed))
    curves = [_best(solvers, values, sizes[-1]) for values in (usual, *drawn)]
    factor = interval(values[-1] / values[0] for values in (usual, *drawn))
    exponent = interval(curve.exponent(sizes[-1]) for curve in curves)
    if factor.value <= _FLAT or factor.low <= 1:
        shape = CONSTANT
    elif exponent.low < _LITTLE and exponent.high - exponent.low > _VAGUE:
        shape = UNCLEAR
    else:
        shape = _shape(sizes, usual)
    return Fit(curves, shape, exponent, factor)


def typical(costs: Sequence[float]) -> float:
    """Return the lower quartile: whatever else the machine does only makes costs larger."""
    return sorted(costs)[len(costs) // 4]


def ratio(measured: SizeCosts, others: SizeCosts, seed: str = "") -> Interval:
    """Return how many times as large costs are as others, which were measured in turn with them."""
    costs = [others, measured]
    usual = [typical(one.costs) for one in costs]
    return interval(values[1] / values[0] for values in (usual, *_draws(costs, seed)))


def _draws(costs: Costs, seed: str) -> Iterable[list[float]]:
    """Yield typical costs of each size, as they might have been measured as well."""
    chance = random.Random(seed)
    for _ in range(_DRAWS):
        yield [
            typical(chance.choices(one.costs, k=len(one.costs)))
            * math.exp(chance.gauss(0, one.noise))
            for one in costs
        ]


class _Solver(NamedTuple):
    """The least squares of relative errors for one shape; its sums do not depend on the costs."""

    weights: Sequence[float]
    heights: Sequence[float]
    fixed_row: Sequence[float]
    growing_row: Sequence[float]

    @classmethod
    def of(cls, sizes: Sequence[float], usual: Sequence[float], power: float) -> _Solver:
        heights = [(size / sizes[-1]) ** power for size in sizes]
        return cls.weighted(heights, [1 / cost**2 for cost in usual])

    @classmethod
    def weighted(cls, heights: Sequence[float], weights: Sequence[float]) -> _Solver:
        pairs = list(zip(weights, heights, strict=True))
        one, first, second = (sum(w * h**power for w, h in pairs) for power in range(3))
        det = one * second - first * first or math.inf
        return cls(
            weights,
            heights,
            [w * (second - h * first) / det for w, h in pairs],
            [w * (h * one - first) / det for w, h in pairs],
        )

    def solve(self, costs: Sequence[float]) -> tuple[float, float, float]:
        """Return the weighted squares of the errors, and both parts of the best curve."""
        fixed = sum(map(float.__mul__, self.fixed_row, costs))
        growing = sum(map(float.__mul__, self.growing_row, costs))
        if growing <= 0:
            weighted = sum(map(float.__mul__, self.weights, costs))
            fixed, growing = weighted / sum(self.weights), 0.0
        elif fixed < 0:
            squares = [w * h for w, h in zip(self.weights, self.heights, strict=True)]
            over = sum(w * h for w, h in zip(squares, self.heights, strict=True))
            fixed, growing = 0.0, sum(map(float.__mul__, squares, costs)) / over
        errors = zip(self.weights, self.heights, costs, strict=True)
        return sum(w * (c - fixed - growing * h) ** 2 for w, h, c in errors), fixed, growing


def _best(solvers: Sequence[_Solver], costs: Sequence[float], largest: float) -> Curve:
    solved = [(*solver.solve(costs), power) for solver, power in zip(solvers, _POWERS, strict=True)]
    _, fixed, growing, power = min(solved)
    return Curve(fixed, growing, power, largest)


def _shape(sizes: Sequence[float], usual: Sequence[float]) -> str:
    """Return the name of the shape that is nearest; the first of them if several are as near."""
    errors = {}
    for name, height in _SHAPES.items():
        heights = [height(size) / height(sizes[-1]) for size in sizes]
        _, fixed, growing = _Solver.weighted(heights, [1 / cost**2 for cost in usual]).solve(usual)
        curve = [fixed + growing * one for one in heights]
        squares = [math.log(one / cost) ** 2 for one, cost in zip(curve, usual, strict=True)]
        errors[name] = math.sqrt(sum(squares) / len(squares))
    return next(name for name in errors if errors[name] <= min(errors.values()) + _TIE)
