"""What a terminal shows while the suite runs, and what CI does not."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import subprocess
import sys
import termios

from tests.command_line import FAST
from tests.servers import REFERENCE_COMMAND


def on_a_terminal(*arguments: str, ci: bool = False) -> str:
    """Run the suite on a terminal of its own; return all that it has written there."""
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "CI"}
    process = subprocess.Popen(
        [sys.executable, "-m", "conformance", "run", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env=environment | ({"CI": "true"} if ci else {}),
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:
            break
        if not data:
            break
        written += data
    os.close(ours)
    process.wait(30)
    return written.decode(errors="replace")


def test_a_terminal_shows_what_is_running_and_how_much_is_done() -> None:
    for more in ((), ("-n", "2", f"--launch={REFERENCE_COMMAND}")):
        shown = on_a_terminal("-k", "any_program", "--examples=8", *more)
        assert re.search(r"\r\x1b\[K0/1  [0-9]:[0-9]{2}  any program", shown)
        assert "1 passed" in shown


def test_deviations_are_shown_as_they_come() -> None:
    fault = f"{REFERENCE_COMMAND} --fault a-peek-counts-as-a-reservation"
    shown = on_a_terminal("conformance.tests.test_peek", f"--launch={fault}")
    before, _, after = shown.partition("fail: peek.changes-nothing: expected")
    assert after
    assert "REQUIREMENT" not in before


def test_ci_gets_dots() -> None:
    assert "\x1b[K" not in on_a_terminal(FAST, ci=True)
