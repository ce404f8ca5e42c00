"""The limits of a target: one value, and all who talk with the target take it from there."""

from __future__ import annotations

import contextlib
from pathlib import Path
from random import Random

import pytest

from conformance.dialogue.connection import Connection
from conformance.oracle.invariants import Ledger
from conformance.oracle.violation import Violation
from conformance.random_testing.concurrent_clients import ConcurrentClients
from conformance.random_testing.exploration import Exploration
from conformance.run.options import Options
from conformance.run.runner import run
from conformance.target.builtin import BuiltIn
from conformance.target.launch import Launched
from conformance.target.launched_target import LaunchedTarget
from conformance.target.limits import Limits
from conformance.target.target import Remote, Target
from conformance.verdict import Deviation
from reference_server.faults import Fault
from reference_server.wire import Command, Request, RequestReader
from tests.servers import REFERENCE_COMMAND, changed_server

HASTY = Limits(reply=0.2, lateness=0.1)


def _mute(verb: str) -> contextlib.closing[BuiltIn]:
    """Return a server that does not hear one of the commands."""

    class Mute(RequestReader):
        def next_request(self) -> Request | None:
            request = super().next_request()
            while isinstance(request, Command) and request.verb == verb:
                request = super().next_request()
            return request

    return contextlib.closing(BuiltIn(fault=Fault("", "other", reader=Mute), limits=HASTY))


def test_servers_of_the_same_kind_have_the_same_limits() -> None:
    kinds: list[Target] = [
        BuiltIn(limits=HASTY),
        LaunchedTarget(REFERENCE_COMMAND, "real", limits=HASTY),
    ]
    for target in kinds:
        with contextlib.closing(target), contextlib.closing(target.fresh()) as other:
            assert other.limits is target.limits is HASTY
            assert target.in_real_time().limits is HASTY


def test_the_lateness_of_the_command_line_is_the_targets() -> None:
    with Launched(REFERENCE_COMMAND) as server:
        host, port = server.address
        for address, command in ((f"{host}:{port}", None), (None, REFERENCE_COMMAND), (None, None)):
            options = Options(address, command, "real", 0.375)
            with contextlib.closing(options.target()) as target:
                assert target.limits == Limits(lateness=0.375)


def test_a_directed_test_waits_for_a_reply_as_long_as_the_target_may_take() -> None:
    def touches(client: Connection) -> None:
        client.send("touch 1").reply("NOT_FOUND")

    with _mute("touch") as server:
        error = run(touches, {"client": None}, server).error
    assert isinstance(error, Deviation)
    assert error.observed == "no reply within 0.2 seconds"


WORKS = """
    import time

    def works_hard(model, conn, number):
        end = time.process_time() + {seconds}
        while time.process_time() < end:
            pass
        return Reply("NOT_FOUND")
    Model._touch = works_hard
"""
"""A server that uses a CPU for so many seconds to answer ``touch``."""


@pytest.mark.parametrize(("times", "is_missed"), [(1.8, False), (60, True)])
def test_a_target_that_works_on_a_reply_is_waited_for(
    tmp_path: Path, times: float, is_missed: bool
) -> None:
    def touches(client: Connection) -> None:
        client.send("touch 1").reply("NOT_FOUND")

    command = changed_server(tmp_path, WORKS.format(seconds=times * HASTY.reply))
    with contextlib.closing(LaunchedTarget(command, "real", limits=HASTY)) as server:
        error = run(touches, {"client": None}, server).error
    assert isinstance(error, Deviation) == is_missed, error


def test_a_session_waits_for_a_reply_as_long_as_the_target_may_take() -> None:
    with _mute("touch") as server:
        session = Exploration(1).session(server)
        assert session.timeout == HASTY.reply
        session.ask(1, b"touch 7\r\n")
        with pytest.raises(Violation, match="observed nothing"):
            session.flush()
        session.abandon()


def test_concurrent_clients_wait_for_replies_as_long_as_the_target_may_take() -> None:
    with _mute("ignore") as server:
        crowd = ConcurrentClients(server, ["crowd"], Random(1), Ledger())
        with pytest.raises(Violation) as raised:
            crowd.run(2, 60)
        crowd.abandon()
    assert "within 0.2 s" in raised.value.observed


def test_a_remote_server_keeps_the_limits_that_it_is_given() -> None:
    assert Remote("localhost:1", HASTY).limits is HASTY
