"""Targets that hang, or flood: they are restarted, and nobody waits for them twice."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.oracle.violation import Violation
from conformance.random_testing.exploration import Exploration
from conformance.target.builtin import BuiltIn
from conformance.target.launched_target import LaunchedTarget
from conformance.target.limits import USUAL
from conformance.target.transport import Transport
from conformance.verdict import Outage, OutcomeKind
from tests.servers import REFERENCE_COMMAND, changed_server, let_nobody_starve, silent_at

HANGS = """
    import time
    from reference_server.wire import Reply

    plain = Reply.encode
    Reply.encode = lambda self: plain(self).replace(b'version: "1', b'version: "x')
    Model._reserve_job = lambda self, *_: time.sleep(10**6)
"""
"""It does not tell its version, so that its profile is found out by its answers."""
QUICK = replace(USUAL, detection=0.5, reply=1.0, alive=1.0)


def test_a_server_that_hangs_at_a_probe_is_restarted(tmp_path: Path) -> None:
    target = LaunchedTarget(changed_server(tmp_path, HANGS), "real", limits=QUICK)
    try:
        target.probe()
        assert target.generation > 0
        assert target.outage() is None
        assert target.traits.pipelines
        assert set(target.traits.unusable) == {"reserve-job"}
        assert target.traits.unusable["reserve-job"].outage
    finally:
        target.close()


def test_a_server_that_hangs_is_restarted_without_being_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = LaunchedTarget(REFERENCE_COMMAND, "real")
    try:
        before = target.generation
        target.signal(signal.SIGSTOP)
        how = "a new client got no answer within 2 seconds"
        assert target.outage() == Outage(OutcomeKind.HANGS, how)
        with monkeypatch.context() as patch:
            patch.setattr(target, "_outage", lambda _: pytest.fail("it was asked again"))
            target.restore()
        assert target.generation == before + 1
        assert target.outage() is None
        with monkeypatch.context() as patch:
            patch.setattr(target, "_outage", lambda _: pytest.fail("it was asked"))
            target.note_hang()
            target.restore()
    finally:
        target.close()


def test_a_conversation_with_a_server_that_serves_nobody_shows_a_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_nobody_starve(monkeypatch)
    limits, noted = replace(USUAL, reply=1.0, alive=0.2), []
    with contextlib.closing(BuiltIn(fault=silent_at("list-tube-used"), limits=limits)) as target:
        monkeypatch.setattr(target, "note_hang", lambda: noted.append(True))
        session = Exploration(1).session(target)
        session.ask(1, b"list-tube-used\r\n")
        with pytest.raises(Violation):
            session.flush()
        session.abandon()
        assert noted


def test_a_server_that_floods_is_not_waited_for() -> None:
    ours, theirs = socket.socketpair()

    def floods() -> None:
        with theirs, contextlib.suppress(OSError):
            while True:
                theirs.sendall(bytes(2**16))

    thread = threading.Thread(target=floods)
    thread.start()
    begun = time.monotonic()
    assert not Transport(ours).hang_up(100.0)
    assert time.monotonic() - begun < 100.0
    thread.join()
