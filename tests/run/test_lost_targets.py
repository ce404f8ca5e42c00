"""Targets that are lost: in the middle of a test, at a connection, and before anything is asked."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.dialogue.bulk import Bulk
from conformance.dialogue.connection import Connection
from conformance.dialogue.many_clients import gather
from conformance.dialogue.scenario import Connect, Scenario
from conformance.dialogue.schedule import Timeline
from conformance.random_testing.exploration import Exploration
from conformance.run.runner import run
from conformance.target.address import ask, connect, visit
from conformance.target.builtin import BuiltIn
from conformance.target.launched_target import LaunchedTarget
from conformance.target.transport import Transport
from conformance.verdict import NotTestable, Outage, OutcomeKind, TargetLost
from reference_server.events import Connected, Event, Hangup, Output
from reference_server.faults import Fault
from reference_server.model import Model
from tests.servers import changed_server


@pytest.fixture
def server() -> Iterator[BuiltIn]:
    target = BuiltIn(real_time=True)
    yield target
    target.close()


def test_a_failure_during_which_the_target_was_replaced_is_told_as_its_loss(
    server: BuiltIn,
) -> None:
    def loses(client: Connection) -> None:
        server.generation += 1
        client.send("peek 1").reply("FOUND")

    outcome = run(loses, {"client": None}, server)
    assert isinstance(outcome.error, TargetLost)
    assert outcome.error.observed == "the target is gone: it was lost meanwhile"


def test_nothing_more_is_sent_on_a_connection_that_the_target_has_reset() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Transport(connect(server.getsockname(), 5)) as client,
    ):
        Transport(server.accept()[0]).reset()
        assert client.receive_within(5) == b""
        assert isinstance(client.error, ConnectionResetError)
        client.half_close()
        client.send(b"quit\r\n")
        assert not client.unsent


@pytest.mark.parametrize("notices", [True, False])
def test_a_target_that_what_is_tested_has_ended_is_not_lost_by_an_observation(
    server: BuiltIn, notices: bool
) -> None:
    def loses(client: Connection, other: Connection) -> None:
        client.send("quit")
        other.send("list-tube-used").reply("USING")
        server.call(server._server.close)
        if notices:
            client.is_closed_by_target()
        other.stats()

    error = run(loses, {"client": None, "other": None}, server).error
    assert isinstance(error, TargetLost)
    assert error.owner == ("" if notices else "stats.ok")


def test_a_target_that_a_leaving_client_has_ended_is_not_lost_by_what_follows(
    server: BuiltIn,
) -> None:
    def loses(client: Connection, other: Connection) -> None:
        client.send("list-tube-used").reply("USING")
        other.synchronise()
        other.reset()
        server.call(server._server.close)
        client.is_closed_by_target()
        client.stats()

    error = run(loses, {"client": None, "other": None}, server).error
    assert isinstance(error, TargetLost)
    assert error.owner == "protocol.close-ends-connection"


@pytest.mark.parametrize(
    ("exhausts", "owner"), [(False, "protocol.close-ends-connection"), (True, "")]
)
def test_a_target_that_ends_after_a_shortage_is_lost_by_that(
    server: BuiltIn, monkeypatch: pytest.MonkeyPatch, exhausts: bool, owner: str
) -> None:
    crashed = Outage(OutcomeKind.CRASHED, "exited with status 1")
    monkeypatch.setattr(Scenario, "exhausts", exhausts)
    monkeypatch.setattr(server, "ended", lambda: crashed)

    def passes(client: Connection) -> None:
        client.synchronise()

    error = run(passes, {"client": None}, server).error
    assert isinstance(error, TargetLost)
    assert (error.owner, error.de_facto) == (owner, exhausts)


def test_a_target_that_many_commands_in_one_go_have_ended_is_lost_by_the_first(
    server: BuiltIn,
) -> None:
    def loses(client: Connection) -> None:
        bulk = Bulk(client, server)
        server.call(server._server.close)
        bulk.put([b"put 0 0 60 1\r\na\r\n"] * 1000)

    error = run(loses, {"client": None}, server).error
    assert isinstance(error, TargetLost)
    assert (error.owner, error.step.command) == ("put.inserted", "put")


def test_what_has_happened_since_the_last_reply_is_suspected_of_a_loss(server: BuiltIn) -> None:
    def loses(client: Connection, other: Connection) -> None:
        client.synchronise()
        other.synchronise()
        other.reset()
        server.call(server._server.close)
        client.stats()

    error = run(loses, {"client": None, "other": None}, server).error
    assert isinstance(error, TargetLost)
    assert (error.owner, error.suspects) == ("stats.ok", ("protocol.close-ends-connection",))


def test_a_target_that_hangs_when_its_clock_moves_is_not_lost_by_an_observation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hangs = Outage(OutcomeKind.HANGS, "a new client got no answer")

    def loses(client: Connection, clock: Timeline) -> None:
        client.put(b"a", delay=1)
        clock.advance(1)
        client.stats()

    with contextlib.closing(BuiltIn()) as server:
        monkeypatch.setattr(server.clock, "move", lambda seconds: False)
        monkeypatch.setattr(server, "outage", lambda: hangs)
        error = run(loses, {"client": None, "clock": None}, server).error
    assert isinstance(error, TargetLost)
    assert (error.owner, error.step.command) == ("", "")


def test_a_target_that_is_gone_is_told_as_that(server: BuiltIn) -> None:
    def loses(client: Connection) -> None:
        server.call(server._server.close)
        client.send("peek 1").reply("FOUND")

    outcome = run(loses, {"client": None}, server)
    assert isinstance(outcome.error, TargetLost)
    assert outcome.error.observed == "the target is gone: it refuses connections"


def test_jobs_of_a_server_that_was_lost_are_not_deleted_on_the_next(server: BuiltIn) -> None:
    def loses_it(client: Connection) -> None:
        client.put(b"a")
        server.generation += 1

    assert run(loses_it, {"client": None}, server).error is None
    with visit(server.address, 5) as sock:
        assert ask(sock, b"peek 1", 5).word == "FOUND"


def test_a_target_that_is_gone_may_come_back_as_another() -> None:
    target = BuiltIn()
    target.close()
    assert target.outage() == Outage(OutcomeKind.GONE, "it refuses connections")
    assert target.generation == 1


@pytest.mark.parametrize("does", ["os._exit(3)", "return self._list_tubes(conn)"])
def test_a_target_is_brought_back_for_the_next_program(does: str, tmp_path: Path) -> None:
    mark = tmp_path / "is spoilt"
    spoilt = f"""
    plain, mark = Model._stats, {str(mark)!r}

    def stats(self, conn):
        if os.path.exists(mark):
            os.unlink(mark)
            {does}
        return plain(self, conn)

    Model._stats = stats
    """
    target = LaunchedTarget(changed_server(tmp_path, spoilt), "real")
    exploration = Exploration(1)
    # The last program has ended or spoilt it, which is noticed when the next is begun.
    mark.touch()
    session = exploration.restored_session(target)
    session.ask(1, b"use a\r\n")
    session.finish()
    exploration.end(session)
    target.close()
    assert not mark.exists()


FEW = 3
"""Clients that a server serves at the same time."""


class _ServesFew(Model):
    """Ends the connection of each client that is one too many."""

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        outputs = super().step(event, now, conn)
        is_refused = isinstance(event, Connected) and not self._takes_more()
        return [*outputs, (conn, Hangup())] if is_refused else outputs

    def _takes_more(self) -> bool:
        return len(self.connections) <= FEW


class _ServesNoMore(_ServesFew):
    """It does not recover from that."""

    _was_full = False

    def _takes_more(self) -> bool:
        self._was_full |= not super()._takes_more()
        return not self._was_full


def _crowd_on(model: type[Model]) -> BaseException | None:
    def is_crowded(connect: Connect) -> None:
        gather(iter(range(3 * FEW)), connect, Connection.synchronise)

    with contextlib.closing(BuiltIn(fault=Fault("", "other", model), real_time=True)) as server:
        return run(is_crowded, {"connect": None}, server).error


def test_a_target_may_serve_few_clients_at_the_same_time() -> None:
    error = _crowd_on(_ServesFew)
    assert isinstance(error, NotTestable)
    assert str(error) == "the target serves no more clients than 3 at the same time"


def test_one_that_serves_no_more_after_a_crowd_is_lost() -> None:
    assert isinstance(_crowd_on(_ServesNoMore), TargetLost)
