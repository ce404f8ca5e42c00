"""Faults that show only where there is much are found by the tests that make much."""

from __future__ import annotations

import pytest

from reference_server.faults import FAULTS
from reference_server.faults.sizes import BY_SIZE
from tests.faults import Case, failures, newest_with

FILES = {"queues", "repetition", "crowds", "slow_clients", "process", "numbers"}
"""The files of tests that make much, or look from outside."""

TRIES = 3


@pytest.mark.parametrize("name", BY_SIZE)
def test_a_fault_is_found_by_the_tests_that_make_much(name: str) -> None:
    fault = FAULTS[name]

    def chosen(case: Case) -> bool:
        file = case.test.__module__.rpartition(".test_")[2]
        return file in FILES and fault.requirement in case.slugs

    profile = newest_with(fault.requirement)
    # On a busy machine, there may be less of it than the fault needs.
    assert any(failures(fault, chosen, enough=1, profile=profile) for _ in range(TRIES))
