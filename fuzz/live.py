"""The live view of a campaign on a terminal, in the manner of AFL's status screen."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from conformance.display import Display
from fuzz.history import CampaignHistory
from fuzz.progress_updates import ProgressUpdate
from reports.plots import duration

_EVERY = 0.5
"""Seconds between two looks."""


class LiveView(Display):
    """Shows how far a campaign is, on a terminal; elsewhere it only remembers it."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self.history = CampaignHistory()
        self._start = time.monotonic()
        self._shown = 0.0

    def show(self, updates: Sequence[ProgressUpdate]) -> None:
        """Take in the last update of each worker; show them, now and then."""
        seconds = time.monotonic() - self._start
        if seconds - self._shown < _EVERY:
            return
        self._shown = seconds
        self.history.note(updates, seconds)
        if self.is_live:
            self.update(table(updates, self.history, seconds))

    def end(self, updates: Sequence[ProgressUpdate]) -> None:
        """Take in the final updates."""
        self.history.note(updates, time.monotonic() - self._start)


def table(updates: Sequence[ProgressUpdate], history: CampaignHistory, seconds: float) -> Table:
    """Return a row for each worker, one for all of them, and since when nothing was new."""
    has_edges = any(update.edges for update in updates)
    shown = Table(title=f"fuzzing for {seconds:.0f} s", title_justify="left")
    shown.add_column("worker")
    for name in ("cases", "cases/s", "shapes", *(("edges",) if has_edges else ()), "findings"):
        shown.add_column(name, justify="right")
    for update in updates:
        counts = update.progress.cases, update.shapes, update.edges, len(update.found)
        shown.add_row(f"{update.job + 1}", *_cells(*counts, seconds, has_edges))
    now = history.moments[-1]
    shown.add_section()
    shown.add_row("all", *_cells(*now[1:], seconds, has_edges))
    names = ("shapes", *(("edges",) if has_edges else ()), "findings")
    ago = ((name, history.since(name)) for name in names)
    ages = (
        f"{name}: {'none yet' if at is None else f'{duration(seconds - at)} ago'}"
        for name, at in ago
    )
    shown.caption = f"last new {', '.join(ages)}"
    shown.caption_justify = "left"
    return shown


def _cells(
    cases: int, shapes: int, edges: int, findings: int, seconds: float, has_edges: bool
) -> list[str]:
    rate = f"{cases / max(seconds, 1):,.0f}"
    edge_cells = [f"{edges:,}"] if has_edges else []
    return [f"{cases:,}", rate, f"{shapes:,}", *edge_cells, f"{findings:,}"]
