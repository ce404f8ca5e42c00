"""The tests of the suite, tested: each requirement's tests find the faults that break it."""

from __future__ import annotations

import pytest

from conformance.durability.catalogue import requirements
from conformance.target.limits import USUAL
from reference_server.faults import FAULTS, Fault
from tests.faults import PATIENT, SILENCE, cases, caught, found_by_tests
from tests.parts import sample

SILENCES = (SILENCE, SILENCE, PATIENT, USUAL.reply)
"""Seconds after which a reply is missing: a busy machine may leave something undecided."""


def test_every_requirement_has_a_fault_and_every_fault_a_requirement() -> None:
    assert {fault.requirement for fault in found_by_tests().values()} == {
        slug for case in cases() for slug in case.slugs
    }
    assert {fault.requirement for fault in FAULTS.values()} <= {*requirements()}
    assert len(FAULTS) >= 250


@pytest.mark.parametrize("fault", sample([*found_by_tests().values()], 14, lambda it: it.name))
def test_a_fault_is_found_by_the_tests_of_its_requirement(fault: Fault) -> None:
    assert any(caught(fault, silence) for silence in SILENCES)
