"""No false alarm: conforming servers that differ from beanstalkd pass at level must."""

from __future__ import annotations

import pytest

from conformance.catalogue import catalogue
from reference_server.faults import Fault
from reference_server.profiles import PROFILES
from tests.faults import Case, failures
from tests.variants import OF_OLD, VARIANTS


def _must(case: Case) -> bool:
    must = any(catalogue()[slug].level == "must" for slug in case.slugs)
    return must and "real_clock" not in case.arguments


@pytest.mark.parametrize(
    ("name", "variant"), [pytest.param(*old, id=f"{old[0]}: {old[1].summary}") for old in OF_OLD]
)
def test_a_variant_that_conforms_to_an_old_profile_passes(name: str, variant: Fault) -> None:
    profile = PROFILES[name]
    assert failures(variant, _must, enough=9, examples=3, strict=False, profile=profile) == []


@pytest.mark.parametrize("variant", [pytest.param(v, id=name) for name, v in VARIANTS.items()])
def test_a_variant_that_conforms_passes(variant: Fault) -> None:
    assert failures(variant, _must, enough=9, examples=3, strict=False) == []
