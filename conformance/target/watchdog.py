"""Ends launched servers, even if this process is killed or they daemonise.

Each of them has a mark in its environment, which all that it starts inherits. A process that
watches over us kills what has our mark when our end of its standard input is closed. Where there is
no /proc, only process groups are ended, by the process that started them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ENDINGS = [one for one in signal.Signals if one.name in ("SIGINT", "SIGTERM", "SIGHUP")]
"""Signals that end a program, unless it minds them; Windows has no SIGHUP."""
_NAME = "BEANSTALK_CONFORMANCE_LAUNCH"
_TRIES = 100
_START = 19
"""The place of the start in a process's stat, counted from the end of its name."""
_run = secrets.token_hex(8)
_numbers = itertools.count(1)


def take_endings_for_interrupts() -> None:
    """Handle every ending signal as Ctrl-C, so that this program cleans up before it ends.

    One that is ignored stays so, as nohup has it.
    """
    for number in set(ENDINGS) - {signal.SIGINT}:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def new_mark() -> Mapping[str, str]:
    """Return what marks another server, as its environment; begin to watch if need be."""
    _watch()
    return {_NAME: f"{_run}-{next(_numbers)}."}


@cache
def _watch() -> subprocess.Popen[bytes]:
    # By itself, without packages: it is there before a server is, and takes little memory.
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, _run],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill_marked(mark: Mapping[str, str]) -> None:
    """Kill all processes with a mark."""
    for value in mark.values():
        _kill(value, _begun(_watch().pid))


def _kill(beginning: str, since: int) -> None:
    """Kill all processes whose mark begins like this, and those that they start meanwhile.

    ``since``: none of them has begun before this clock tick.
    """
    for _ in range(_TRIES):
        found = set(_marked(beginning, since))
        for pid in filter(None, found):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return
        time.sleep(0.01)


def _marked(beginning: str, since: int) -> Iterator[int | None]:
    """Yield processes with such a mark, and None for each that may have one unseen."""
    wanted = f"{_NAME}={beginning}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            values = (folder / "environ").read_bytes()
            if any(value.startswith(wanted) for value in values.split(b"\0")):
                yield int(folder.name)
            # It has no environment while it becomes another program. Nor has one that has ended,
            # and is not waited for yet; but that has no program either.
            elif not values and os.readlink(folder / "exe") and _begun(int(folder.name)) >= since:
                yield None


def _begun(pid: int) -> int:
    """Return when a process began, in clock ticks since the machine started; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_START])
    return 0


def _main(run: str) -> None:
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    _kill(f"{run}-", _begun(os.getpid()))


if __name__ == "__main__":
    _main(sys.argv[1])
