"""Faults that show only where there is much are found by the tests that make much of it."""

from __future__ import annotations

import pytest

from conformance.random_testing.budget import Budget
from reference_server.faults import FAULTS
from reference_server.faults.circumstances import BY_CIRCUMSTANCE
from reference_server.faults.sizes import BY_SIZE
from tests.faults import Case, failures, newest_with
from tests.servers import let_nobody_starve

FILES = {"circumstances", "queues", "repetition", "crowds", "slow_clients", "process", "numbers"}
"""The files of tests that make much, or look from outside."""


@pytest.fixture(autouse=True)
def in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make as much as the tests ask for, and judge it: on a busy machine, they might not."""

    def allows(budget: Budget, count: int = 0) -> bool:
        budget.begun += 1
        return True

    monkeypatch.setattr(Budget, "allows", allows)
    let_nobody_starve(monkeypatch)


@pytest.mark.parametrize("name", [*BY_SIZE, *BY_CIRCUMSTANCE])
def test_a_fault_is_found_by_the_tests_that_make_much(name: str) -> None:
    fault = FAULTS[name]

    def chosen(case: Case) -> bool:
        is_of_much = case.file.removeprefix("test_") in FILES
        return is_of_much and fault.requirement in case.slugs

    assert failures(fault, chosen, enough=1, profile=newest_with(fault.requirement))
