"""The fuzzer does not take long with a server that hangs, or fails already."""

from __future__ import annotations

from contextlib import closing

import pytest

from conformance.random_testing.exploration import Exploration
from conformance.random_testing.shrink_budget import ShrinkBudget
from conformance.random_testing.steps import Step
from conformance.target.builtin import BuiltIn
from conformance.verdict import Outage, OutcomeKind
from fuzz import undefined_input
from fuzz.corpus import Pool
from fuzz.fuzzer import Fuzzer
from fuzz.undefined_input import EVERY, STEPS, Survival, message, transcript_of
from reference_server.faults import FAULTS


@pytest.mark.parametrize("needs", [1, 2, 25])
def test_of_many_actions_the_last_are_looked_at_first(
    monkeypatch: pytest.MonkeyPatch, needs: int
) -> None:
    done: list[Step] = [message(1, b"kick %d\r\n" % number) for number in range(STEPS)]
    due, plays = done[100 : 100 + needs], []

    def survives(_: object, played: list[Step], every: int = EVERY) -> Survival:
        plays.append(played)
        if not {*due} <= {*played}:
            return Survival(None, 0.0, len(played))
        # It is seen when somebody else wants a reply.
        seen = -(-(played.index(due[-1]) + 1) // every) * every
        return Survival(Outage(OutcomeKind.HANGS, "it serves nobody"), 0.0, min(seen, len(played)))

    monkeypatch.setattr(undefined_input, "survives", survives)
    with closing(BuiltIn()) as target:
        exploration = Exploration(1, effort=ShrinkBudget(each=600.0))
        fuzzer = Fuzzer(exploration, target, Pool(), to_first_failure=True)
        fuzzer._go_wild(done)
        fuzzer.close()
    (filed,) = fuzzer.report.found
    assert filed.is_wild
    assert filed.transcript.entries == transcript_of(due).entries
    assert len(plays) < (12 if needs < EVERY else 200)


def test_nothing_is_looked_for_behind_the_first_failure() -> None:
    with closing(BuiltIn(fault=FAULTS["ids-may-be-hexadecimal"])) as target:
        exploration = Exploration(1, 3, profile=target.probe())
        report = Fuzzer(exploration, target, Pool(), to_first_failure=True).run(600)
    *before, last = (filed.diagnosis.de_facto for filed in report.found)
    assert (all(before), last) == (True, False)
