"""Ends of connections that a target ignores: what they are waited for, and what they prevent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from conformance.dialogue import connection
from conformance.dialogue.connection import Connection
from conformance.oracle.violation import Violation
from conformance.random_testing.exploration import Exploration
from conformance.run.runner import run
from conformance.target import learnt
from conformance.target.address import visit
from conformance.target.builtin import BuiltIn
from conformance.target.learnt import Learnt
from conformance.target.limits import Limits
from conformance.target.silences import AN_END, FATAL, FEWER, GIVEN_UP
from conformance.verdict import Deviation
from reference_server.engine import Engine
from reference_server.faults import FAULTS
from reference_server.wire import TIMED_OUT
from tests.servers import let_nobody_starve

FULL = 1.0
IN_FULL = f"nothing within {FULL:g} seconds"


def _makes_up(exploration: None) -> None:
    """Stand for a test that makes up conversations: it ends connections."""


@pytest.fixture
def deaf_to_ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[BuiltIn]:
    """Yield a target that does not notice the end of any connection."""
    let_nobody_starve(monkeypatch)
    monkeypatch.setattr(Engine, "eof", lambda *_: None)
    with closing(BuiltIn(limits=Limits(reply=FULL, clean_up=3.0))) as target:
        yield target


def test_that_ends_are_ignored_is_learnt_once(deaf_to_ends: BuiltIn) -> None:
    def puts(client: Connection) -> None:
        client.put(b"a")

    assert run(puts, {"client": None}, deaf_to_ends).error is None
    assert deaf_to_ends.learnt.silences.ignores_ends
    begun = time.monotonic()
    for _ in range(10):
        run(puts, {"client": None}, deaf_to_ends)
    # The clean-up of each visits it, too.
    assert time.monotonic() - begun < deaf_to_ends.limits.clean_up


def test_who_ignores_some_ends_is_waited_for_less_and_less() -> None:
    known, full = Learnt(), 4.0
    waits = []
    for _ in range(2 * learnt.DEAF):
        waits.append(known.until_end(full))
        known.missed_end(waits[-1], is_sure=True)
        # Those of others come.
        known.saw_end(True, full, is_sure=True)
    assert waits == sorted(waits, reverse=True)
    assert (waits[0], waits[1], waits[-1]) == (full, full / FEWER, learnt.BRIEF)
    # Who has no time left has not waited, and on a busy machine it may come later.
    late = Learnt()
    for _ in range(9):
        late.missed_end(-1.0, is_sure=True)
        late.missed_end(full, is_sure=False)
    late.saw_end(True, full, is_sure=True)
    assert late.until_end(full) == full


def test_replies_before_an_end_that_never_comes_are_not_late(deaf_to_ends: BuiltIn) -> None:
    def half_closes(client: Connection) -> None:
        client.raw(b"foo\r\nfoo\r\n", replies=0)
        client.half_close()
        client.rest()

    for _ in range(2):
        outcome = run(half_closes, {"client": None}, deaf_to_ends)
        assert isinstance(outcome.error, Deviation)
        assert not outcome.hurried
    assert deaf_to_ends.learnt.silences.is_expected_in_vain(AN_END)
    assert deaf_to_ends.learnt.silences.spent > 0


def test_a_half_close_has_one_answer_whatever_was_asked_before(deaf_to_ends: BuiltIn) -> None:
    def half_closes(client: Connection, line: str) -> None:
        exchange = client.send(line)
        client.half_close()
        exchange.expect(TIMED_OUT)

    def observed(line: str) -> str:
        error = run(half_closes, {"client": None, "line": line}, deaf_to_ends).error
        assert isinstance(error, Deviation)
        return error.observed

    assert observed("reserve") == IN_FULL
    assert observed("reserve-with-timeout 9") != IN_FULL


@pytest.fixture
def deaf_to_half_closes(monkeypatch: pytest.MonkeyPatch) -> Iterator[BuiltIn]:
    """Yield a target that leaves a client waiting when it half-closes."""
    let_nobody_starve(monkeypatch)
    fault = FAULTS["a-client-that-half-closes-goes-on-waiting"]
    with closing(BuiltIn(fault=fault, limits=Limits(reply=FULL, clean_up=FULL))) as target:
        yield target


def test_who_goes_on_waiting_is_awaited_at_the_end_of_a_test_once(
    deaf_to_half_closes: BuiltIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SURE", FULL / 2)

    def waits(client: Connection) -> None:
        client.send("reserve")

    def seconds() -> float:
        begun = time.monotonic()
        assert run(waits, {"client": None}, deaf_to_half_closes).error is None
        return time.monotonic() - begun

    silences = deaf_to_half_closes.learnt.silences
    for _ in range(5):
        # On a busy machine, nothing is learnt of a wait.
        assert silences.is_expected_in_vain(GIVEN_UP) or seconds() >= FULL
    assert min(seconds() for _ in range(5)) < FULL


def test_a_conversation_waits_for_no_end_where_a_reply_is_missing(
    deaf_to_half_closes: BuiltIn,
) -> None:
    session = Exploration(1).session(deaf_to_half_closes)
    session.ask(1, b"reserve\r\n", hasty=True)
    with pytest.raises(Violation) as caught:
        session.leave(1, half=True)
    assert list(caught.value.expected) == [str(TIMED_OUT)]
    assert not deaf_to_half_closes.learnt.silences.ignores_ends
    assert deaf_to_half_closes.learnt.silences.is_expected_in_vain(GIVEN_UP)
    session.abandon()


def test_nothing_is_made_up_for_a_target_that_never_ends_connections(
    deaf_to_ends: BuiltIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leaves(client: Connection) -> None:
        client.half_close()
        client.is_closed_by_target()

    for _ in range(FATAL):
        assert run(_makes_up, {"exploration": None}, deaf_to_ends).error is None
        assert run(leaves, {"client": None}, deaf_to_ends).error is not None
    outcome = run(_makes_up, {"exploration": None}, deaf_to_ends)
    assert str(outcome.error) == "needs the end of the connection, which never comes"
    monkeypatch.undo()
    with visit(deaf_to_ends.address, 9, deaf_to_ends.learnt):
        deaf_to_ends.learnt.silences.ignores_ends = False
    assert run(_makes_up, {"exploration": None}, deaf_to_ends).error is None


def test_an_end_that_comes_restores_patience(
    monkeypatch: pytest.MonkeyPatch, deaf_to_ends: BuiltIn
) -> None:
    monkeypatch.setattr(learnt, "SURE", sure := 1.0)
    with visit(deaf_to_ends.address, 0.9 * sure, deaf_to_ends.learnt):
        pass
    assert not deaf_to_ends.learnt.silences.ignores_ends
    with visit(deaf_to_ends.address, 1.1 * sure, deaf_to_ends.learnt):
        pass
    assert deaf_to_ends.learnt.silences.ignores_ends
    monkeypatch.undo()

    def has_ended() -> bool:
        # A busy machine may take longer than the short wait that is left.
        with visit(deaf_to_ends.address, 1, deaf_to_ends.learnt) as client:
            client.half_close()
            client.receive_within(1)
        return not deaf_to_ends.learnt.silences.ignores_ends

    assert any(has_ended() for _ in range(5))
