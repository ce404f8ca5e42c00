"""Targets that hang, or flood: found out in full once, started again without being asked twice."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.dialogue.awaiting import Awaiting
from conformance.dialogue.connection import Connection
from conformance.oracle.violation import Violation
from conformance.random_testing.exploration import Exploration
from conformance.run.runner import run
from conformance.target.builtin import BuiltIn
from conformance.target.launched_target import LaunchedTarget
from conformance.target.learnt import Learnt
from conformance.target.limits import USUAL
from conformance.target.silences import FEWER, LEAST_ALIVE, awaited
from conformance.target.transport import Transport
from conformance.verdict import TargetLost
from tests.servers import REFERENCE_COMMAND, changed_server, let_nobody_starve, silent_at

HANGS = """
    import time
    from reference_server.wire import Reply

    plain = Reply.encode
    Reply.encode = lambda self: plain(self).replace(b'version: "1', b'version: "x')
    Model._reserve_job = lambda self, *_: time.sleep(10**6)
"""
"""It does not tell its version, and so it is asked what it knows."""
QUICK = replace(USUAL, detection=0.5)


def test_a_server_that_hangs_at_a_probe_is_started_again(tmp_path: Path) -> None:
    target = LaunchedTarget(changed_server(tmp_path, HANGS), "real", limits=QUICK)
    try:
        target.probe()
        assert target.generation == 1
        assert target.fate() is None
        assert target.learnt.pipelines
    finally:
        target.close()


def test_a_server_that_was_seen_to_hang_is_not_waited_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = LaunchedTarget(REFERENCE_COMMAND, "real")
    try:
        for seconds in ("2", "0.5", "0.25"):
            before = target.generation
            target.signal(signal.SIGSTOP)
            fate = f"the target hangs: a new client got no answer within {seconds} seconds"
            in_vain = target.learnt.silences.in_vain
            assert target.fate(b"kick 1") == fate
            assert target.learnt.silences.in_vain >= in_vain + float(seconds)
            with monkeypatch.context() as patch:
                patch.setattr(target, "_fate", lambda _: pytest.fail("it was asked again"))
                target.restore()
            assert target.generation == before + 1
            assert target.fate() is None
        with monkeypatch.context() as patch:
            patch.setattr(target, "_fate", lambda _: pytest.fail("it was asked"))
            target.note_hang()
            target.restore()
        # Then it has not hung after that, but after something else.
        target.learnt.silences.heard(b"kick 2", b"KICKED 0")
        target.signal(signal.SIGSTOP)
        assert "within 0.5 seconds" in str(target.fate(b"kick 1"))
    finally:
        target.close()


def test_a_conversation_with_a_server_that_serves_nobody_shows_a_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_nobody_starve(monkeypatch)
    limits, noted = replace(USUAL, reply=1.0, alive=0.2), []
    with contextlib.closing(BuiltIn(fault=silent_at("list-tube-used"), limits=limits)) as target:
        monkeypatch.setattr(target, "note_hang", lambda: noted.append(True))
        assert target.settled_within == limits.alive
        session = Exploration(1).session(target)
        session.ask(1, b"list-tube-used\r\n")
        with pytest.raises(Violation):
            session.flush()
        session.abandon()
        assert noted
        assert target.settled_within == limits.alive / FEWER


def test_where_it_has_hung_before_it_is_seen_soon_that_it_hangs_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_nobody_starve(monkeypatch)
    key, limits = awaited(b"kick 1", "KICKED"), replace(USUAL, alive=0.2)
    with (
        contextlib.closing(BuiltIn(fault=silent_at("list-tube-used"), limits=limits)) as hangs,
        contextlib.closing(BuiltIn()) as serves,
    ):
        wait = Awaiting(hangs, key, 0.0)
        time.sleep(LEAST_ALIVE)
        assert not wait.finds_hang()
        for target in (hangs, serves):
            target.learnt.silences.hung(b"put", 1.0)
        waits = [Awaiting(target, key, 0.0) for target in (hangs, serves)]
        time.sleep(LEAST_ALIVE)
        assert [wait.finds_hang() for wait in waits] == [True, False]
        # Nobody looks twice, nor at once.
        assert not waits[0].finds_hang()
        assert not Awaiting(hangs, key, 6000.0).finds_hang()


def test_a_dialogue_with_a_server_that_hangs_again_ends_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_nobody_starve(monkeypatch)
    limits, seconds = replace(USUAL, reply=8.0, alive=0.2), []

    def asks(client: Connection) -> None:
        begun = time.monotonic()
        try:
            client.send("list-tube-used").any_reply()
        finally:
            seconds.append(time.monotonic() - begun)

    with contextlib.closing(BuiltIn(fault=silent_at("list-tube-used"), limits=limits)) as target:
        target.learnt.silences.hung(b"put", 1.0)
        outcome = run(asks, {"client": None}, target)
    assert isinstance(outcome.error, TargetLost)
    assert limits.reply / FEWER < seconds[0] < limits.reply


def test_a_server_that_floods_is_not_waited_for() -> None:
    ours, theirs = socket.socketpair()

    def floods() -> None:
        with theirs, contextlib.suppress(OSError):
            while True:
                theirs.sendall(bytes(2**16))

    thread = threading.Thread(target=floods)
    thread.start()
    known, begun = Learnt(), time.monotonic()
    known.hang_up(Transport(ours), 100.0)
    assert time.monotonic() - begun < 100.0
    assert known.silences.ignores_ends
    thread.join()
