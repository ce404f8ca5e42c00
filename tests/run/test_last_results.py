"""The results of a run that names no folder, and what is said at its end."""

from __future__ import annotations

import re
from pathlib import Path

from reports.results import read_results
from tests.command_line import FAST, suite
from tests.run.test_baseline import SAYS_NOTHING
from tests.servers import changed_server

LAST = Path(".beanstalk-conformance", "last")


def test_results_are_kept_and_the_last_line_names_the_page(tmp_path: Path) -> None:
    for options in ([], ["-n2", "-v"]):
        done = suite(FAST, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.splitlines()[-1] == f"report: {LAST / 'report.html'}"
        assert (tmp_path / LAST / "report.html").is_file()
        assert read_results(tmp_path / LAST / "results.json").tests


def test_a_folder_that_cannot_be_written_is_told_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / LAST.parent).touch()
    done = suite(FAST, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert done.stdout.splitlines()[-1].startswith(f"cannot write the report to {LAST}: ")
    assert "Traceback" not in done.stdout + done.stderr


def test_what_runs_nothing_keeps_nothing(tmp_path: Path) -> None:
    suite(FAST, "--collect-only", cwd=tmp_path)
    assert not (tmp_path / LAST.parent).exists()


def test_more_is_said_of_failures_and_not_of_what_passes(tmp_path: Path) -> None:
    server = changed_server(tmp_path, SAYS_NOTHING)
    done = suite(f"--launch={server}", "-k", "use.using or put.inserted", "-vv", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "REQUIREMENT use.using" in done.stdout
    assert "PASSED" not in done.stdout
    assert not re.search(r"::test_", done.stdout.partition(" FAIL ")[0])
