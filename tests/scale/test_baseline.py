"""A baseline of growth: what is worse than it, what is not, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.run.baseline import BaselineError
from conformance.scale.baseline import KnownGrowth, as_known, compared, read_known, write_known
from conformance.scale.measuring import Subject
from conformance.scale.results import measured_server, ratios
from conformance.scale.workloads import Growth
from reference_server.model import Model
from reports.scale import Estimate, ScaleRatio
from tests.scale.cost_faults import BuriedJobsAreCounted
from tests.scale.counted_server import subject

KICK = "kick, buried jobs"


@pytest.fixture(scope="module")
def usual() -> Subject:
    return subject(Growth.BURIED, command="kick", largest=270)


@pytest.fixture(scope="module")
def slow() -> Subject:
    return subject(Growth.BURIED, BuriedJobsAreCounted, "kick", 270)


def known(measured: Subject) -> dict[str, KnownGrowth]:
    return as_known(measured_server(measured), [])


def test_the_same_server_is_not_worse_than_its_baseline(usual: Subject, slow: Subject) -> None:
    for one in (usual, slow):
        assert compared(known(one), one.measured, []) == ([], [])


def test_a_cost_that_grows_faster_is_worse_and_one_that_grows_slower_is_not(
    usual: Subject, slow: Subject
) -> None:
    worse, left = compared(known(usual), slow.measured, [])
    assert left == []
    assert len(worse) == 1
    assert worse[0].startswith(f"{KICK}: the exponent is 0.")
    assert compared(known(slow), usual.measured, []) == ([], [])


def test_the_same_sizes_are_compared_whatever_else_was_measured(slow: Subject) -> None:
    less = subject(Growth.BURIED, BuriedJobsAreCounted, "kick", 90)
    # An exponent near 1 shows only at larger sizes.
    assert compared(known(less), slow.measured, []) == ([], [])
    worse, left = compared(known(slow), less.measured, [])
    assert worse == []
    assert left == [f"{KICK}: not measured up to 270, as in the baseline"]


def test_what_a_baseline_lacks_is_named(usual: Subject) -> None:
    assert compared({}, usual.measured, []) == ([], [f"{KICK}: not in the baseline"])


def ratio(value: float) -> ScaleRatio:
    estimate = Estimate(value=value, low=value * 0.9, high=value * 1.1)
    return ScaleRatio(grows="buried jobs", command="kick", size=270, ratio=estimate)


def test_a_ratio_that_becomes_larger_is_worse(usual: Subject) -> None:
    before = as_known(measured_server(usual), [ratio(1.0)])
    assert compared(before, usual.measured, [ratio(1.2)])[0] == []
    worse, _ = compared(before, usual.measured, [ratio(1.6)])
    assert worse == [f"{KICK}: the ratio is 1.60 [1.44, 1.76], it was at most 1.10"]


def test_servers_that_are_alike_have_a_ratio_of_one(usual: Subject, slow: Subject) -> None:
    again = subject(Growth.BURIED, Model, "kick", 270)
    same = ratios(usual, again)
    assert {one.size for one in same} == {10, 30, 90, 270}
    assert all(one.ratio.low < 1 < one.ratio.high for one in same)
    assert ratios(slow, usual)[-1].ratio.low > 2


def test_a_baseline_is_read_as_it_was_written(tmp_path: Path, usual: Subject) -> None:
    file = tmp_path / "known.yaml"
    write_known(file, known(usual))
    assert read_known(file) == known(usual)
    write_known(file, {})
    assert read_known(file) == {}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[1, 2]", "dictionary"),
        ("a: b: c", "is not YAML"),
        ("\x00", "is not YAML"),
        ("kick: {largest: 10}", "Field required"),
        ("kick: {largest: 0, exponent: 1, high: 1, factor_high: 1}", "greater than or equal"),
        ("kick: {largest: 10, exponent: .nan, high: 1, factor_high: 1}", "finite number"),
        ("kick: {largest: 10, exponent: 1, high: 1, factor_high: 1, more: 1}", "not permitted"),
        ("a: 1\na: 2", "twice"),
        ("[" * 5000, "is not YAML"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "known.yaml"
    file.write_text(text)
    with pytest.raises(BaselineError, match=sentence):
        read_known(file)


def test_a_baseline_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="cannot read the baseline"):
        read_known(tmp_path / "known.yaml")
    with pytest.raises(BaselineError, match="cannot write the baseline"):
        write_known(tmp_path / "no" / "known.yaml", {})
