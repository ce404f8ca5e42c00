"""Transcripts as people have them: pasted, from standard input, and very long ones."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from conformance.console import progress
from conformance.oracle.check import check
from conformance.oracle.judge import Judge
from conformance.reading import parse
from conformance.recorded import PackedEntries, Recorded
from conformance.transcript import Entry, NotATranscript
from tests.command_line import check_text

FAILURE = r"""
        ________________ FAIL ignore.not-ignored and 1 more ________________
        REQUIREMENT ignore.not-ignored (must; protocol-1.12, Worker Commands)
          “"NOT_IGNORED\r\n" if the client attempts to ignore
          the only tube in its watch list.”
        TRANSCRIPT
          A > use a\r\nwatch a\r\n
          A < USING a\r\n
          A < WATCHING 2\r\n
          + 2s
          A > ignore a\r\nignore default\r\n
          A < WATCHING 1\r\n
        > A < WATCHING 0\r\n
        EXPECTED  NOT_IGNORED\r\n
        OBSERVED  WATCHING 0\r\n
        TARGET SAID
          watching nothing
        REPRODUCE pytest --pyargs 'conformance.tests.test_worker::test_x'
        BREAKS    ignore.watching
"""


@pytest.mark.parametrize("quote", ["", "> ", "    "])
def test_a_failure_is_taken_as_it_was_pasted(tmp_path: Path, quote: str) -> None:
    text = "\n".join(quote + line for line in FAILURE.splitlines())
    done = check_text(tmp_path, text)
    assert (done.returncode, done.stderr) == (1, "")
    assert (
        "> A < WATCHING 0\\r\\n\nEXPECTED  NOT_IGNORED\\r\\n\nOBSERVED  WATCHING 0" in done.stdout
    )
    assert len(parse(text).entries) == 7


def test_what_check_says_is_taken_by_check(tmp_path: Path) -> None:
    first = check_text(tmp_path, FAILURE)
    assert check_text(tmp_path, first.stdout).stdout == first.stdout


def test_two_failures_are_one_too_many() -> None:
    with pytest.raises(NotATranscript, match="begins another failure"):
        parse(FAILURE + FAILURE)


def test_standard_input() -> None:
    command = [sys.executable, "-m", "conformance", "check", "-"]
    done = subprocess.run(command, input=FAILURE, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert "EXPECTED  NOT_IGNORED" in done.stdout
    wrong = subprocess.run(command, input="nonsense", capture_output=True, text=True)
    assert wrong.returncode == 4
    assert wrong.stderr.startswith("beanstalk-conformance check: standard input: line 1 is not")


def talk(rounds: int) -> str:
    """Return a conversation of two clients that goes well."""
    return "".join(
        f"A > put 0 0 60 1\\r\\na\\r\\n\nA < INSERTED {number}\\r\\n\nB > reserve\\r\\n\n"
        f"B < RESERVED {number} 1\\r\\na\\r\\n\nB > delete {number}\\r\\n\nB < DELETED\\r\\n\n"
        for number in range(1, rounds + 1)
    )


def test_packed_entries_are_what_they_were() -> None:
    entries = [*parse(FAILURE).entries, Entry("B", "!", b"closes", 2.0)]
    packed = PackedEntries()
    for entry in entries:
        packed.append(entry)
    assert list(packed) == entries
    assert packed[1:-1] == entries[1:-1]
    assert packed[-1] == entries[-1]


def test_a_long_transcript_takes_little_more_than_its_bytes() -> None:
    text = talk(2000)
    tracemalloc.start()
    try:
        recorded = Recorded.of(text.splitlines())
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(recorded.entries) == 12_000
    # It may be 100 MB long, and 500 MB are too many; the lines of the text are counted, too.
    assert size < 3.5 * len(text)


def test_what_is_done_in_a_long_transcript_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    judges: list[Judge] = []
    made = Judge.__init__

    def keep(judge: Judge, *args: object, **kwargs: object) -> None:
        made(judge, *args, **kwargs)  # type: ignore[arg-type]
        judges.append(judge)

    monkeypatch.setattr(Judge, "__init__", keep)
    shares: list[float] = []
    assert check(Recorded.of(talk(2000).splitlines()), progress=shares.append) is None
    assert shares == sorted(shares)
    assert len(shares) > 4
    for judge in judges:
        assert all(len(client.items) < 200 for client in judge.oracle.clients.values())
        assert not judge._gear.has_much


def test_what_is_wrong_late_in_a_long_transcript_is_found() -> None:
    text = talk(500) + "A > peek 1\\r\\n\nA < FOUND 1 1\\r\\na\\r\\n\n" + talk(1)
    finding = check(Recorded.of(text.splitlines()))
    assert finding is not None
    assert (finding.position, finding.expected) == (3001, "NOT_FOUND\\r\\n")


def test_progress_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = itertools.count(0.0, progress.IN_A_FILE)
    monkeypatch.setattr("conformance.console.progress.time.monotonic", lambda: next(times))
    shown = progress.ProgressBar("judged")
    shown.show(0.25)
    assert list(shown.watch(["12345\n"] * 3)) == ["12345\n"] * 3
    shown.end()
    assert capsys.readouterr().err == "judged 25 %\njudged 0 MB\n"
