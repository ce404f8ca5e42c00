"""The wall clock that a target sees: it can be set, as an administrator or NTP sets it.

The steady clock, by which durations should be measured, goes on as it did.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from conformance.target.clock import FOLDER, clear_leftovers, clock_home

SETTABLE = "settable"
"""The configuration of a server whose wall clock can be set."""


class WallClock:
    """The time since 1970, in nanoseconds, which :meth:`set` moves by seconds."""

    def __init__(self) -> None:
        self._ahead = 0

    def __call__(self) -> int:
        return time.time_ns() + self._ahead * 10**9

    def set(self, seconds: int) -> None:
        """Set the clock forward by so many seconds, or back."""
        self._ahead += seconds


class FakeWallClock(WallClock):
    """The wall clock of a launched server, under libfaketime."""

    def __init__(self, library: Path) -> None:
        super().__init__()
        clear_leftovers()
        self._library = library
        self._folder = tempfile.TemporaryDirectory(
            prefix=f"{FOLDER}{os.getpid()}-", dir=clock_home()
        )
        self._file = Path(self._folder.name) / "ahead"
        self._write()

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that the server needs when it is started."""
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, seconds: int) -> None:
        super().set(seconds)
        self._write()

    def _write(self) -> None:
        new = self._file.with_name("new")
        new.write_text(f"{self._ahead:+d}\n")
        os.replace(new, self._file)

    def close(self) -> None:
        """Remove the files of the clock."""
        self._folder.cleanup()
