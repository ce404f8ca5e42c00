"""The requirement that a failing step of a test breaks."""

from __future__ import annotations

import pytest

from conformance.catalogue import catalogue
from conformance.usual_answers import key_requirement, usual_answer
from reference_server.profiles import PROFILES, Profile


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
def test_each_command_of_a_profile_has_a_usual_answer(profile: Profile) -> None:
    slugs = {verb: usual_answer(verb, profile) for verb in profile.commands}
    assert all(slugs.values()), slugs
    for slug in slugs.values():
        assert not catalogue()[slug].missing_in(profile.stage)


def test_a_key_of_statistics_belongs_to_its_own_requirement() -> None:
    assert key_requirement("stats-job", "state") == "stats-job.state"
    assert key_requirement("stats-tube", "unheard-of") == "stats-tube.ok"
    assert key_requirement("list-tubes", "unheard-of") == "list-tubes.all"
