"""Clients that are gone: a target may count them for a while, and no longer."""

from __future__ import annotations

import time

import pytest

from conformance.oracle.fast_gear import FastGear
from conformance.oracle.oracle import Oracle
from conformance.oracle.violation import Violation
from reference_server.events import Connected
from reference_server.model import Model
from reference_server.state import SECOND
from reference_server.wire import WATCHING, Command, Reply
from tests.oracle.test_oracle import ask


@pytest.mark.parametrize(
    ("linger", "now", "allowed"), [(0, 1.5, False), (SECOND, 1.5, True), (SECOND, 2.5, False)]
)
def test_a_client_that_is_gone_may_be_counted_for_a_while(
    linger: int, now: float, allowed: bool
) -> None:
    oracle, model = Oracle(alone=True), Model()
    oracle.real_now = SECOND
    oracle.linger = linger
    for number in (1, 2):
        oracle.connect(number)
        model.step(Connected(), 0, number)
    oracle.close(1, SECOND)
    oracle.quiet(SECOND + SECOND // 100)
    [(_, told)] = model.step(Command("stats"), 0, 2)
    assert isinstance(told, Reply)
    both = told._replace(body=(told.body or b"").replace(b"pid: 0", b"pid: 1"))
    oracle.real_now = int(now * SECOND)
    if allowed:
        ask(oracle, 2, b"stats\r\n", both, now)
        return
    with pytest.raises(Violation, match="expected OK with current-connections: 1, observed"):
        ask(oracle, 2, b"stats\r\n", both, now)


def test_a_client_that_is_gone_may_be_counted_in_a_tube_for_a_while() -> None:
    oracle, model = Oracle(alone=True), Model()
    oracle.linger = SECOND
    for number in (1, 2):
        oracle.connect(number)
        model.step(Connected(), 0, number)
        ask(oracle, number, b"watch t\r\n", WATCHING(2))
        model.step(Command("watch", ("t",)), 0, number)
    oracle.close(1, 0)
    oracle.quiet(SECOND // 100)
    [(_, told)] = model.step(Command("stats-tube", ("t",)), 0, 2)
    assert isinstance(told, Reply)
    assert b"current-watching: 2" in (told.body or b"")
    ask(oracle, 2, b"stats-tube t\r\n", told, 0.1)
    oracle.real_now = 2 * SECOND
    with pytest.raises(Violation, match="expected OK with current-watching: 1, observed"):
        ask(oracle, 2, b"stats-tube t\r\n", told, 0.2)


def test_a_client_that_went_long_ago_is_gone_when_all_is_judged_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = [SECOND]
    monkeypatch.setattr(time, "monotonic_ns", lambda: real[0])
    oracle, model = Oracle(alone=True), Model()
    oracle.linger = SECOND
    gear = FastGear(oracle, guess_ids=True)
    for number in (1, 2):
        gear.do("connect", 0, number)
        model.step(Connected(), 0, number)
    gear.do("close", 0, 1, SECOND)
    gear.do("quiet", 0, SECOND + SECOND // 100)
    [(_, told)] = model.step(Command("stats"), 0, 2)
    assert isinstance(told, Reply)
    both = told._replace(body=(told.body or b"").replace(b"pid: 0", b"pid: 1"))
    real[0] += 2 * SECOND
    gear.sent(2, b"stats\r\n", 2 * SECOND)
    with pytest.raises(Violation, match="expected OK with current-connections: 1, observed"):
        gear.do("received", 0, 2, both, 2 * SECOND)
