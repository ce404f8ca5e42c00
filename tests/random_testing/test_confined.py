"""Replays on a server that others use: nothing of theirs is touched, nothing of ours is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.random_testing.confined import Confinement
from conformance.random_testing.replay import program_of
from conformance.random_testing.replay_verdict import replayed
from conformance.random_testing.steps import Ask
from conformance.reading import parse
from conformance.target.address import Address, ask, connect
from conformance.target.builtin import BuiltIn
from conformance.target.footprint import NAMES
from conformance.target.launched_target import LaunchedTarget
from conformance.target.target import Remote
from conformance.target.transport import Transport
from reference_server.faults import Fault
from reference_server.model import Model
from reference_server.profiles import PROFILES
from reference_server.state import Client
from reference_server.wire import Reply
from tests.faults import found_by_tests
from tests.foreign_jobs import Server, known, of_fault
from tests.parts import sample
from tests.servers import REFERENCE_COMMAND

GOES_EVERYWHERE = r"""
A > put 0 0 60 1\r\na\r\n
A < INSERTED 1\r\n
A > put 0 3600 60 1\r\nb\r\n
A < INSERTED 2\r\n
B > watch tube-0\r\n
B > reserve\r\n
B > bury 1 0\r\n
B > reserve-with-timeout 0\r\n
A > kick 100\r\n
A > use tube-1\r\n
A > peek-ready\r\n
A > kick 100\r\n
A > pause-tube default 3600\r\n
A > pause-tube tube-0 3600\r\n
C > put 0 0 60 1\r\nc\r\n
C < INSERTED 3\r\n
C > stats-job 3\r\n
C > delete 3\r\n
C > list-tube-used\r\n
C > reserve-with-timeout 0\r\n
C > quit\r\n
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with closing(BuiltIn()) as running:
        begun = Server(running.address)
        with closing(begun.client):
            yield begun


def _replay(folder: Path, server: Server, text: str, *more: str) -> int:
    file = folder / "some.transcript"
    file.write_text(text, encoding="utf-8")
    return main(["replay", str(file), f"--target={server.name}", *more])


def test_a_replay_keeps_to_tubes_and_jobs_of_its_own(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = server.seen()
    assert _replay(tmp_path, server, GOES_EVERYWHERE) == 0
    told = capsys.readouterr().out
    assert "allowed by profile 1.13" in told
    assert "nothing was left on the server\n" in told
    assert server.seen() == before
    assert server.tubes() == ["default", "tube-0"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (r"delete 37\r\n", "is about a job that the transcript has not put"),
        (r"bury 370 0\r\n", "is about a job that the transcript has not put"),
        (r"touch 4294967333\r\n", "is about a job that the transcript has not put"),
        (r"stats-job 37x\r\n", "is about a job that the transcript has not put"),
        (r"put 0 0 60 9\r\ndelete 37\r\n", "contains a command"),
        (r"put 0 0 60 9\r\nuse tube-0\r\n", "contains a command"),
        (r"put 0 0 60 1 delete 37\r\na\r\n", "contains a command"),
        (r"flush-tube default\r\n", "is no command of the protocol"),
        (r"use\tdefault\r\n", "is no command of the protocol"),
        (r"DELETE 37\r\n", "is no command of the protocol"),
        ("delete 3", "is not a whole line"),
    ],
)
def test_a_line_that_may_touch_what_belongs_to_others_is_refused(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, why: str
) -> None:
    before = server.seen()
    begin = r"A > put 0 0 60 1\r\na\r\n" + "\n" + r"A < INSERTED 1\r\n" + "\n"
    assert _replay(tmp_path, server, f"{begin}A > {line}\nA < BAD_FORMAT\\r\\n\n") == 4
    told = capsys.readouterr()
    assert f"” {why}" in told.err
    assert told.err.count("\n") == 1
    assert server.seen() == before


def test_a_wait_that_nobody_lives_through_is_refused(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "A > list-tube-used\\r\\n\nA < USING default\\r\\n\n+ 3000000s\nA > list-tubes\\r\\n\n"
    assert _replay(tmp_path, server, text) == 4
    refused = ": it waits for 3,000,000 s, which needs a clock that can be moved\n"
    assert refused in capsys.readouterr().err


def test_a_body_may_come_in_pieces(server: Server, tmp_path: Path) -> None:
    put = (
        "A > put 0 0 60 9\\r\\n\nA > one\\r\\n\nA > two\\r\\nreserve\\r\\n\nA < INSERTED 1\\r\\n\n"
    )
    assert _replay(tmp_path, server, put) == 0
    assert server.tubes() == ["default", "tube-0"]


@pytest.mark.parametrize("name", [r"default\x00x", r"\xffdefault", r"\tdefault", "default x"])
def test_a_name_that_a_server_may_read_as_that_of_others(name: str) -> None:
    program = program_of(parse(rf"A > use {name}\r\n"))
    (sent,) = Confinement().confined(program)
    assert isinstance(sent, Ask)
    assert b"default" not in sent.text
    assert NAMES.encode() in sent.text


def _named(address: Address) -> str:
    """Return an address as it is given on the command line."""
    assert isinstance(address, tuple)
    return f"{address[0]}:{address[1]}"


def test_unsafe_sends_the_very_bytes(server: Server, tmp_path: Path) -> None:
    text = rf"A > delete {server.jobs[0]}" + "\\r\\n\n"
    assert _replay(tmp_path, server, text) == 4
    assert _replay(tmp_path, server, text, "--unsafe") == 1
    assert len(server.seen()[0]) == 0


def test_bytes_without_meaning_are_refused(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _replay(tmp_path, server, "A > sta\\rts \\xff%d\nB > kick 7x\\r\\n\nA ! resets\n") == 4
    assert "these bytes may mean anything" in capsys.readouterr().err


def test_without_tubes_all_have_one_queue() -> None:
    with (
        closing(BuiltIn(PROFILES["0.6"])) as running,
        pytest.raises(Exception, match="one queue for the jobs of all"),
    ):
        replayed(Remote(_named(running.address)), PROFILES["0.6"], parse("A > reserve\\r\\n\n"))


def test_a_client_that_comes_back_begins_in_our_tube(server: Server, tmp_path: Path) -> None:
    before = server.seen()
    text = r"A > use a\r\n|A < USING a\r\n|A ! closes|A > reserve-with-timeout 0\r\nkick 9\r\n|"
    assert _replay(tmp_path, server, text.replace("|", "\n")) == 0
    assert server.seen() == before


def test_a_failure_is_found_all_the_same_and_leaves_nothing(tmp_path: Path) -> None:
    def bury(self: Model, conn: Client, id: int, pri: int) -> Reply:
        return Reply("BURIED") if self.jobs[id].pri else Reply("NOT_FOUND")

    fault = Fault("bury.buried", "never buries", model=type("Faulty", (Model,), {"_bury": bury}))
    text = r"A > put 0 0 60 1\r\na\r\n|A < INSERTED 1\r\n|A > reserve\r\n|A > bury 1 0\r\n|"
    with closing(BuiltIn(fault=fault)) as running:
        server = Server(running.address)
        with closing(server.client):
            before = server.seen()
            assert _replay(tmp_path, server, text.replace("|", "\n")) == 1
            assert server.seen() == before
            assert server.tubes() == ["default", "tube-0"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_replay_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "some.transcript"
    file.write_text("A > put 0 0 60 1\\r\\na\\r\\n\nA < INSERTED 1\\r\\n\n+ 600s\n")
    with closing(LaunchedTarget(REFERENCE_COMMAND)) as running:
        command = [
            sys.executable,
            "-m",
            "conformance",
            "replay",
            str(file),
            f"--target={_named(running.address)}",
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        with closing(Transport(connect(running.address, 10.0))) as client:
            limit = time.monotonic() + 60
            while b"current-jobs-ready: 1" not in (ask(client, b"stats", 10.0).body or b""):
                assert time.monotonic() < limit
                threading.Event().wait(0.05)
            process.send_signal(number)
            told, _ = process.communicate(timeout=60)
            assert b"current-jobs-ready: 0" in (ask(client, b"stats", 10.0).body or b"")
        assert told == "nothing was left on the server\ninterrupted\n"
        assert process.returncode == 2


@pytest.mark.parametrize("name", sample(sorted(found_by_tests()), 60))
def test_replaying_the_failure_of_a_fault_leaves_others_alone(name: str) -> None:
    """All are replayed by ``python -m tests.foreign_jobs``."""
    replay = of_fault(name)
    assert replay is None or replay.harm == ""


@pytest.mark.campaign
def test_replaying_known_transcripts_leaves_others_alone() -> None:
    harm = {replay.name: replay.harm for replay in known()}
    assert len(harm) > 10
    assert set(harm.values()) == {""}
