"""A table that is kept up to date on a terminal; elsewhere, nothing is shown."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live


class Display:
    """The place of a live view, while its context lasts."""

    def __init__(self, console: Console | None = None) -> None:
        # Of stdout as it is now.
        self._console = console or Console(file=sys.stdout)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    @property
    def is_live(self) -> bool:
        """Return whether anything is shown."""
        return self._live.is_started

    def update(self, shown: RenderableType) -> None:
        """Show this in the place of what was shown before."""
        if self._live.is_started:
            self._live.update(shown, refresh=True)

    def print(self, line: str) -> None:
        """Print a line above what is shown."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
