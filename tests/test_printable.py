"""Nothing that a target says reaches a terminal, or a report, as it was said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conformance.oracle.violation import Violation
from conformance.target.address import TargetError
from conformance.verdict import (
    Deviation,
    Inconclusive,
    NotApplicable,
    NotTestable,
    Outage,
    OutcomeKind,
    TargetLost,
)
from tests.command_line import suite
from tests.servers import changed_server

RED = "\x1b[31m\x9b2J\x07"
SAYS = f"""
    from reference_server.wire import Reply
    plain, red, key = Reply.encode, {RED.encode("latin-1")!r}, b"---\\n\\x1b[2J: \\x1b[31m"

    def encode(self):
        if self.word != "OK":
            return plain(self)
        body = self.body.replace(b"version: ", b"version: " + red).replace(b"---", key)
        return b"OK %d\\r\\n%b\\r\\n" % (len(body), body)

    Reply.encode = encode
    print({RED!r}, flush=True)
"""


@pytest.mark.parametrize(
    "error",
    [
        *(
            Deviation(RED, RED),
            TargetLost("a target", Outage(OutcomeKind.GONE, RED)),
            Violation([RED], RED),
        ),
        *(NotTestable(RED), NotApplicable(RED), Inconclusive(RED), TargetError(RED)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_said_of_a_target_is_printable(error: Exception) -> None:
    assert str(error).isprintable()
    assert "\\x1b[31m\\x9b2J\\x07" in str(error)
    if isinstance(error, Deviation):
        assert (error.expected + error.observed).isprintable()


def test_no_escape_sequence_of_a_target_reaches_terminal_or_reports(tmp_path: Path) -> None:
    launch = changed_server(tmp_path, SAYS)
    asked = ("-k", "stats.version or stats.ok or list-tubes", f"--report={tmp_path / 'report'}")
    done = suite("--launch", launch, "--clock=real", "-vv", "-rA", *asked)
    assert done.returncode == 1, done.stdout
    written = {path.name: path.read_text() for path in (tmp_path / "report").glob("*.*")}
    assert {"report.html", "results.json"} <= written.keys()
    for text in (done.stdout, done.stderr, *written.values()):
        assert not {"\x1b", "\x9b", "\x07"} & {*text}


def test_check_shows_no_escape_sequence(tmp_path: Path) -> None:
    file = tmp_path / "transcript"
    file.write_text("A > peek 1\\r\\n\nA < \\x1b[31m\\r\\n\n")
    command = [sys.executable, "-m", "conformance", "check", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "\\x1b[31m" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
