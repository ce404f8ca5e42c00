"""macOS and Windows, simulated: nothing needs there what only Linux or POSIX has to be imported.

Not simulated: their sockets, paths, line ends and processes; the workflow runs on both systems.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.target.command import NO_LAUNCH
from conformance.target.launch import Launched
from tests import ROOT
from tests.elsewhere import SYSTEMS
from tests.servers import REFERENCE_COMMAND

BOTH = pytest.mark.parametrize("system", SYSTEMS)
NO_UTF_8 = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
"""An encoding of files that is not UTF-8, as on Windows."""
OUTPUT = {"PYTHONIOENCODING": "cp1252"}


def on(system: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.elsewhere", system, *arguments],
        cwd=ROOT,
        env={**os.environ, **NO_UTF_8, **OUTPUT},
        capture_output=True,
        encoding="cp1252",
        timeout=120,
    )


@BOTH
def test_all_modules_can_be_imported(system: str) -> None:
    done = on(system, "import")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 200


@pytest.mark.parametrize(
    ("system", "tests"),
    [
        ("windows", "target/test_transport.py"),
        ("macos", "run/test_interruption.py::test_the_folder_of_a_clock_goes_with_the_next_run"),
    ],
)
def test_what_has_another_way_there_works(system: str, tests: str) -> None:
    done = on(system, "pytest", "-q", "-p", "no:cacheprovider", f"tests/{tests}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@BOTH
def test_a_server_that_runs_is_tested(system: str, tmp_path: Path) -> None:
    wanted = "peek. or put.draining or stats.pid"
    with Launched(REFERENCE_COMMAND) as server:
        target = "--target={}:{}".format(*server.address)
        done = on(system, "console", "run", "-q", target, "-k", wanted, f"--report={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no deviation" in done.stdout
    assert (tmp_path / "report.html").is_file()


def test_windows_launches_no_server_and_says_so_in_one_sentence() -> None:
    done = on("windows", "console", "run", "-q", f"--launch={REFERENCE_COMMAND}", "-k", "use.")
    assert done.returncode == 4, done.stdout + done.stderr
    assert NO_LAUNCH in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_macos_launches_servers() -> None:
    done = on("macos", "console", "run", "-q", f"--launch={REFERENCE_COMMAND}", "-k", "use.")
    assert done.returncode == 0, done.stdout + done.stderr


@BOTH
def test_the_built_in_server_is_tested(system: str) -> None:
    done = on(system, "console", "run", "-q", "-k", "use. or put.draining or stats.pid")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "needs a system that shows processes in /proc" in done.stdout
    missing = "needs a system with the signal SIGUSR1" in done.stdout
    assert missing == (system == "windows")


def test_unix_sockets_are_missed_in_one_sentence() -> None:
    done = on("windows", "console", "run", "-q", "--target=unix:/tmp/beanstalk", "-k", "use.")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "this system has no UNIX sockets" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
