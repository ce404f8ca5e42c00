"""Exponents, their intervals, shapes and ratios, of costs that are made up."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from conformance.scale.growth import (
    CONSTANT,
    UNCLEAR,
    Costs,
    SizeCosts,
    fit,
    interval,
    ratio,
    typical,
)

SIZES = [10**power for power in range(1, 7)]
SHAPES: dict[str, tuple[Callable[[float], float], float]] = {
    CONSTANT: (lambda n: 10.0, 0.0),
    "log n": (lambda n: 5 + 2 * math.log(n), 0.06),
    "n": (lambda n: 20 + 0.01 * n, 1.0),
    "n log n": (lambda n: 20 + 0.1 * n * math.log(n), 1.07),
    "n²": (lambda n: 20 + 0.0001 * n * n, 2.0),
}


def noisy(cost: Callable[[float], float], seed: int, noise: float = 0.08) -> Costs:
    """Return costs as a machine shows them: never less than they are, and sometimes much more."""
    chance = random.Random(seed)

    def measured(size: float) -> float:
        busy = 3.0 if chance.random() < 0.1 else 1.0
        return cost(size) * (1 + abs(chance.gauss(0, noise))) * busy

    return [SizeCosts(size, [measured(size) for _ in range(8)]) for size in SIZES]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_a_growth_is_found_in_noise(shape: str, seed: int) -> None:
    cost, exponent = SHAPES[shape]
    found = fit(noisy(cost, seed))
    assert found is not None
    assert found.shape == shape
    assert found.exponent.low - 0.1 <= exponent <= found.exponent.high + 0.1
    assert found.exponent.high - found.exponent.low < 0.3
    assert found.factor.low < cost(SIZES[-1]) / cost(SIZES[0]) < found.factor.high * 1.1


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_the_speed_of_a_machine_does_not_matter(factor: float) -> None:
    costs = noisy(SHAPES["n"][0], 1)
    scaled = fit([SizeCosts(size, [factor * one for one in some]) for size, some, _ in costs])
    usual = fit(costs)
    assert scaled is not None
    assert usual is not None
    assert scaled.shape == usual.shape
    assert scaled.exponent == pytest.approx(usual.exponent)


def test_a_cost_that_falls_is_constant() -> None:
    found = fit([SizeCosts(size, [10 - math.log10(size)] * 3) for size in SIZES])
    assert found is not None
    assert (found.shape, found.exponent.value) == (CONSTANT, 0.0)


def test_too_few_sizes_give_no_exponent() -> None:
    assert fit([SizeCosts(10, [1.0]), SizeCosts(100, [2.0])]) is None


def test_noise_without_end_is_unclear() -> None:
    found = fit(
        [SizeCosts(10, [1.0, 1.1]), SizeCosts(100, [0.9, 3.0]), SizeCosts(1000, [1.5, 6.0])]
    )
    assert found is not None
    assert found.shape in (UNCLEAR, CONSTANT)


def test_a_ratio_has_an_interval_that_holds_it() -> None:
    chance = random.Random(1)
    one, other = ([base + abs(chance.gauss(0, 0.1)) for _ in range(20)] for base in (3.0, 1.0))
    found = ratio(SizeCosts(10, one), SizeCosts(10, other))
    busy = ratio(SizeCosts(10, one, 0.2), SizeCosts(10, other, 0.2))
    assert busy.low < found.low
    assert busy.high > found.high
    assert found.low < 3 < found.high
    assert found.low > 2.5
    assert found.high < 3.5


def test_what_else_a_machine_does_changes_no_typical_cost() -> None:
    assert typical([1.0, 1.0, 1.0, 50.0, 90.0]) == 1.0
    assert interval([1.0, 2.0, 3.0]) == (1.0, 1.0, 3.0)
