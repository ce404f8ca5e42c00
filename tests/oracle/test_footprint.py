"""Faults that a finding does not touch need not be tried on it."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from itertools import islice
from random import Random

import pytest

from conformance.oracle.reenactment import PreparedTranscript, reenacted
from conformance.oracle.used_parts import traced
from conformance.random_testing.exploration import Exploration
from conformance.reading import parse
from conformance.target.builtin import BuiltIn
from fuzz.campaign import MakesUp
from fuzz.corpus import Pool
from fuzz.hostile import Progress, cases
from fuzz.player import second_gear
from reference_server.faults import FAULTS
from reference_server.profiles import NEWEST, PROFILES, Profile

STEPS = 50
SHORT = r"""
A > release 01x 0 0\r\n
A < NOT_FOUND\r\n
"""


def spared(recording: PreparedTranscript, profile: Profile) -> list[str]:
    """Return the faults that are not met; fail if one changes anything."""
    plain, footprint = traced(recording, profile)
    names = [name for name, fault in FAULTS.items() if not footprint.meets(fault)]
    for name in names:
        assert reenacted(FAULTS[name], recording, profile) == plain, name
    return names


@pytest.mark.parametrize("makes_up", [second_gear, partial(cases, Pool(None), Progress())])
@pytest.mark.parametrize("name", ["0.6", NEWEST.name])
def test_faults_that_are_not_met_change_nothing(name: str, makes_up: MakesUp) -> None:
    profile = PROFILES[name]
    with closing(BuiltIn(profile)) as target:
        session = Exploration(1, profile=profile).session(target)
        for step in islice(makes_up(session, Random(1)), STEPS):
            session.take(step)
        session.finish()
        session.abandon()
    assert spared(PreparedTranscript.of(session.transcript.entries, profile, False), profile)


def test_few_faults_are_met_by_one_command() -> None:
    assert len(spared(PreparedTranscript.of(parse(SHORT).entries, NEWEST, False), NEWEST)) > 450


def test_a_line_that_a_fault_reads_otherwise_is_met() -> None:
    recording = PreparedTranscript.of(parse(r"A > kick 1x\r\n").entries, NEWEST, False)
    _, footprint = traced(recording, NEWEST)
    assert footprint.meets(FAULTS["kick-1x-is-malformed"])
    assert not footprint.meets(FAULTS["reserve-with-timeout-0-x-is-malformed"])
