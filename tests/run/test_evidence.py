"""The evidence of a failure: which message is marked, and which client got no reply."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect
from conformance.dialogue.schedule import Timeline
from conformance.run.evidence import gather
from conformance.run.kept_transcripts import TranscriptKeeper
from conformance.run.runner import run
from conformance.target.builtin import BuiltIn
from conformance.target.launched_target import LaunchedTarget
from conformance.target.limits import Limits
from conformance.transcript import HEAD, Entry, rendered
from conformance.verdict import Deviation, Inconclusive
from reference_server.faults import Fault
from reference_server.model import Model
from reference_server.profiles import NEWEST
from reference_server.state import Client
from reference_server.wire import NOT_FOUND, TIMED_OUT, Command
from reports.results import Evidence
from tests.servers import changed_server

SHORT = Limits(reply=1.0)
WAITING, FORGOTTEN = 60, 41
"""Clients that wait at the same time, and the number of the one that gets no reply."""


class _ForgetsOne(Model):
    """One of the clients that wait is not told of the end of its timeout."""

    def _wake_up(self, conn: Client) -> None:
        super()._wake_up(conn)
        if conn.id % WAITING == FORGOTTEN:
            self._outputs.pop()


class _IsSilent(Model):
    """It answers no kick, and what follows it."""

    def _command(self, conn: Client, command: Command) -> None:
        if command.verb != "kick":
            super()._command(conn, command)


def _times_out(new_worker: Connect, clock: Timeline) -> None:
    waiting = [new_worker().reserve_within(2) for _ in range(WAITING)]
    clock.advance(2)
    for exchange in waiting:
        exchange.expect(TIMED_OUT)


def _kicks(client: Connection) -> None:
    client.send("kick 1").any_reply()


def _evidence(model: type[Model], test: Callable[..., object], **values: object) -> Evidence:
    fault = Fault("none", "one client gets no reply", model=model)
    with contextlib.closing(BuiltIn(fault=fault, limits=SHORT)) as target:
        outcome = run(test, values, target)
    error = outcome.error
    # On a busy machine, it is what the failure looks like.
    deviation = error.deviation if isinstance(error, Inconclusive) else error
    assert isinstance(deviation, Deviation), outcome
    return gather(deviation, outcome, ["replay"], "test", TranscriptKeeper(None, ""), NEWEST)


def _marked(found: Evidence) -> str:
    (line,) = (line for line in found.transcript if line.startswith("> "))
    return line


def test_of_many_clients_whose_timeouts_end_the_one_without_a_reply_is_named() -> None:
    found = _evidence(_ForgetsOne, _times_out, new_worker=None, clock=None)
    marked = _marked(found)
    assert marked.endswith(" > reserve-with-timeout 2\\r\\n")
    client = marked.split()[1]
    assert re.fullmatch(rf"no reply within [\d.]+ seconds for client {client}", found.observed)
    assert f"  {client} < TIMED_OUT\\r\\n" not in found.transcript
    assert len(found.transcript) < 150


def test_a_client_that_is_alone_needs_no_name() -> None:
    found = _evidence(_IsSilent, _kicks, client=None)
    assert _marked(found) == "> A > kick 1\\r\\n"
    assert re.fullmatch(r"no reply within [\d.]+ seconds", found.observed)


@pytest.mark.parametrize(("count", "left_out"), [(2 * HEAD, 0), (2 * HEAD + 9, 9)])
def test_what_follows_a_marked_message_is_cut_in_the_middle(count: int, left_out: int) -> None:
    entries = [Entry("A", ">", b"reserve\r\n", 0.0)]
    entries += [Entry("B", "<", b"TIMED_OUT\r\n", 0.0)] * count
    lines = rendered(entries, 0).split("\n")
    assert lines[0] == "> A > reserve\\r\\n"
    assert [line for line in lines if "…" in line] == ["  … 9 messages …"] * bool(left_out)
    assert len(lines) == 1 + count - left_out + bool(left_out)


def test_what_a_server_has_said_before_a_test_is_none_of_its_evidence(tmp_path: Path) -> None:
    change = """
    from reference_server.wire import Reply

    plain = Reply.encode
    print("ready", flush=True)

    def encode(self):
        if self.word == "NOT_FOUND":
            print("lost it", flush=True)
            return b"JUNK\\r\\n"
        return plain(self)

    Reply.encode = encode
    """
    with contextlib.closing(LaunchedTarget(changed_server(tmp_path, change))) as target:
        target.probe(NEWEST)
        assert "ready" in target.said()

        def peeks(client: Connection) -> None:
            client.send("peek 2000000000").expect(NOT_FOUND)

        said = [run(peeks, {"client": None}, target).said for _ in range(2)]
    assert said == ["lost it", "lost it"]
