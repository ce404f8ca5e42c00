"""The command line, run as users run it."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

from conformance.__main__ import main

FAST = "conformance.tests.test_use::test_use_names_the_tube_now_used"
"""A test that takes no time, so that no other module is read."""
TIMED = "put_delay or put_ttr or with_timeout or deadline_soon or pause_tube"
"""Files whose tests wait for most of what takes time."""


def suite(
    *arguments: str, cwd: Path | None = None, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the suite as a user would, by the console script; ``path``: where modules are found."""
    command = [sys.executable, "-m", "conformance", "run"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "-q", "--fuzz-time=0.5", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
        env=environment,
    )


def refuses(done: subprocess.CompletedProcess[str], sentence: str) -> None:
    """Check that a command has refused its input, with this sentence and no traceback."""
    assert done.returncode == 4, done.stdout + done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of ``beanstalk-conformance``."""
    line = [sys.executable, "-m", "conformance", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=300)


def check_text(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run ``check`` on a text, kept in a file of this folder; in this process, which is faster."""
    file = folder / "some.transcript"
    file.write_text(text, encoding="utf-8")
    line = ["check", str(file), *options]
    told, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(complained):
        code = main(line)
    return subprocess.CompletedProcess(line, code, told.getvalue(), complained.getvalue())
