"""Makes memory allocations of a running server fail, with libfiu."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.target.libraries import library_folders
from conformance.verdict import NotTestable

CONTROLS = "beanstalk-conformance-control-"
"""The beginning of the names of folders by which we control it, before the id of the process."""
_CONTROL = "fiu-ctrl"
_SECONDS = 5.0
"""The time that a process gets to heed it."""
_ALLOCATIONS = "name=libc/mm/*"


class FailingAllocations:
    """The allocations of a server that was started in this :attr:`environment`.

    ``reason``: why they cannot fail, if so.
    """

    def __init__(self) -> None:
        self._libraries = fiu_libraries()
        self.reason = "" if self._libraries else f"libfiu is not installed, or not its {_CONTROL}"
        self._folder = tempfile.TemporaryDirectory(prefix=f"{CONTROLS}{os.getpid()}-")
        self._prefix = str(Path(self._folder.name) / "of")

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that let a server load libfiu, if that can be."""
        if self.reason:
            return {}
        loaded = " ".join(map(str, self._libraries))
        return {"LD_PRELOAD": loaded, "FIU_CTRL_FIFO": self._prefix}

    def from_the_start(self, part: float) -> Mapping[str, str]:
        """Return the variables that let a part of all fail in a server; raises NotTestable."""
        if self.reason:
            raise _cannot_fail(self.reason)
        command = f"enable_random {_ALLOCATIONS},probability={part}"
        return {**self.environment, "FIU_ENABLE": command}

    def fail(self, folders: Sequence[Path]) -> None:
        """Make all allocations of these processes (folders in /proc) fail; raises NotTestable."""
        self._tell("enable", folders)

    def succeed(self, folders: Sequence[Path]) -> None:
        """Let them succeed again."""
        self._tell("disable", folders)

    def _tell(self, what: str, folders: Sequence[Path]) -> None:
        if self.reason:
            raise _cannot_fail(self.reason)
        if not all(map(self._is_loaded, folders)):
            raise _cannot_fail("libfiu cannot be loaded into the server")
        command = [_CONTROL, "-f", self._prefix, "-c", f"{what} {_ALLOCATIONS}"]
        try:
            subprocess.run(
                [*command, *(folder.name for folder in folders)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise _cannot_fail(f"the server does not heed {_CONTROL}") from error

    def _is_loaded(self, folder: Path) -> bool:
        """Return whether a process has libfiu: a static program, for one, loads nothing."""
        try:
            return str(self._libraries[0]) in (folder / "maps").read_text(errors="replace")
        except OSError:
            return False

    def close(self) -> None:
        """Remove what it is controlled by."""
        self._folder.cleanup()


def _cannot_fail(reason: str) -> NotTestable:
    return NotTestable(f"no allocation can be refused: {reason}")


def fiu_libraries() -> list[Path]:
    """Return the libraries that a server is to load; none if they, or the control, are missing."""
    names = ("fiu_run_preload.so", "fiu_posix_preload.so")
    if shutil.which(_CONTROL):
        for folder in library_folders("fiu"):
            found = [folder / name for name in names]
            if all(path.exists() for path in found):
                return found
    return []
