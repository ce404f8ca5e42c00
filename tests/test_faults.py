"""The tests of the suite, tested: each requirement's tests find the faults that break it."""

from __future__ import annotations

import pytest

from conformance.durability.catalogue import requirements
from reference_server.faults import FAULTS, NO_FAULT, Fault
from tests.faults import Case, cases, caught, failures, found_by_tests, part_of

FEW = 10
"""Random conversations of each kind: there are many of them where a fault is looked for."""

TRIES = 4
"""A busy machine may leave something undecided."""


def test_without_a_fault_nothing_fails_in_this_process() -> None:
    assert failures(NO_FAULT, lambda case: not _is_launched(case), enough=1, examples=FEW) == []


def test_without_a_fault_nothing_fails_in_a_process() -> None:
    """Another sixth of those tests each day, as each starts a server."""
    launched = part_of([case for case in cases() if _is_launched(case)], "today/6")
    assert failures(NO_FAULT, lambda case: case in launched, enough=1) == []


def _is_launched(case: Case) -> bool:
    return "resources" in case.arguments


def test_every_requirement_has_a_fault_and_every_fault_a_requirement() -> None:
    assert {fault.requirement for fault in found_by_tests().values()} == {
        slug for case in cases() for slug in case.slugs
    }
    assert {fault.requirement for fault in FAULTS.values()} <= {*requirements()}
    assert len(FAULTS) >= 250


# The others on the next nine days; `python -m tests.faults` has all.
@pytest.mark.parametrize(
    "fault", part_of([*found_by_tests().values()], "today/10"), ids=lambda it: it.name
)
def test_a_fault_is_found_by_the_tests_of_its_requirement(fault: Fault) -> None:
    assert any(caught(fault) for _ in range(TRIES))
