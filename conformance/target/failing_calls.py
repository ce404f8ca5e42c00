"""Makes system calls of a running server fail, with strace."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from conformance.verdict import NotTestable

_SECONDS, _LOOK = 5.0, 0.005
"""The time that strace gets to hold all threads, or to let them go, and between two looks."""
_ROW = re.compile(r"^ *[\d.]+ +[\d.]+ +\d+ +\d+ +(\d+) +\w+$(?<! total)", re.MULTILINE)
"""A call in the table of strace: the fifth number is that of its errors."""
_HELD = re.compile(r"^TracerPid:\s+[1-9]", re.MULTILINE)


def needs_strace() -> None:
    """Raise NotTestable if strace is not installed."""
    if shutil.which("strace") is None:
        raise NotTestable("strace is not installed")


class FailingCalls:
    """Calls that fail with an error, as ``ENFILE``, until :meth:`end`; one in ``step`` of each.

    ``folders``: the processes, by their folders in /proc. Raises NotTestable if strace
    is not there, or may not hold them.
    """

    def __init__(
        self, folders: Sequence[Path], calls: Sequence[str], error: str, step: int = 1
    ) -> None:
        needs_strace()
        # A call that this kind of processor does not have is passed over.
        named = ",".join(f"?{call}" for call in calls)
        held = [part for folder in folders for part in ("-p", folder.name)]
        inject = ["-e", f"trace={named}", "-e", f"inject={named}:error={error}:when={step}+{step}"]
        self._process = subprocess.Popen(
            ["strace", "-f", "-c", *inject, *held],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        end = time.monotonic() + _SECONDS
        while not all(map(_is_held, folders)):
            if self._process.poll() is not None or time.monotonic() > end:
                said = self._detach().strip().partition("\n")[0]
                raise NotTestable(f"strace cannot let calls fail: {said or 'it takes too long'}")
            time.sleep(_LOOK)

    def end(self) -> int:
        """Let them succeed again; return how many have failed."""
        return sum(int(row[1]) for row in _ROW.finditer(self._detach()))

    def _detach(self) -> str:
        self._process.terminate()
        try:
            said = self._process.communicate(timeout=_SECONDS)[1]
        except subprocess.TimeoutExpired:
            # It may wait for ever for a thread of the server that does not stop.
            self._process.kill()
            said = self._process.communicate()[1]
        return said.decode(errors="replace")


def _is_held(process: Path) -> bool:
    """Return whether somebody holds all threads of a process."""
    try:
        threads = [(task / "status").read_text() for task in (process / "task").iterdir()]
    except OSError:
        # One of them has ended meanwhile.
        return False
    return all(map(_HELD.search, threads))
