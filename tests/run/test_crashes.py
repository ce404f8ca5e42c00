"""A crash of the target is a failure, whatever the test is about in which it happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.random_testing.exploration import Exploration
from conformance.run.runner import run
from conformance.target.builtin import BuiltIn
from conformance.target.launched_target import LaunchedTarget
from conformance.target.target import Target
from conformance.tests.test_stateful import test_any_conversation as any_conversation
from conformance.transcript import RESTARTS, Transcript
from conformance.verdict import Outage, OutcomeKind, TargetLost
from fuzz.test_programs import test_any_program as any_program
from reports.verdicts import Verdict
from tests.command_line import suite
from tests.servers import changed_server

CRASH = """
import signal
from reference_server.wire import requests as wire
parse = wire.parse_line
def crash(line, profile):
    if {when}:
        {how}
    return parse(line, profile)
wire.parse_line = crash
"""
NO_DRAIN_MODE = """
import signal
plain = signal.signal
signal.signal = lambda number, handler: number == signal.SIGUSR1 or plain(number, handler)
"""
SEGV = "os.kill(os.getpid(), signal.SIGSEGV)"


def _crashing(folder: Path, when: str, how: str = SEGV) -> str:
    return changed_server(folder, CRASH.format(when=when, how=how))


@pytest.mark.parametrize("how", [SEGV, "os._exit(3)"])
@pytest.mark.parametrize(
    ("when", "slug"),
    [
        ('line == b"kick 1x"', "quirk.kick-with-letters-behind"),
        ('line == b"quitx"', "quirk.quit-with-letters-behind"),
        ('line == b"STATS"', "error.commands-are-lower-case"),
    ],
)
def test_a_crash_in_a_test_of_any_level_fails(
    tmp_path: Path, how: str, when: str, slug: str
) -> None:
    launch = _crashing(tmp_path, when, how)
    done = suite("--launch", launch, "-k", slug, f"--report={tmp_path}", "--clock=real")
    assert done.returncode == 1, done.stdout
    ended = "exited with status 3" if "exit" in how else "ended by SIGSEGV"
    assert f"{Verdict.FAIL}: {slug}: " in done.stdout
    assert f"the target crashed: {ended}" in done.stdout
    assert "does not conform" in done.stdout


@pytest.mark.parametrize(
    ("profile", "verdict"), [("1.10", Verdict.NON_STRICT), ("1.12", Verdict.FAIL)]
)
def test_the_end_by_a_signal_is_a_crash_only_where_the_text_names_it(
    tmp_path: Path, profile: str, verdict: Verdict
) -> None:
    launch = changed_server(tmp_path, NO_DRAIN_MODE)
    done = suite("--launch", launch, "-k", "put.draining-only-put", f"--profile={profile}")
    assert f"{verdict.words}: put.draining; blocks 1: " in done.stdout
    assert "observed the target crashed: ended by SIGUSR1" in done.stdout


@pytest.mark.parametrize("test", [any_program, any_conversation])
def test_a_crash_in_a_random_conversation_is_named(
    tmp_path: Path, test: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = LaunchedTarget(_crashing(tmp_path, 'line.startswith(b"kick")'), "real")
    exploration = Exploration(40, folder=tmp_path / "findings")
    arguments = {"server": None, "transcript": None, "exploration": exploration}
    try:
        # What is kept of the first run is looked at first by the second.
        for _ in range(2):
            outcome = run(test, arguments, target)  # type: ignore[arg-type]
            assert isinstance(outcome.error, TargetLost)
            assert "the target crashed: ended by SIGSEGV" in str(outcome.error)
            assert not outcome.error.de_facto
            assert any(b"kick" in entry.data for entry in outcome.transcript.entries)
    finally:
        target.close()


def test_a_crash_shows_what_was_sent_in_the_conversation_before() -> None:
    def loses(server: Target, transcript: Transcript, exploration: Exploration) -> None:
        session = exploration.session(server)
        session.ask(1, b"kick 7\r\n", apart=True)
        session.finish()
        session.abandon()
        transcript.add("", "!", RESTARTS, 0.0)
        exploration.session(server)
        raise TargetLost(
            "a server that reports its stats", Outage(OutcomeKind.CRASHED, "it is gone")
        )

    target = BuiltIn()
    arguments = {"server": None, "transcript": None, "exploration": Exploration(1)}
    outcome = run(loses, arguments, target)
    target.close()
    assert isinstance(outcome.error, TargetLost)
    assert "A > kick 7\\r\\n" in outcome.transcript.render()
