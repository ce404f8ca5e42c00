"""No false alarm: conforming servers that differ from beanstalkd pass at level must."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.catalogue import catalogue
from reference_server.faults import Fault
from reference_server.profiles import NEWEST, PROFILES, Profile
from tests.faults import Case, failures
from tests.variants import OF_OLD, VARIANTS

FREE = (
    "tubes vanish a tenth of a second late",
    "JOB_TOO_BIG when the line comes, the body skipped afterwards",
)
"""Variants that every beanstalkd might have become: not even de-facto requirements forbid them."""


def _must(profile: Profile) -> Callable[[Case], bool]:
    """Whether a test is about what a profile demands, and depends on no real clock."""

    def must(case: Case) -> bool:
        levels = {catalogue()[slug].judged_by(profile.name).level for slug in case.slugs}
        return "must" in levels and "real_clock" not in case.arguments

    return must


@pytest.mark.parametrize(
    ("name", "variant"), [pytest.param(*old, id=f"{old[0]}: {old[1].summary}") for old in OF_OLD]
)
def test_a_variant_that_conforms_to_an_old_profile_passes(name: str, variant: Fault) -> None:
    profile = PROFILES[name]
    assert (
        failures(variant, _must(profile), enough=9, examples=3, strict=False, profile=profile) == []
    )


@pytest.mark.parametrize("variant", [pytest.param(v, id=name) for name, v in VARIANTS.items()])
def test_a_variant_that_conforms_passes(variant: Fault) -> None:
    assert failures(variant, _must(NEWEST), enough=9, examples=3, strict=False) == []


@pytest.mark.parametrize("name", FREE)
def test_what_the_text_leaves_open_is_not_even_told(name: str) -> None:
    found = failures(
        VARIANTS[name], lambda case: "real_clock" not in case.arguments, enough=9, examples=3
    )
    assert found == []
