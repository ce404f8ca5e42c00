"""Transcripts tell all that led to a finding: signals, restarts, counters, and what was wild."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.oracle.check import check
from conformance.oracle.diagnosis import Diagnosis, diagnose
from conformance.oracle.oracle import Oracle
from conformance.oracle.violation import Violation
from conformance.random_testing.exploration import Exploration
from conformance.reading import parse
from conformance.target.builtin import BuiltIn
from conformance.target.launch import Launched
from conformance.target.limits import Limits
from conformance.transcript import NotATranscript, Transcript
from conformance.verdict import Outage, OutcomeKind
from fuzz.campaign import ProgramCampaign
from reference_server.faults import Fault
from reference_server.model import Model
from reference_server.profiles import NEWEST
from reference_server.state import Client
from reference_server.wire import INSERTED, Put, Reply
from tests.command_line import check_text, command
from tests.servers import REFERENCE_COMMAND, changed_server

RESTARTED = r"""
A > put 0 0 60 1\r\na\r\n
A < INSERTED 1\r\n
! restarts
B > peek 1\r\n
"""
DRAINING = r"""
A > put 0 0 60 1\r\na\r\n
A < INSERTED 1\r\n
! SIGUSR1
A > put 0 0 60 1\r\na\r\n
A < DRAINING\r\n
A > put 0 0 60 1\r\na\r\n
"""


@pytest.mark.parametrize(
    ("text", "exit_code"),
    [
        (RESTARTED + "B < NOT_FOUND\\r\\n", 0),
        (RESTARTED + "B < FOUND 1 1\\r\\na\\r\\n", 0),
        # What a server keeps is de-facto in all texts; what no server does is not.
        (RESTARTED + "B < FOUND 1 1\\r\\nb\\r\\n", 0),
        (RESTARTED + "B < DELETED\\r\\n", 1),
        (RESTARTED.replace("! restarts\n", "") + "B < NOT_FOUND\\r\\n", 1),
        (DRAINING + "A < DRAINING\\r\\n", 0),
        (DRAINING + "A < INSERTED 2\\r\\n", 1),
        (DRAINING.replace("! SIGUSR1\n", "") + "A < DRAINING\\r\\n", 1),
    ],
)
def test_what_happens_to_the_target_is_judged(tmp_path: Path, text: str, exit_code: int) -> None:
    done = check_text(tmp_path, text)
    assert (done.returncode, done.stderr) == (exit_code, ""), done.stdout


@pytest.mark.parametrize("text", [RESTARTED, DRAINING])
def test_what_happens_to_the_target_is_driven_again(tmp_path: Path, text: str) -> None:
    file = tmp_path / "some.transcript"
    file.write_text(text, encoding="utf-8")
    done = command("replay", str(file), "--launch", REFERENCE_COMMAND)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    with Launched(REFERENCE_COMMAND) as server:
        host, port = server.address
        done = command("replay", str(file), "--target", f"{host}:{port}")
    assert done.returncode == 4
    assert "needs --launch" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_long_transcript_shows_what_the_marked_message_is_about() -> None:
    transcript = Transcript()
    for number in range(400):
        transcript.add("AB"[number % 2], ">", b"delete %d\r\n" % (1000 + number), 0.0)
        if number == 100:
            transcript.add("B", ">", b"touch 77\r\n", 0.0)
            transcript.add("", "!", b"SIGUSR1", 0.0)
    transcript.add("C", ">", b"peek 77\r\n", 0.0)
    for _ in range(50):
        transcript.add("A", ">", b"stats\r\n", 0.0)
    transcript.add("C", "<", b"NOT_FOUND\r\n", 0.0)
    text = transcript.render(transcript.last)
    for line in ("B > touch 77", "! SIGUSR1", "C > peek 77", "… 89 messages …"):
        assert line in text
    assert len(text.splitlines()) < 50


def test_what_nobody_can_judge_is_driven_again(tmp_path: Path) -> None:
    crash = """
        from reference_server.wire import requests as wire
        parse = wire.parse_line
        def crash(line, profile):
            return os._exit(3) if line == b"kick 7x" else parse(line, profile)
        wire.parse_line = crash
    """
    file = tmp_path / "wild"
    file.write_text("A > sta\\rts \\xff%d\nB > kick 7x\\r\\n\nA ! resets\n", encoding="utf-8")
    done = command("replay", str(file), "--launch", changed_server(tmp_path, crash))
    assert (done.returncode, done.stderr) == (1, "")
    assert "the target crashed: exited with status 3\nLEVEL     must" in done.stdout
    done = command("replay", str(file), "--launch", REFERENCE_COMMAND)
    assert (done.returncode, done.stderr) == (0, "")


def test_one_crash_has_one_name() -> None:
    judged = parse("A > use a\\r\\nput 0 0 1 7\\r\\n\nA ! closed by the target\n").entries
    outage = Outage(OutcomeKind.CRASHED, "ended by SIGSEGV")
    one = diagnose(Violation(["INSERTED 1"], str(outage), 1, outage), judged, NEWEST)
    other = Diagnosis("a server that goes on", str(outage), behind="put", outage=outage)
    assert one.name == other.name == "the-target-crashed-ended-by-sigsegv-behind-put"


def test_a_finding_about_counters_tells_what_was_counted_before(tmp_path: Path) -> None:
    class Extra(Model):
        """The connections of clients that put are counted twice."""

        def _put(self, conn: Client, put: Put) -> None:
            self.total_connections += 1
            super()._put(conn, put)

    server = BuiltIn(fault=Fault("", "counts twice", model=Extra), limits=Limits(reply=1.0))
    exploration = Exploration(3, folder=tmp_path)
    finding = ProgramCampaign(exploration, server).run(3)
    server.close()
    assert finding is not None
    exploration.deviation(finding, Transcript())
    (path,) = tmp_path.glob("*/transcript")
    text = path.read_text(encoding="utf-8")
    found = check(parse(text), NEWEST)
    assert found is not None
    assert "total-connections" in found.expected
    assert found.level == "must"
    before = next(line for line in text.splitlines() if line.startswith("# Counted before"))
    assert check(parse(text.replace(before, "")), NEWEST) is None
    with pytest.raises(NotATranscript, match="has no valid counters"):
        parse("# Counted before: [1, {}]\n")


def test_what_a_campaign_counts_is_carried_from_program_to_program() -> None:
    server = BuiltIn()
    session = Exploration(1).session(server)
    for _ in range(2):
        session.begin()
        session.ask(1, b"put 0 0 60 1\r\na\r\n", tag=1)
        session.ask(2, b"stats\r\n")
        session.finish()
        assert check(session.transcript, NEWEST) is None
    session.abandon()
    server.close()


def test_a_target_may_be_quiet_before_it_comes_to_a_signal() -> None:
    oracle = Oracle()
    oracle.connect(1)
    oracle.sent(1, b"put 0 0 60 1\r\na\r\n", 1)
    oracle.received(1, INSERTED(1), 2)
    oracle.drains(3)
    oracle.quiet(4)
    oracle.sent(1, b"put 0 0 60 1\r\na\r\n", 5)
    oracle.received(1, Reply("DRAINING"), 6)
