"""What a judged conversation takes as given: whoever is there before, and how it is counted."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from conformance.oracle.judge import Judge, Received
from conformance.oracle.violation import Violation
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.steps import Ask, Wait
from conformance.run.options import Options
from conformance.target.builtin import BuiltIn
from conformance.target.limits import USUAL
from conformance.verdict import Inconclusive
from reference_server import wire
from reference_server.connection import ServedConnection
from reference_server.faults import FAULTS, Fault
from reference_server.model import Model
from reference_server.profiles import NEWEST
from reference_server.state import SECOND, Alarm, Client
from reference_server.wire import Reply
from tests.servers import REFERENCE_COMMAND, needs_faketime
from tests.variants.times import late_at_random

PATIENCE = 0.5
"""Seconds that a reply may take."""
STATS = b"stats\r\nstats-tube default\r\n"


@pytest.mark.parametrize("real_time", [False, True])
@pytest.mark.parametrize("key", ["current-connections", "total-connections"])
def test_our_own_silence_shows_nothing(key: str, real_time: bool) -> None:
    fault = FAULTS[f"{key}-leaves-out-who-has-said-nothing-yet"]
    with contextlib.closing(BuiltIn(fault=fault, real_time=real_time)) as server:
        session = Exploration(1).session(server)
        session.ask(1, STATS)
        session.finish()
        session.abandon()


@pytest.mark.parametrize("behind", [100, 9 * USUAL.behind])
def test_the_end_of_a_client_that_waits_need_not_be_seen_behind_much_that_is_not_read(
    behind: int,
) -> None:
    peek = b"peek 1\r\n"
    with contextlib.closing(BuiltIn()) as server:
        session = Exploration(1).session(server)
        session.timeout = PATIENCE
        session.ask(1, b"reserve\r\n" + peek * (behind // len(peek)))
        if behind < USUAL.behind:
            session.leave(1, half=True)
            session.finish()
        else:
            with pytest.raises(Inconclusive):
                session.leave(1, half=True)
        session.abandon()


@pytest.mark.parametrize(
    ("said", "told", "count"),
    [
        (b"watch own\r\nignore default\r\nreserve\r\n", b"WATCHING 2\r\nWATCHING 1\r\n", 2),
        (
            b"use own\r\nput 0 0 600 1\r\na\r\nwatch own\r\nreserve\r\n",
            b"USING own\r\nINSERTED 1\r\nWATCHING 2\r\nRESERVED 1 1\r\na\r\n",
            1,
        ),
    ],
    ids=["waiting", "holding a job"],
)
def test_clients_may_be_there_before_and_go(said: bytes, told: bytes, count: int) -> None:
    with contextlib.closing(BuiltIn()) as server:
        others = [server.connect() for _ in range(count)]
        for other in others:
            other.send(said)
            assert other.receive_soon(len(told), whole=True) == told
        session = Exploration(1).session(server)
        for other in others:
            session.ask(1, STATS)
            session.flush()
            other.close()
        session.ask(1, STATS)
        session.finish()
        session.abandon()


def test_who_waits_and_has_said_quit_is_heard_until_the_wait_is_over() -> None:
    with contextlib.closing(BuiltIn()) as server:
        session = Exploration(1).session(server)
        session.ask(1, b"reserve-with-timeout 5\r\n", apart=True, hasty=True)
        session.ask(1, b"quit\r\n", apart=True)
        session.wait(6)
        session.ask(2, STATS)
        session.finish()
        session.abandon()


def test_who_comes_later_is_not_taken_for_one_of_them() -> None:
    with contextlib.closing(BuiltIn()) as server:
        session = Exploration(1).session(server)
        with server.connect() as other:
            other.send(b"list-tube-used\r\n")
            assert other.receive_within(5) == b"USING default\r\n"
            session.ask(1, STATS)
            with pytest.raises(Violation) as raised:
                session.flush()
        assert raised.value.observed == "OK with current-connections: 3"
        session.abandon()


def _play_delayed_reservation(lateness: float) -> None:
    """Reserve a delayed job from a server of this lateness (s), then wait for its safety margin."""

    class Late(late_at_random(SECOND)):  # type: ignore[misc]
        def _fires_at(self, alarm: Alarm) -> int:
            return alarm[0] + round(lateness * SECOND)

    with contextlib.closing(BuiltIn(fault=Fault("", "late", model=Late))) as server:
        session = Exploration(1).session(server)
        program = (
            Ask(1, b"put 0 2 3 1\r\na\r\n", tag=1),
            Ask(1, b"reserve\r\n"),
            Wait(2.3),
            Ask(1, b"list-tube-used\r\n"),
            Ask(1, b"reserve-with-timeout 2\r\n"),
            Wait(1.4),
            Ask(2, b"list-tube-used\r\n"),
        )
        try:
            session.play(program)
        finally:
            session.abandon(before_restart=True)


@pytest.mark.parametrize("lateness", [0.0, 0.02, 0.06, 0.08, 0.2])
def test_a_job_that_a_late_timer_gives_away_is_held_from_then_on(lateness: float) -> None:
    _play_delayed_reservation(lateness)


@pytest.mark.parametrize("lateness", [0.4, 0.8])
def test_a_timer_that_is_later_than_allowed_is_found(lateness: float) -> None:
    with pytest.raises(Violation, match=r"observed (nothing|TIMED_OUT)"):
        _play_delayed_reservation(lateness)


@needs_faketime
def test_a_timer_fires_when_it_is_due_though_the_clock_went_on_in_a_burst() -> None:
    command = Options.of_command(None, REFERENCE_COMMAND, "auto", 10)
    with contextlib.closing(command.target()) as server:
        session = Exploration(1).session(server)
        session.ask(1, b"reserve\r\n", apart=True)
        for _ in range(40):
            session.ask(2, b"stats-tube default\r\n")
        session.ask(2, b"put 0 1 5 1\r\na\r\n", tag=1)
        session.flush()
        asked = server.clock.time()
        session.wait(2)
        (given,) = (entry for entry in session.transcript.entries if b"RESERVED" in entry.data)
        session.finish()
        session.abandon()
    assert given.time - asked < 1.1


def test_a_signal_may_be_on_its_way_while_nothing_is_said() -> None:
    judge = Judge()
    judge.connect(1)
    judge.drains(1)
    assert not judge.awaits(2)


def test_the_time_in_which_replies_are_judged_is_not_time_without_replies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    received, is_judged = Judge.received, threading.Event()

    class WritesOneLate(ServedConnection):
        def write(self, data: bytes) -> None:
            if data != b"NOT_FOUND\r\n":
                super().write(data)
                return
            write = super().write
            threading.Thread(target=lambda: is_judged.wait(60) and write(data)).start()

    def judged_slowly(judge: Judge, conn: int, data: bytes, now: int, mark: int) -> Received:
        time.sleep(2 * PATIENCE)
        threading.Timer(PATIENCE / 10, is_judged.set).start()
        return received(judge, conn, data, now, mark)

    fault = Fault("", "writes one late", connection=WritesOneLate)
    with contextlib.closing(BuiltIn(fault=fault)) as server:
        session = Exploration(1).session(server)
        session.timeout = PATIENCE
        for client in (1, 2, 3):
            session.ask(client, b"use own\r\n")
        session.flush()
        monkeypatch.setattr(Judge, "received", judged_slowly)
        session.ask(1, b"put 0 0 600 1\r\na\r\n", tag=1, apart=True)
        session.ask(2, b"peek-ready\r\n", apart=True, hasty=True)
        session.ask(3, b"peek-buried\r\n", apart=True, hasty=True)
        session.flush()
        session.abandon()


def test_a_reply_that_is_longer_than_expected_is_not_read_byte_by_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class FoundInstead(Model):
        def _list_tube_used(self, _: Client) -> Reply:
            return wire.FOUND(1, b"x" * 60_000)

    read = list[int]()
    received = Judge.received

    def counted(judge: Judge, conn: int, data: bytes, now: int, mark: int) -> Received:
        read.append(len(data))
        return received(judge, conn, data, now, mark)

    monkeypatch.setattr(Judge, "received", counted)
    fault = Fault("", "found instead", FoundInstead)
    with contextlib.closing(BuiltIn(NEWEST, fault=fault)) as server:
        session = Exploration(1).session(server)
        session.ask(1, b"list-tube-used\r\n")
        with pytest.raises(Violation):
            session.flush()
        session.abandon()
    assert len(read) < 20


LISTS = b"list-tubes\r\n"


def test_no_more_bytes_are_awaited_than_the_shortest_statistics_have() -> None:
    """A server need not quote a name that the model quotes: to wait for its quotes takes time."""
    judge = Judge()
    judge.connect(1)
    judge.sent(1, b"use y\r\n", 1)
    first = judge.missing(1)
    assert first == len(b"USING y\r\n")
    judge.sent(1, b"stats-tube y\r\nlist-tubes\r\n", 2)
    assert judge.missing(1) == first
    judge.received(1, b"USING y\r\n", 3)
    assert judge.missing(1) == 1
