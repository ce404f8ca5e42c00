"""Findings are minimised: fast, for a limited time, and without what shows nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import closing
from typing import cast

import pytest

from conformance.random_testing.delta_debugging import minimise
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.replay import Counterexample
from conformance.random_testing.shrink_budget import BUSY, ShrinkBudget
from conformance.random_testing.shrinking import TRY, Reducer
from conformance.random_testing.steps import Ask, Leave, Program, Step, Wait
from conformance.target.builtin import BuiltIn
from conformance.target.starvation import CpuTime
from reference_server.faults import FAULTS, Fault
from reference_server.model import Model
from reference_server.state import Job

SHOWS = (
    Ask(1, b"put 7 0 60 1\r\na\r\n", tag=1),
    Ask(1, b"reserve\r\n"),
    Ask(1, b"bury %d 9\r\n", job=1),
    Ask(1, b"kick 1\r\n"),
    Ask(1, b"peek-ready\r\n"),
    Ask(1, b"stats-job %d\r\n", job=1),
)


class Urgent(Model):
    """A job that is kicked loses its priority."""

    def _kick_one(self, job: Job) -> None:
        self._dequeue(job)
        job.pri = 0
        self._make_ready(job)


def _idle() -> CpuTime:
    return CpuTime(0.0, 0.0)


def _found(target: BuiltIn, exploration: Exploration, program: Program) -> Counterexample:
    found = exploration.replayed(target, program)
    assert found is not None
    return found


def test_all_findings_share_the_time_for_making_them_small() -> None:
    effort = ShrinkBudget(each=0.05, left=0.08)
    assert not effort.remaining
    for longest in (0.05, 0.03, 0.0):
        with effort.spent(_idle):
            assert effort.remaining <= longest + 0.001
            with effort.spent(_idle):
                time.sleep(0.05 * BUSY)
            # On a busy machine, it may last that much longer.
            assert not effort.remaining
        assert not effort.remaining


def test_the_time_that_the_target_waits_for_a_cpu_does_not_count() -> None:
    effort, waited = ShrinkBudget(each=60.0, left=60.0), iter((0.0, *[1000.0] * 9))
    with effort.spent(lambda: CpuTime(0.0, next(waited))):
        time.sleep(1)
    assert 60 - effort.left < 0.5


@pytest.mark.parametrize("more", [0, 60])
def test_a_finding_is_made_small_without_starting_the_target_for_each_try(
    more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    restarts: list[BuiltIn] = []
    tries: list[object] = []
    plain, replayed = BuiltIn.restart, Exploration.replayed

    def restarted(target: BuiltIn) -> None:
        restarts.append(target)
        plain(target)

    def counted(*args: object, **options: object) -> Counterexample | None:
        tries.append(args)
        return replayed(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(BuiltIn, "restart", restarted)
    monkeypatch.setattr(Exploration, "replayed", counted)
    exploration = Exploration(1)
    with closing(BuiltIn(fault=Fault("", "urgent", model=Urgent))) as target:
        others = [Ask(2 + number % 2, b"watch a\r\n") for number in range(more)]
        found = _found(target, exploration, [*SHOWS[:3], *others, *SHOWS[3:]])
        small = Reducer(exploration, target).smallest(found)
    asked = [step.text.split()[0] for step in small.program if isinstance(step, Ask)]
    assert asked == [b"put", b"reserve", b"bury", b"kick", b"stats-job"]
    assert len(tries) > 10
    assert len(restarts) < 10


def test_a_finding_that_depends_on_what_was_said_before_is_made_small() -> None:
    exploration = Exploration(1)
    with closing(BuiltIn(fault=FAULTS["every-seventh-job-is-not-kept"])) as target:
        puts = [Ask(1, b"put 0 0 60 1\r\na\r\n", tag=tag) for tag in range(1, 12)]
        peeks = [Ask(1, b"peek %d\r\n", job=tag) for tag in range(1, 12)]
        found = _found(target, exploration, [*puts, *peeks])
        small = Reducer(exploration, target).smallest(found)
        assert len(small.program) < len(found.program)
        assert exploration.replayed(target, small.program) is not None


@pytest.mark.parametrize("left", [0.0, 1.5 * TRY])
def test_nothing_is_tried_when_the_time_of_the_run_is_over(left: float) -> None:
    exploration = Exploration(1, effort=ShrinkBudget(left=left))
    with closing(BuiltIn(fault=Fault("", "urgent", model=Urgent))) as target:
        found = _found(target, exploration, SHOWS)
        target.restart = None  # type: ignore[method-assign, assignment]
        assert Reducer(exploration, target).smallest(found) is found


def test_a_finding_that_takes_too_long_to_be_seen_again_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float] = []

    def takes_long(*args: object) -> None:
        limits.append(cast(float, args[4]))

    exploration = Exploration(1, effort=ShrinkBudget(each=600.0))
    with closing(BuiltIn(fault=Fault("", "urgent", model=Urgent))) as target:
        found = _found(target, exploration, SHOWS)
        monkeypatch.setattr(Exploration, "replayed", takes_long)
        assert Reducer(exploration, target).smallest(found) is found
    assert len(limits) > len(SHOWS)
    assert math.inf not in limits


def test_time_that_passes_in_several_steps_passes_in_one() -> None:
    def waits(seconds: float) -> Callable[[Program], bool]:
        return lambda program: (
            seconds <= sum(step.seconds for step in program if isinstance(step, Wait))
        )

    several: list[Step] = [Wait(0.3) for _ in range(6)]
    assert minimise(several, waits(1.7)) == [Wait(1.8)]
    between: list[Step] = [Wait(1.001), Leave(1, half=True), *several]
    assert minimise(between, waits(2.0)) == [Wait(2.201)]


def test_an_id_that_makes_no_difference_is_left_out() -> None:
    ask = Ask(1, b"use 5%%\r\ndelete %d\r\n", job=0)

    def shows(program: Program) -> bool:
        return any(isinstance(step, Ask) and b"use 5%" in step.text for step in program)

    assert minimise([ask], shows) == [Ask(1, b"use 5%", apart=True)]


@pytest.mark.parametrize("line", [b"put\r\n", b"put 5\r\n", b"x\r\n", b"put 7 0 60 1x\r\na\r\n"])
def test_a_malformed_put_is_made_small_too(line: bytes) -> None:
    program = [Ask(1, line, tag=1, apart=True)]
    assert minimise(program, lambda smaller: smaller == program) == program
