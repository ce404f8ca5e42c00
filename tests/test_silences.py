"""A reply that never comes is waited for in full once, and then hardly any more."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from conformance.dialogue.awaiting import Awaiting
from conformance.dialogue.connection import Connection
from conformance.dialogue.drain import drain
from conformance.dialogue.scenario import Connect
from conformance.dialogue.shortage import before_shortage
from conformance.oracle.violation import Violation
from conformance.random_testing.session import Session
from conformance.run.runner import run
from conformance.run.step import step_of
from conformance.target.address import ask
from conformance.target.builtin import BuiltIn
from conformance.target.limits import Limits
from conformance.target.silences import ENOUGH, FATAL, FEWER, OFTEN, Silences, awaited
from conformance.target.starvation import Starvation, Starved
from conformance.target.target import Target
from conformance.target.transport import Transport
from conformance.transcript import Transcript
from conformance.verdict import Deviation, NotTestable, TargetLost
from reference_server.faults import Fault
from reference_server.model import Model
from reference_server.profiles import NEWEST
from reference_server.state import Client
from reference_server.wire import (
    NOT_FOUND,
    Reply,
)
from tests.servers import let_nobody_starve, silent_at

FULL = 1.0


class Silent(Model):
    """Some commands are not answered, or later."""

    silent = frozenset(("peek-delayed",))

    def _peek_delayed(self, conn: Client) -> Reply | None:  # type: ignore[override]
        return None if "peek-delayed" in self.silent else NOT_FOUND


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Silent, "silent", Silent.silent)
    let_nobody_starve(monkeypatch)


@pytest.fixture
def target() -> Iterator[BuiltIn]:
    with closing(
        BuiltIn(fault=Fault("", "silent", model=Silent), limits=Limits(reply=FULL, clean_up=3.0))
    ) as server:
        yield server


def _peeks(client: Connection) -> None:
    client.send("peek-delayed").expect(NOT_FOUND)


def _peeks_ready(client: Connection) -> None:
    client.send("peek-ready").expect(NOT_FOUND)


def _peeks_buried(client: Connection) -> None:
    client.send("peek-buried").expect(NOT_FOUND)


def _makes_up(exploration: None) -> None:
    """Stand for a test that makes up conversations: it may send anything."""


def _observed(target: BuiltIn) -> str:
    """Return what is observed instead of the reply."""
    outcome = run(_peeks, {"client": None}, target)
    assert isinstance(outcome.error, Deviation)
    return outcome.error.observed


IN_FULL = f"nothing within {FULL:g} seconds"


def test_a_missing_reply_is_waited_for_in_full_once(target: BuiltIn) -> None:
    first, second = (run(_peeks, {"client": None}, target) for _ in range(2))
    assert isinstance(first.error, Deviation)
    assert isinstance(second.error, Deviation)
    assert first.error.observed == IN_FULL
    assert second.error.observed.endswith(", as before")
    causes = {step_of(o.error, o.transcript, NEWEST).cause for o in (first, second)}  # type: ignore[arg-type]
    assert len(causes) == 1


def test_once_the_reply_comes_it_is_waited_for_in_full_again(
    target: BuiltIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [_observed(target) == IN_FULL for _ in range(2)] == [True, False]
    monkeypatch.setattr(Silent, "silent", frozenset())
    assert run(_peeks, {"client": None}, target).error is None
    monkeypatch.setattr(Silent, "silent", frozenset(("peek-delayed",)))
    assert _observed(target) == IN_FULL


def test_a_full_wait_goes_on_while_others_keep_the_target_from_a_cpu(
    target: BuiltIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Starvation, "since", lambda *_: Starved(0.0, 0.0, 1000.0, 1000.0))
    wait = Awaiting(target, awaited(b"peek-delayed\r\n", str(NOT_FOUND)), 0.1)
    while wait.passed < 0.1:
        time.sleep(0.01)
    assert 0.1 < wait.left < target.limits.starved


def test_a_reply_that_comes_late_is_not_missing(target: BuiltIn) -> None:
    def comes_late(client: Connection, other: Connection) -> None:
        # Another client's job answers what was missed when it is too late.
        exchange = client.send("reserve")
        try:
            exchange.reply("RESERVED")
        finally:
            other.put(b"a")
            other.linger()

    outcome = run(comes_late, {"client": None, "other": None}, target)
    assert isinstance(outcome.error, Deviation)
    assert outcome.missed is None
    key = awaited(b"reserve\r\n", "RESERVED …")
    assert target.learnt.silences.patience(key, 5.0) == 5.0


def test_a_job_that_the_end_of_another_client_gives_is_no_late_reply(target: BuiltIn) -> None:
    def holds_what_another_needs(client: Connection, other: Connection) -> None:
        client.put(b"a")
        for each in (client, other):
            each.send("reserve").reply("RESERVED")

    outcome = run(holds_what_another_needs, {"client": None, "other": None}, target)
    assert isinstance(outcome.error, Deviation)
    assert target.learnt.silences.spent == FULL


def test_what_is_missed_at_first_in_a_short_wait_is_not_told_as_if_it_were_known(
    target: BuiltIn,
) -> None:
    target.learnt.silences.spent = ENOUGH
    first, second = _observed(target), _observed(target)
    # On a busy machine, it is longer than a short one.
    assert re.fullmatch(r"nothing within [0-9]\.[0-9]{2} seconds", first)
    assert second.endswith(", as before")


def test_a_command_after_which_the_target_is_lost_each_time_is_not_sent_for_ever(
    target: BuiltIn,
) -> None:
    silences = target.learnt.silences
    for _ in range(FATAL):
        assert run(_peeks_ready, {"client": None}, target).error is None
        silences.lost(b"peek-buried")
        silences.lost(b"peek-ready")
    # It was answered before.
    assert run(_peeks_ready, {"client": None}, target).error is None
    outcome = run(_peeks_buried, {"client": None}, target)
    assert isinstance(outcome.error, NotTestable)
    assert str(outcome.error) == "needs peek-buried, after which the target is lost each time"
    assert run(_makes_up, {"exploration": None}, target).error is not None
    # It may take a command for none.
    silences.came(awaited(b"peek-buried\r\n", "a reply"), "BAD_FORMAT")
    assert isinstance(run(_peeks_buried, {"client": None}, target).error, NotTestable)
    silences.came(awaited(b"peek-buried\r\n", "a reply"), "NOT_FOUND")
    assert run(_makes_up, {"exploration": None}, target).error is None
    assert run(_peeks_buried, {"client": None}, target).error is None


def test_a_command_behind_a_signal_is_not_to_blame_for_the_loss(
    target: BuiltIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "fate", lambda _: "the target is gone")

    def peeks(client: Connection, transcript: Transcript, event: str) -> None:
        transcript.add("" if event else client.name, "!", event.encode() or b"closes", 0.0)
        client.send("peek-delayed").expect(NOT_FOUND)

    for event, fatal in (("SIGUSR1", None), ("memory limited", None), ("", "peek-delayed")):
        for _ in range(FATAL):
            arguments = {"client": None, "transcript": None, "event": event}
            assert isinstance(run(peeks, arguments, target).error, TargetLost)
        assert target.learnt.silences.fatal() == fatal


@pytest.mark.parametrize(
    ("line", "lost", "fatal"),
    [("peek-delayed", 0, "peek-delayed"), ("peek-delayed", 1, None), ("peek-delayed x", 0, None)],
)
def test_what_is_no_command_or_comes_too_late_is_not_to_blame_for_the_loss(
    target: BuiltIn, monkeypatch: pytest.MonkeyPatch, line: str, lost: int, fatal: str | None
) -> None:
    monkeypatch.setattr(target, "fate", lambda _: "the target is gone")

    def says(connect: Connect) -> None:
        client = connect()
        target.generation += lost
        client.raw(f"{line}\r\n".encode()).expect(NOT_FOUND)

    monkeypatch.setattr(Connection, "_take_replies", lambda _: None)
    for _ in range(FATAL):
        assert isinstance(run(says, {"connect": None}, target).error, TargetLost)
    assert target.learnt.silences.fatal() == fatal


def test_what_a_short_wait_has_missed_is_waited_for_in_full(target: BuiltIn) -> None:
    def comes_late(client: Connection, other: Connection) -> None:
        # As if the target took so long: a job is its reply.
        exchange = client.send("reserve")
        timer = threading.Timer(0.6 * FULL, other.put, (b"a",))
        timer.start()
        try:
            exchange.reply("RESERVED")
        finally:
            timer.join()

    target.learnt.silences.note(awaited(b"reserve\r\n", "RESERVED …"), FULL)
    assert run(comes_late, {"client": None, "other": None}, target).error is None


def _ask(target: BuiltIn, patience: float = FULL) -> None:
    """Ask in a random conversation."""
    session = Session(target, NEWEST)
    session.patience = patience
    try:
        session.ask(1, b"peek-delayed\r\n")
        session.flush()
    finally:
        session.abandon()


def _missed_in_a_session(target: BuiltIn) -> float:
    """Return the seconds after which a missing reply is told in a random conversation."""
    begun = time.monotonic()
    with pytest.raises(Violation) as told:
        _ask(target)
    assert told.value.is_silence
    return time.monotonic() - begun


def test_random_conversations_share_what_was_missed(
    target: BuiltIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _missed_in_a_session(target) > FULL
    # A busy machine may take longer to tell.
    assert any(_missed_in_a_session(target) < 0.7 * FULL for _ in range(5))
    assert _observed(target) != IN_FULL
    monkeypatch.setattr(Silent, "silent", frozenset())
    _ask(target)
    monkeypatch.setattr(Silent, "silent", frozenset(("peek-delayed",)))
    assert _missed_in_a_session(target) > FULL


@pytest.mark.parametrize(
    ("command", "observed"),
    [
        # That stats never come is known from the first look at the target.
        ("stats", ["nothing within 0.25 seconds", "nothing within 0.06 seconds"]),
        ("list-tubes", ["nothing within 1.00 seconds", "nothing within 0.25 seconds"]),
    ],
)
def test_counters_that_never_come_fail_what_needs_them_by_that_command(
    command: str, observed: list[str]
) -> None:
    def begins(server: BuiltIn) -> None:
        Session(server, NEWEST)

    limits = Limits(probe=FULL, detection=FULL)
    with closing(BuiltIn(fault=silent_at(command), limits=limits)) as server:
        server.probe()
        for seen in observed:
            outcome = run(begins, {"server": None}, server)
            error = outcome.error
            assert isinstance(error, Deviation)
            assert (error.expected, error.observed) == ("OK …", seen)
            assert step_of(error, outcome.transcript, NEWEST).cause.command == command


def test_what_is_missed_again_and_again_is_hardly_waited_for(
    target: BuiltIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(OFTEN):
        assert _missed_in_a_session(target) > FULL / FEWER
    # A busy machine may take longer to tell.
    assert any(_missed_in_a_session(target) < FULL / FEWER + 0.6 for _ in range(5))
    key = awaited(b"peek-delayed\r\n", str(NOT_FOUND))
    assert target.learnt.silences.is_hopeless(key)
    target.learnt.silences.came(key, "NOT_FOUND")
    assert not target.learnt.silences.is_hopeless(key)


def test_what_is_missing_before_a_shortage_is_waited_for_in_full_once(target: BuiltIn) -> None:
    def needs_a_reply(client: Connection) -> None:
        with before_shortage():
            _peeks(client)

    error = run(needs_a_reply, {"client": None}, target).error
    assert isinstance(error, NotTestable)
    assert _observed(target).endswith(", as before")


def test_drain_mode_that_never_begins_is_waited_for_in_full_once(
    target: BuiltIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drains(server: Target, connect: Connect) -> None:
        drain(server, connect)

    key, waits = awaited(b"SIGUSR1", "DRAINING"), []
    monkeypatch.setattr(BuiltIn, "signal", lambda *_: None)
    for _ in range(2):
        waits.append(target.learnt.silences.patience(key, FULL))
        assert isinstance(run(drains, {"server": None, "connect": None}, target).error, Deviation)
    assert waits == [FULL, FULL / FEWER]
    monkeypatch.undo()
    assert run(drains, {"server": None, "connect": None}, target).error is None
    assert target.learnt.silences.patience(key, FULL) == FULL


def test_a_reply_that_nobody_gets_is_waited_for_less_by_all() -> None:
    silences = Silences(spent=-ENOUGH)
    malformed, other = awaited(b"pause-tube", "BAD_FORMAT"), awaited(b"foo", "UNKNOWN_COMMAND")
    either = awaited(b"delete", "BAD_FORMAT or NOT_FOUND")
    for number, verb in enumerate((b"bury", b"kick", b"touch")):
        assert silences.patience(malformed, FULL) == silences.patience(other, FULL) == FULL
        silences.note(awaited(verb, ("BAD_FORMAT", "UNKNOWN_COMMAND")[number % 2]), FULL)
    for key in (malformed, other):
        assert silences.patience(key, FULL) == FULL / FEWER
    assert silences.patience(either, FULL) == FULL
    silences.came(either, "NOT_FOUND")
    assert silences.patience(malformed, FULL) == FULL / FEWER
    silences.came(either, "BAD_FORMAT")
    assert silences.patience(malformed, FULL) == FULL


def test_one_of_two_replies_that_nobody_gets_is_waited_for_less_though_others_get_it() -> None:
    silences = Silences(spent=-ENOUGH)
    for verb in (b"bury", b"kick", b"touch"):
        silences.note(awaited(verb, "BAD_FORMAT or NOT_FOUND"), FULL)
    either = awaited(b"delete", "BAD_FORMAT or NOT_FOUND")
    silences.came(awaited(b"delete", "NOT_FOUND"), "NOT_FOUND")
    assert silences.patience(either, FULL) == FULL / FEWER
    assert silences.patience(awaited(b"peek", "NOT_FOUND"), FULL) == FULL
    silences.heard(b"peek 1", b"NOT_FOUND\r\n")
    assert silences.patience(either, FULL) == FULL


def test_replies_that_come_only_with_the_next_give_no_hope_for_ever() -> None:
    silences, waited = Silences(), 0.0
    for _ in range(2):
        for verb in (b"bury", b"kick", b"touch"):
            for _ in range(20):
                key = awaited(verb, "BAD_FORMAT")
                waited += silences.patience(key, FULL)
                silences.was_late(key, "BAD_FORMAT", FULL)
    assert ENOUGH < waited < 4 * ENOUGH
    # One that is there in time gives all of it.
    silences.came(key, "BAD_FORMAT")
    assert not silences.is_expected_in_vain(key)


def test_who_is_in_haste_proves_nothing(target: BuiltIn) -> None:
    with pytest.raises(Violation):
        _ask(target, patience=0.2)
    assert _observed(target) == IN_FULL


def test_statistics_are_waited_for_in_full_once_before_the_first_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited = list[float]()

    def asks(client: Transport, line: bytes, limit: float) -> Reply:
        waited.append(limit)
        return ask(client, line, limit)

    monkeypatch.setattr("conformance.target.target.ask", asks)
    with closing(BuiltIn(fault=silent_at("stats"), limits=Limits(probe=FULL))) as target:
        for _ in range(2):
            assert target.probe() is NEWEST
    assert waited == [FULL, FULL / FEWER]
