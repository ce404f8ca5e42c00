"""A violation that is seen once, and not again."""

from __future__ import annotations

import itertools

import pytest

from conformance.random_testing.exploration import Exploration
from conformance.random_testing.shrink_budget import ShrinkBudget
from conformance.target.builtin import BuiltIn
from fuzz import campaign
from fuzz.corpus import Pool
from fuzz.fuzzer import Fuzzer
from reference_server import wire
from reference_server.faults import Fault
from reference_server.model import Model
from reference_server.state import Client
from reference_server.wire import Reply


def wrong_once() -> type[Model]:
    """Return a model that answers the first kick wrongly."""
    wrong = iter([wire.NOT_FOUND])

    class WrongOnce(Model):
        def _kick(self, conn: Client, bound: int) -> Reply:
            return next(wrong, None) or super()._kick(conn, bound)

    return WrongOnce


@pytest.mark.parametrize(("starved", "filed"), [(0, ["reproduced 0 of 3"]), (1, [])])
def test_on_a_busy_machine_it_is_not_told(
    starved: int, filed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "pressure", itertools.count(0, starved).__next__)
    target = BuiltIn(fault=Fault("", "wrong once", wrong_once()))
    exploration = Exploration(1, effort=ShrinkBudget(each=0.5))
    fuzzer = Fuzzer(exploration, target, Pool(None))
    while not (fuzzer.report.found or exploration.undecided):
        fuzzer.go_on(0.1, 1, lambda: None)
    fuzzer.close()
    target.close()
    assert [it.seen for it in fuzzer.report.found] == filed
    assert exploration.undecided == starved
