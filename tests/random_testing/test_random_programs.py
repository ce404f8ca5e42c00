"""Random programs that the oracle judges: none is a false alarm, and each fault is found."""

from __future__ import annotations

from functools import partial

import pytest

from conformance.random_testing.exploration import Exploration
from conformance.target.builtin import BuiltIn
from conformance.target.launched_target import LaunchedTarget
from conformance.target.limits import Limits
from conformance.target.target import Target
from fuzz.campaign import ProgramCampaign
from fuzz.player import second_gear
from reference_server.faults import FAULTS
from reference_server.profiles import NEWEST, PROFILES, Profile
from tests.parts import sample
from tests.servers import BEANSTALKD_COMMAND, needs_beanstalkd, needs_faketime

PROGRAMS = 6


def _explore(target: Target, profile: Profile, seed: int, brisk: bool = False) -> None:
    exploration = Exploration(PROGRAMS, seed, profile=profile)
    finding = ProgramCampaign(exploration, target, partial(second_gear, brisk=brisk)).run(PROGRAMS)
    target.close()
    if finding is not None:
        transcript = finding.transcript.render(finding.violation.mark)
        raise AssertionError(f"{finding.violation}\n{transcript}")
    # Too many possible states are no verdict, but they must be rare.
    assert exploration.undecided <= 1


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_on_the_reference_server(seed: int) -> None:
    _explore(BuiltIn(), NEWEST, seed)


@needs_beanstalkd
@needs_faketime
@pytest.mark.parametrize("seed", range(4))
def test_random_programs_on_beanstalkd(seed: int) -> None:
    _explore(LaunchedTarget(BEANSTALKD_COMMAND, "fake"), PROFILES["1.12"], seed)


@needs_beanstalkd
@pytest.mark.parametrize("seed", sample(range(2), 2))
def test_fast_random_programs_on_beanstalkd(seed: int) -> None:
    _explore(LaunchedTarget(BEANSTALKD_COMMAND, "real"), PROFILES["1.12"], seed, brisk=True)


@pytest.mark.parametrize(
    "fault",
    [
        *("use-names-the-tube-used-before", "reserve-job-takes-jobs-of-watched-tubes-only"),
        *("the-last-watched-tube-can-be-ignored", "a-peek-counts-as-a-reservation"),
        *("stats-job-lacks-age", "only-the-first-watched-tube-is-served"),
    ],
)
def test_random_programs_find_faults_and_make_them_small(fault: str) -> None:
    server = BuiltIn(fault=FAULTS[fault], limits=Limits(reply=1.0))
    finding = ProgramCampaign(Exploration(40), server).run(40)
    server.close()
    assert finding is not None
    assert len(finding.program) <= 6
