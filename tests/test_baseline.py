"""Baselines: what they may hold, what they cover, and what is told of their changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.run.baseline import (
    BaselineError,
    KnownDeviation,
    changes,
    read_baseline,
    shipped,
)
from reports.verdicts import Verdict


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[\n", "is not YAML: line 2, column 1: "),
        ("put.inserted: {verdict: fail\nreason x", "is not YAML: line "),
        ("put.inserted: {verdict: fail, reason: x, flaky: often}", "flaky is true or false"),
        ("- a", "is not a dictionary of requirements"),
        (
            "no.such-thing: {verdict: fail, reason: x}",
            "lists an unknown requirement: no.such-thing",
        ),
        ("put.inserted: {verdict: pass, reason: x}", "put.inserted needs a verdict"),
        ("put.inserted: {verdict: fail}", "put.inserted needs a reason"),
        (
            "put.inserted: {verdict: fail, reason: x, colour: red, size: 1}",
            "put.inserted takes the keys flaky, link, observed, reason, verdict, not colour, size",
        ),
        (
            "put.inserted: {verdict: fail, reason: x}\nput.inserted: {verdict: fail, reason: y}",
            "line 2: 'put.inserted' is there twice",
        ),
        (
            "put.inserted:\n  verdict: fail\n  reason: x\n  reason: y",
            "line 4: 'reason' is there twice",
        ),
    ],
)
def test_a_baseline_that_cannot_be_used(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "baseline.yaml"
    file.write_text(text)
    with pytest.raises(BaselineError) as caught:
        read_baseline(file)
    assert str(caught.value).startswith(f"the baseline {file}")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("verdict", "flaky", "covers"),
    [
        *(("fail", False, {"fail"}), ("fail", True, {"fail", "non-strict"})),
        *(("non-strict", False, {"non-strict"}), ("non-strict", True, {"non-strict"})),
    ],
)
def test_which_verdicts_a_known_deviation_covers(
    verdict: str, flaky: bool, covers: set[str]
) -> None:
    known = KnownDeviation(verdict, "it lies", flaky=flaky)
    assert {verdict for verdict in Verdict if known.covers(verdict)} == covers


def test_what_has_changed_in_a_baseline_is_told() -> None:
    old = {slug: KnownDeviation("fail", "x") for slug in ("a", "b", "c")}
    many = {str(number): KnownDeviation("fail", "x") for number in range(7)}
    assert changes(
        old, {"b": KnownDeviation("non-strict", "x"), "c": KnownDeviation("fail", "y", "z"), **many}
    ) == ("9 known deviations; 7 added: 0, 1, 2, 3, 4, …; 1 removed: a; 1 with another verdict: b")
    assert changes(old, old) == "3 known deviations; no verdict has changed"


def test_the_baselines_that_we_have_are_found_by_version() -> None:
    path = shipped("1.12")
    assert path is not None
    assert read_baseline(path)
    for version in ("", "unknown", "9.9", "../baselines/beanstalkd-1.12", "1.12\n"):
        assert shipped(version) is None
