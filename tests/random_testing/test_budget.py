"""Slow targets, and targets that begin with jobs of their own: random conversations fit in."""

from __future__ import annotations

import subprocess
import sys

import pytest

from conformance.random_testing.budget import Budget
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.leftovers import Leftovers
from conformance.verdict import Inconclusive, NotTestable
from tests.faults import Case, outcomes
from tests.machine import ThisMachine
from tests.variants.gallery import VARIANTS
from tests.variants.matrix import command


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> ThisMachine:
    return ThisMachine(monkeypatch)


def test_turns_end_with_the_budget(machine: ThisMachine) -> None:
    budget = Budget(1.0)
    for _ in budget.turns(30):
        machine.now += 0.125
    assert budget.begun == 8
    assert budget.shortfall(30, "programs") == "8 of 30 programs within the budget of 1 s"


@pytest.mark.parametrize(("seconds", "begun"), [(1.0, 4), (4.0, 2)])
def test_turns_go_on_until_they_are_enough_but_not_for_ever(
    seconds: float, begun: int, machine: ThisMachine
) -> None:
    budget = Budget(0.5)
    for _ in budget.turns(20):
        machine.now += seconds
    assert budget.begun == begun


def test_a_busy_machine_gets_more_time_but_not_for_ever(machine: ThisMachine) -> None:
    budget = Budget(1.0)
    budget.start()
    machine.now += 1.5
    assert not budget.allows()
    machine.kept = 0.5
    assert budget.allows()
    machine.kept, machine.now = 9.0, 105.0
    assert not budget.allows()


def test_all_turns_of_a_fast_target_fit_in() -> None:
    budget = Budget(60.0)
    assert list(budget.turns(3)) == [0, 1, 2]
    assert budget.shortfall(3, "programs") == ""


def test_what_is_found_gets_as_much_time_again_once() -> None:
    budget = Budget(0.0)
    budget.start()
    assert not budget.allows()
    budget.seconds = 60.0
    budget.found()
    assert budget.allows()
    budget.seconds = 0.0
    budget.found()
    assert budget.allows()


@pytest.mark.parametrize(("round_trip", "length"), [(0.0001, 50), (0.03, 13), (10.0, 10)])
def test_conversations_are_as_long_as_a_round_trip_allows(round_trip: float, length: int) -> None:
    assert Budget(20.0, round_trip).length(50, 25, 4) == length


def test_too_few_conversations_are_no_pass() -> None:
    exploration = Exploration(25, budget=Budget(20.0, begun=4))
    with pytest.raises(Inconclusive, match="reached only 4 of 25 programs within the budget"):
        exploration.shortfall(25, "programs")
    exploration.budget.begun = 5
    assert exploration.shortfall(25, "programs") == "5 of 25 programs within the budget of 20 s"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (b"delete 3\r\n", True),
        (b"put 0 0 0 2\r\nbb\0\0delete 1\r\n", True),
        (b"delete 4\r\n", False),
        (b"delete 7\r\n", False),
        (b"use theirs\r\n", True),
        (b"use mine\r\nkick 1\r\nput 0 0 1 1\r\na\r\n", False),
    ],
)
def test_what_was_there_before_is_let_alone(text: bytes, meant: bool) -> None:
    leftovers = Leftovers(frozenset((b"theirs",)), 0, first_id=7)
    assert leftovers.are_meant(text, own={4}) is meant


@pytest.mark.parametrize(
    ("name", "error"),
    [("begins-with-jobs-of-its-own", None), ("begins-with-a-job-in-default", NotTestable)],
)
def test_a_server_may_begin_with_jobs(name: str, error: type[Exception] | None) -> None:
    def is_random(case: Case) -> bool:
        return bool({"protocol.any-conversation", "protocol.any-program"} & case.slugs)

    came = [outcome.error for _, outcome in outcomes(VARIANTS[name], is_random, examples=10)]
    assert len(came) == 2
    assert [None if found is None else type(found) for found in came] == [error, error]


def test_a_slow_server_conforms_in_real_time() -> None:
    launch = command("replies-collected-for-30-milliseconds")
    asked = [f"--launch={launch}", "-q", "-p", "no:cacheprovider", "--beanstalk-examples=5"]
    asked += ["--pyargs", "conformance.tests.test_states", "conformance.tests.test_overlap"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *asked], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "as a round trip takes" in done.stdout
    assert "incomplete: no deviation in the " in done.stdout
