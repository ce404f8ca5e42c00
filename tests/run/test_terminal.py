"""The end of a run on a terminal: a root cause once, whatever it breaks, and short."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from conformance.catalogue import TITLES, catalogue
from conformance.run.terminal import COLOURS, FIRST, LINES, SHOWN, cut
from conformance.transcript import Entry, Transcript
from reports.results import Conclusion, read_results
from reports.verdicts import Verdict
from reports.words import counted
from tests.command_line import suite
from tests.servers import REFERENCE_COMMAND, changed_server

MOST = LINES + (SHOWN - 1) * (FIRST + 1) + 10
"""Lines, with three causes in full, and with what pytest says at the beginning and at the end."""
JUNK = r"""
    from reference_server.wire import Reply

    plain = Reply.encode
    Reply.encode = lambda self: plain(self) + (b"" if self.word == "OK" else b"JUNK\r\n")
"""
"""Nearly every reply has a line of junk behind it."""
NO_IDS = r"""
    from reference_server.wire import Reply

    plain = Reply.encode
    Reply.encode = lambda self: b"OK\r\n" if self.word == "INSERTED" else plain(self)
"""
"""Each put is answered wrongly."""

NO_ERRORS = r"""
    from reference_server.wire import Reply

    ERRORS, plain = {"BAD_FORMAT"}, Reply.encode
    Reply.encode = lambda self: b"TOUCHED\r\n" if self.word in ERRORS else plain(self)
"""
"""What is malformed is taken for what it is not, whatever it is: each command has its cause."""


@pytest.mark.parametrize(
    ("change", "broken", "passed"),
    [
        (JUNK, "protocol.serial-replies", set[str]()),
        (NO_IDS, "put.inserted", {"use.using", "watch.watching", "kick.kicked"}),
    ],
)
def test_one_root_cause_is_told_once(
    tmp_path: Path, change: str, broken: str, passed: set[str]
) -> None:
    chosen = "delete. or put.inserted or put.delay or use.using or kick or watch. or serial-replies"
    command = changed_server(tmp_path, change)
    done = suite(f"--launch={command}", "-k", chosen, f"--report={tmp_path}", "--clock=real")
    assert done.returncode == 1, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) <= MOST
    assert done.stdout.count(f"REQUIREMENT {broken} ") == 1
    assert "FAILED" not in done.stdout
    results = read_results(tmp_path / "results.json")
    verdicts = {r.slug: r.verdict for r in results.requirements}
    assert verdicts[broken] is Verdict.FAIL
    assert verdicts["delete.ready"] is Verdict.BLOCKED
    assert {slug for slug in passed if verdicts[slug] is Verdict.PASS} == passed - {"kick.kicked"}
    blocked = [r for r in results.requirements if r.verdict is Verdict.BLOCKED]
    assert len(blocked) > 10
    assert results.verdict.word == "does not conform"
    assert f"blocked by {broken}" in results.verdict.sentence
    assert f" blocked by {broken}" in done.stdout
    # Each is in a report that names its cause.
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(page.count(f'id="{r.slug}"') == 1 for r in results.requirements)
    assert f", blocks {len(blocked)}" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert '<skipped message="blocked: blocked by' in (tmp_path / "junit.xml").read_text()


def test_what_is_blocked_by_what_is_known_does_not_fail_the_run(tmp_path: Path) -> None:
    launch = f"--launch={changed_server(tmp_path, NO_IDS)}"
    chosen = ["-k", "put.inserted or delete.ready", "--clock=real"]
    baseline = tmp_path / "known.yaml"
    assert suite(launch, *chosen, f"--baseline={baseline}", "--update-baseline").returncode == 0
    assert "delete.ready" not in baseline.read_text()
    done = suite(launch, *chosen, f"--baseline={baseline}")
    assert done.returncode == 0, done.stdout
    assert "failed" not in done.stdout
    assert " blocked by put.inserted" in done.stdout
    baseline.write_text("delete.ready: {verdict: fail, reason: issue 17}\n")
    done = suite(launch, *chosen, f"--baseline={baseline}")
    assert done.returncode == 1
    assert "not found any more" not in done.stdout


def test_a_very_wrong_server_fits_on_two_screens(tmp_path: Path) -> None:
    more = '    ERRORS |= {"NOT_FOUND", "KICKED"}'
    launch = f"--launch={changed_server(tmp_path, NO_ERRORS + more)}"
    chosen = ["-k", "test_arguments or test_kick", "--clock=real", "-v"]
    # As without -q and -v.
    done = suite(launch, *chosen)
    lines = done.stdout.splitlines()
    assert "platform " in done.stdout
    assert int(re.findall(r"= (\d+) failed", done.stdout)[0]) > 100
    assert len(lines) <= MOST
    assert len(re.findall(r"^_+ (?:FAIL|DE-FACTO DEVIATION) ", done.stdout, re.M)) == SHOWN
    # The cause that blocks most is shown up to its end.
    first = done.stdout.partition(" FAIL ")[2].partition("\n___")[0]
    for part in ("REQUIREMENT", "TRANSCRIPT", "EXPECTED", "OBSERVED", "REPRODUCE", "BLOCKS"):
        assert f"\n{part}" in first


def test_everything_is_there_for_who_asks(tmp_path: Path) -> None:
    launch = f"--launch={changed_server(tmp_path, NO_ERRORS)}"
    chosen = ["-k", "bad-format", "--clock=real"]
    short, whole = suite(launch, *chosen), suite(launch, *chosen, "-vvv")
    assert short.returncode == whole.returncode == 1
    assert len(short.stdout.splitlines()) <= MOST
    assert "more causes, which break" in short.stdout
    assert "more causes, which break" not in whole.stdout
    assert whole.stdout.count("OBSERVED ") > 20 > short.stdout.count("OBSERVED ") > 0


def test_the_verdict_has_a_colour(tmp_path: Path) -> None:
    assert set(COLOURS) == set(get_args(Conclusion.model_fields["word"].annotation))
    command = changed_server(tmp_path, NO_IDS)
    done = suite(f"--launch={command}", "-k", "put.inserted", "--clock=real", "--color=yes")
    assert re.search(r"\x1b\[31m[^\n]*: does not conform, 1 must requirement broken", done.stdout)


def test_numbers_have_nouns_that_agree() -> None:
    assert [counted(number, "test") for number in (0, 1, 2, 1000)] == [
        *("0 tests", "1 test", "2 tests", "1,000 tests"),
    ]
    transcript = Transcript([Entry("A", ">", b"x" * 201, 0.0)] * 38)
    shown = transcript.render()
    assert "  … 1 message …\n" in shown
    assert "…(1 more byte)…" in shown


def test_documents_are_told_by_their_titles() -> None:
    for requirement in catalogue().values():
        assert requirement.document
        assert "seed" not in requirement.document
    assert len(set(TITLES.values())) == len(TITLES)


def test_a_run_that_passes_is_told_in_a_few_lines() -> None:
    done = suite("-k", "quirk or use.")
    assert done.returncode == 0, done.stdout
    assert len(done.stdout.splitlines()) < 8
    assert "requirements belong to other profiles" in done.stdout
    assert "quirk." not in done.stdout


@pytest.mark.parametrize(("count", "shown"), [(14, 14), (16, 16), (17, 16)])
def test_what_is_cut_has_fewer_lines_and_nothing_twice(count: int, shown: int) -> None:
    lines = cut([f"line {number}" for number in range(count)], 16)
    assert len(lines) == shown
    assert len({*lines}) == shown
    assert any("2 lines" in line for line in lines) is (count > shown)


def _run_alone(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests of a folder, without those of the suite."""
    command = [sys.executable, "-m", "pytest", str(folder), "-q", "-p", "no:cacheprovider"]
    command += [f"--launch={REFERENCE_COMMAND}", "--beanstalk-clock=real"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


_WAITS = """
import pytest
from conformance.verdict import Inconclusive

@pytest.mark.requirement("use.using")
@pytest.mark.parametrize("number", range(12))
def test_of_a_client(client, number: int) -> None:
    told = f"waited {number / 10} s of 5.0 s for a CPU"
    raise Inconclusive(f"the machine was too busy ({told}), 3 times: expected {number}")
"""


def test_reasons_that_differ_only_in_numbers_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "test_waits.py").write_text(_WAITS)
    done = _run_alone(tmp_path)
    told = (
        "12 tests inconclusive: the machine was too busy (waited 0.0 to 1.1 s of 5.0 s for a CPU)"
    )
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("12 tests"))
    assert line.startswith(told)


_LEVELS = """
import pytest
from conformance.verdict import Deviation, OutcomeKind, Step

@pytest.mark.requirement({slug!r})
def test_of_{name}(client) -> None:
    client.is_in_step()
    step = Step(OutcomeKind.WRONG_VALUE, subject="things")
    raise Deviation("one thing", "another thing", step=step)
"""


def test_a_heading_names_the_must_that_a_cause_breaks(tmp_path: Path) -> None:
    # The first one comes first in the text, and is de-facto.
    for name, slug in enumerate(("lifecycle.close-releases-jobs", "use.using")):
        (tmp_path / f"test_{name}.py").write_text(_LEVELS.format(slug=slug, name=name))
    done = _run_alone(tmp_path)
    assert re.search(r"^_+ FAIL use\.using and 1 more _+$", done.stdout, re.MULTILINE), done.stdout
    assert "REQUIREMENT use.using (must; " in done.stdout
    assert "BREAKS    lifecycle.close-releases-jobs (de-facto)" in done.stdout
    assert "  fail: use.using and 1 more: " in done.stdout
