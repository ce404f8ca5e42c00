"""The fuzzer does not take long with a server that hangs, or fails already."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from conformance.random_testing.effort import Effort
from conformance.random_testing.exploration import Exploration
from conformance.target.builtin import BuiltIn
from conformance.target.limits import Limits
from conformance.target.silences import FEWER, NOISE
from fuzz import undefined_input
from fuzz.corpus import Pool
from fuzz.fuzzer import Fuzzer
from fuzz.undefined_input import ACTIONS, EVERY, Action, Survival, survives
from reference_server.faults import FAULTS
from tests.servers import silent_at

FULL = 2.0


def _seconds_to_miss(target: BuiltIn) -> float:
    begun = time.monotonic()
    wrong = survives(target, [Action(1, b"x\r\n")]).wrong
    assert wrong is not None
    assert wrong.startswith("the target hangs")
    return time.monotonic() - begun


def test_others_who_are_not_served_are_waited_for_in_full_once() -> None:
    limits = Limits(reply=FULL, alive=FULL)
    with closing(BuiltIn(fault=silent_at("list-tube-used"), limits=limits)) as target:
        assert _seconds_to_miss(target) > 2 * FULL
        # A busy machine may take longer to tell.
        assert any(_seconds_to_miss(target) < FULL for _ in range(5))


def test_who_is_slow_with_others_after_a_hang_has_not_hung_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_late(*_: object) -> None:
        raise TimeoutError("timed out")

    monkeypatch.setattr(undefined_input, "ask", is_late)
    with closing(BuiltIn()) as target:
        wrong = survives(target, [Action(1, b"x\r\n")]).wrong
        assert wrong == "somebody else was not served: timed out"
        target.learnt.silences.hung(b"kick 1", 1.0)
        wrong = survives(target, [Action(1, b"x\r\n")]).wrong
        assert wrong is None
        # Any hang is one after noise, too.
        assert target.learnt.silences.patience_after(NOISE, FULL) == FULL / FEWER


@pytest.mark.parametrize("needs", [1, 2, 25])
def test_of_many_actions_the_last_are_looked_at_first(
    monkeypatch: pytest.MonkeyPatch, needs: int
) -> None:
    done = [Action(1, b"kick %d\r\n" % number) for number in range(ACTIONS)]
    due, plays = done[100 : 100 + needs], []

    def survives(_: object, played: list[Action], every: int = EVERY) -> Survival:
        plays.append(played)
        if not {*due} <= {*played}:
            return Survival(None, 0.0, len(played))
        # It is seen when somebody else wants a reply.
        seen = -(-(played.index(due[-1]) + 1) // every) * every
        return Survival("the target hangs", 0.0, min(seen, len(played)))

    monkeypatch.setattr(undefined_input, "survives", survives)
    with closing(BuiltIn()) as target:
        exploration = Exploration(1, effort=Effort(each=600.0))
        fuzzer = Fuzzer(exploration, target, Pool(), to_first_failure=True)
        fuzzer._go_wild(done)
        fuzzer.close()
    (filed,) = fuzzer.report.found
    assert filed.is_wild
    assert [entry.data for entry in filed.transcript.entries] == [action.data for action in due]
    assert len(plays) < (12 if needs < EVERY else 200)


def test_nothing_is_looked_for_behind_the_first_failure() -> None:
    with closing(BuiltIn(fault=FAULTS["ids-may-be-hexadecimal"])) as target:
        exploration = Exploration(1, 3, profile=target.probe())
        report = Fuzzer(exploration, target, Pool(), to_first_failure=True).run(600)
    *before, last = (filed.diagnosis.de_facto for filed in report.found)
    assert (all(before), last) == (True, False)
