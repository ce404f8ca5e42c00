"""Recorded programs: compared as a whole, and judged only where a target answers otherwise."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from conformance.random_testing.exploration import Exploration
from conformance.random_testing.replay import Counterexample
from conformance.random_testing.shrink_budget import ShrinkBudget
from conformance.small_worlds.recording import Turn
from conformance.target.builtin import BuiltIn
from conformance.target.target import Target
from fuzz import recorded_program
from fuzz.recorded_program import PROGRAMS, Recital, record, recorded_programs
from reference_server.faults import FAULTS, Fault
from reference_server.model import Model
from reference_server.profiles import NEWEST, PROFILES
from reference_server.state import Client
from reference_server.wire import Put

LIMIT = 120.0


def _run(target: Target) -> Counterexample | None:
    recital = Recital(target, Exploration(1, effort=ShrinkBudget(2.0)), time.monotonic() + LIMIT)
    return recital.run(recorded_programs(NEWEST)[:3])


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of turns that were judged again."""
    found: list[int] = []
    judge = Recital._judge

    def noted(self: Recital, turns: list[Turn]) -> Counterexample | None:
        found.append(len(turns))
        return judge(self, turns)

    monkeypatch.setattr(Recital, "_judge", noted)
    return found


def test_programs_are_the_same_each_time_and_end_without_clients_and_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorded_program, "PROGRAMS", 2)
    monkeypatch.setattr(recorded_program, "COMMANDS", 300)
    for profile in (PROFILES["1.4"], NEWEST):
        programs = record(profile)
        assert programs == record(profile)
        for program in programs:
            last = b"".join(program.turns[-2].replies.values())
            assert b"current-connections: 1\n" in last
            assert b"current-jobs-ready: 0\n" in last
            assert b"current-jobs-buried: 0\n" in last


def test_what_is_as_written_down_is_not_judged(judged: list[int]) -> None:
    assert len(recorded_programs(NEWEST)) == PROGRAMS
    with closing(BuiltIn()) as target:
        assert _run(target) is None
    assert not judged


class _BySevens(Model):
    """Gives every seventh id only."""

    def _put(self, conn: Client, put: Put) -> None:
        self.next_id += 6
        super()._put(conn, put)


def test_other_ids_are_no_violation(judged: list[int]) -> None:
    with closing(BuiltIn(fault=Fault("", "by sevens", model=_BySevens))) as target:
        assert _run(target) is None
    assert len(judged) == 1


def test_what_differs_is_judged_and_made_small(judged: list[int]) -> None:
    fault = FAULTS["kick-job-of-a-ready-job-succeeds"]
    with closing(BuiltIn(fault=fault)) as target:
        found = _run(target)
    assert judged
    assert found is not None
    assert len(found.program) < 300
