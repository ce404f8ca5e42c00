"""When a failure is believed: doubts are looked into, and a busy machine blames nobody."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from conformance import running
from conformance.address import ask, send_end, send_reset, visit
from conformance.builtin import BuiltIn
from conformance.connection import Connection
from conformance.running import run
from conformance.timeline import BELIEVABLE, Timeline
from conformance.verdict import Deviation, Inconclusive, NotTestable, TargetLost


@pytest.fixture
def server() -> Iterator[BuiltIn]:
    target = BuiltIn(real_time=True)
    yield target
    target.close()


@pytest.mark.parametrize(("busy", "verdict"), [(True, Inconclusive), (False, Deviation)])
def test_a_reply_that_is_late_three_times(
    server: BuiltIn, monkeypatch: pytest.MonkeyPatch, busy: bool, verdict: type[Exception]
) -> None:
    monkeypatch.setattr(running, "_busy", lambda *_: busy)
    attempts = []

    def late() -> None:
        attempts.append(1)
        raise Deviation("a reply in time", "one that is late", late=True)

    assert type(run(late, {}, server, 0.25).error) is verdict
    assert len(attempts) == 3


def test_a_reply_that_is_late_once_is_forgiven(server: BuiltIn) -> None:
    attempts = []

    def late() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise Deviation("a reply in time", "one that is late", late=True)

    assert run(late, {}, server, 0.25).error is None


def test_a_failure_is_not_believed_when_the_scenario_is_behind_its_schedule(
    server: BuiltIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Timeline, "behind", BELIEVABLE + 0.1)

    def wrong() -> None:
        raise Deviation("one thing", "another")

    outcome = run(wrong, {}, server, 0.25)
    assert isinstance(outcome.error, Inconclusive)
    assert "too busy to decide, 3 times" in str(outcome.error)


def test_a_failure_that_does_not_depend_on_time_is_believed_at_once(server: BuiltIn) -> None:
    attempts = []

    def wrong(client: Connection) -> None:
        attempts.append(1)
        client.send("list-tube-used").expect_now()

    assert isinstance(run(wrong, {"client": None}, server, 0.25).error, Deviation)
    assert len(attempts) == 1


def test_this_machine_is_not_busy_for_ever(server: BuiltIn) -> None:
    assert not running._busy(server, lateness=10.0)
    assert running._busy(server, lateness=0.0)


def test_what_cannot_be_tested_is_no_failure(server: BuiltIn) -> None:
    def impossible() -> None:
        raise NotTestable("needs a moon")

    assert str(run(impossible, {}, server, 0.25).error) == "needs a moon"


def test_a_reply_that_nobody_asked_for_is_a_deviation(server: BuiltIn) -> None:
    def two(client: Connection) -> None:
        client.raw(b"list-tube-used\r\nlist-tube-used\r\n", replies=1).reply("USING")

    error = run(two, {"client": None}, server, 0.25).error
    assert isinstance(error, Deviation)
    assert error.expected == "no reply without a request"


def test_a_failure_during_which_the_target_was_replaced_is_told_as_its_loss(
    server: BuiltIn,
) -> None:
    def loses(client: Connection) -> None:
        server.generation += 1
        client.send("peek 1").reply("FOUND")

    outcome = run(loses, {"client": None}, server, 0.25)
    assert isinstance(outcome.error, TargetLost)
    assert outcome.error.observed == "the target was lost meanwhile"


def test_nothing_more_is_sent_on_a_connection_that_the_target_has_reset() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as sock,
    ):
        send_reset(server.accept()[0])
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
        send_end(sock)


def test_a_target_that_is_gone_is_told_as_that(server: BuiltIn) -> None:
    def loses(client: Connection) -> None:
        server.call(server._server.close)
        client.send("peek 1").reply("FOUND")

    outcome = run(loses, {"client": None}, server, 0.25)
    assert isinstance(outcome.error, TargetLost)
    assert outcome.error.observed == "the target is gone: it refuses connections"


def test_jobs_of_a_server_that_was_lost_are_not_deleted_on_the_next(server: BuiltIn) -> None:
    def loses_it(client: Connection) -> None:
        client.put(b"a")
        server.generation += 1

    assert run(loses_it, {"client": None}, server, 0.25).error is None
    with visit(server.address, 5) as sock:
        assert ask(sock, b"peek 1", 5).word == "FOUND"


def test_a_target_that_is_gone_may_come_back_as_another() -> None:
    target = BuiltIn()
    target.close()
    assert target.fate() == "the target is gone: it refuses connections"
    assert target.generation == 1
