"""``draw``: a transcript becomes an SVG file, and bad input one sentence."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.command_line import command
from tests.diagrams.test_diagrams import DELAYED, TWICE, texts


def from_standard_input(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "conformance", "draw", *arguments, "-"]
    return subprocess.run(words, input=text, capture_output=True, text=True, check=False)


def test_a_transcript_from_standard_input_is_drawn_to_standard_output() -> None:
    done = from_standard_input(DELAYED)
    assert (done.returncode, done.stderr) == (0, "")
    told = texts(done.stdout)
    assert {"✕ KICKED 2\\r\\n", "expected KICKED 1\\r\\n", "delayed", "buried"} <= {*told}


def test_a_failure_is_drawn_as_it_was_found(tmp_path: Path) -> None:
    failure = (
        "TRANSCRIPT\n  A > use a\\r\\n\n> A < USING a\\r\\n\n"
        "  A > use b\\r\\n\n  A < USING b\\r\\n\n"
        "EXPECTED  USING a\\r\\n, in time\nOBSERVED  USING a\\r\\n, 0.500 s later than allowed\n"
    )
    file = tmp_path / "failure"
    file.write_text(failure)
    done = command("draw", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert "expected USING a\\r\\n, in time" in texts(done.stdout)


def test_clients_at_the_same_time_get_an_order() -> None:
    told = texts(from_standard_input(TWICE).stdout)
    assert {"1", "2", "expected TIMED_OUT\\r\\n"} <= {*told}


def test_a_pasted_session_has_no_times() -> None:
    done = from_standard_input("put 0 0 60 5\nhello\nINSERTED 1\ndelete 1\nDELETED\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "no times" in texts(done.stdout)
    assert "ready" in texts(done.stdout)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "standard input is empty"),
        ("hello\n", "line 1 is not of a transcript: 'hello'"),
        ("A > a\\r\\n\n  … 12 messages …\n", "line 2 has left out 12 messages"),
    ],
)
def test_bad_input_is_one_sentence(text: str, sentence: str) -> None:
    done = from_standard_input(text)
    assert (done.returncode, done.stdout) == (4, "")
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_files_that_cannot_be_read_or_written_are_one_sentence(tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.write_text(DELAYED)
    for arguments in (
        (str(tmp_path / "missing"),),
        (str(tmp_path),),
        (str(good), "-o", str(tmp_path / "no" / "folder.svg")),
        (str(good), "--profile", "9.9"),
    ):
        done = command("draw", *arguments)
        assert (done.returncode, done.stdout) == (4, "")
        assert len(done.stderr.splitlines()) == 1
    good.write_bytes(b"\xff\xfe")
    assert command("draw", str(good)).returncode == 4


def test_hostile_bytes_are_text(tmp_path: Path) -> None:
    file = tmp_path / "hostile"
    file.write_text("A > stats\\r\\n\nA < <script>alert(1)</script>\\x00\\x1b[31m\\r\\n\n")
    done = command("draw", str(file))
    assert done.returncode == 0
    assert not [e for e in ET.fromstring(done.stdout).iter() if e.tag.endswith("script")]
