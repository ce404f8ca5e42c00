"""The progress of a long command, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator

ON_A_TERMINAL, IN_A_FILE = 0.5, 10.0
"""Seconds between two progress updates, and before the first one."""
_LINES = 10_000


class ProgressBar:
    """Says ``verb``, and how much is done, now and then."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._lives = sys.stderr.isatty()
        self._every = ON_A_TERMINAL if self._lives else IN_A_FILE
        self._last = time.monotonic()
        self._has_shown = False

    def show(self, share: float) -> None:
        """Show the share that is done."""
        self._say(f"{100 * share:.0f} %")

    def watch(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield lines, and show how many bytes they are."""
        read = 0
        for number, line in enumerate(lines):
            read += len(line)
            if number % _LINES == 0:
                self._say(f"{read / 1e6:.0f} MB")
            yield line

    def end(self) -> None:
        """Take away what a terminal shows."""
        if self._has_shown and self._lives:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _say(self, what: str) -> None:
        if time.monotonic() - self._last < self._every:
            return
        self._last, self._has_shown = time.monotonic(), True
        text = f"{self._verb} {what}"
        sys.stderr.write(f"\r{text}\x1b[K" if self._lives else f"{text}\n")
        sys.stderr.flush()
