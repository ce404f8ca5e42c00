"""Observations: made once, however many ask for what a report carries."""

from __future__ import annotations

import pytest

from conformance.run.observation import Observation, observation_of
from conformance.run.options import Options
from conformance.run.suite import Suite
from reports import results
from reports.verdicts import Verdict


def _report(observation: Observation, when: str = "call") -> pytest.TestReport:
    properties = observation.properties()
    place = ("file", 1, "test")
    return pytest.TestReport("test", place, {}, "passed", None, when, user_properties=properties)  # type: ignore[arg-type]


def test_an_observation_is_decoded_once() -> None:
    suite = Suite(Options(None, None, "auto", 0.25), distributed=False)
    test = results.Test(
        id="test",
        requirements=["put.inserted"],
        verdict=Verdict.PASS,
        reason="",
        seconds=0,
        known=False,
    )
    carried = Observation(test, suite.identity())
    suite.close()
    report = _report(carried)
    assert observation_of(report) == carried
    assert observation_of(report) is observation_of(report)
    assert "observation" not in vars(report)
    assert observation_of(_report(carried, "setup")) is None


def test_a_target_is_identified_once() -> None:
    suite = Suite(Options(None, None, "auto", 0.25), distributed=False)
    first = suite.identity()
    assert suite.identity() is first
    suite.release()
    assert suite.identity() is not first
    suite.close()
