"""Progress updates of a campaign, from each of its workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fuzz.hostile import Progress
from reports.verdicts import Verdict
from reports.words import counted


@dataclass(frozen=True, slots=True)
class ProgressUpdate:
    """The progress of a worker, and its findings."""

    job: int
    progress: Progress = field(default_factory=Progress)
    shapes: int = 0
    edges: int = 0
    undecided: int = 0
    unjudged: int = 0
    found: tuple[tuple[str, bool], ...] = ()
    """A line for each finding, and whether the text of the protocol decides it."""
    health: tuple[str, ...] = ()
    target: str = ""
    """The target in words, once it is known."""


def line(updates: Sequence[ProgressUpdate], seconds: float) -> str:
    """Return how far a campaign is, in a line."""
    cases = sum(update.progress.cases for update in updates)
    commands = sum(update.progress.commands for update in updates)
    shapes = max((update.shapes for update in updates), default=0)
    edges = max((update.edges for update in updates), default=0)
    found = len({line for update in updates for line, _ in update.found})
    rate = f"{cases / max(seconds, 1):,.0f}/s, {commands / max(seconds, 1):,.0f} commands/s"
    seen = f"{counted(edges, 'edge')}, " if edges else ""
    return (
        f"{seconds:.0f} s, {counted(cases, 'case')} ({rate}),"
        f" {counted(shapes, 'shape')}, {seen}{counted(found, 'finding')}"
    )


def target_of(updates: Sequence[ProgressUpdate]) -> str:
    """Return the target in words; empty until it is known."""
    return next((update.target for update in updates if update.target), "")


def health(updates: Sequence[ProgressUpdate]) -> list[str]:
    """Return what is said of the health of the targets, once."""
    return list(dict.fromkeys(said for update in updates for said in update.health))


def summary(updates: Sequence[ProgressUpdate], seconds: float) -> int:
    """Print what a campaign has found; return its exit code."""
    print(line(updates, seconds))
    slowest = max((update.progress.slowest for update in updates), default=0.0)
    undecided = sum(update.undecided for update in updates)
    print(
        f"slowest reply to somebody else: {slowest * 1000:.0f} ms;"
        f" {counted(undecided, 'program')} undecided"
    )
    if unjudged := sum(update.unjudged for update in updates):
        print(f"judged in part: {counted(unjudged, 'program')} that got to a new place in the code")
    found = dict(sorted({finding for update in updates for finding in update.found}))
    for said, must in found.items():
        verdict = Verdict.FAIL if must else Verdict.NON_STRICT
        print(f"{verdict.words}: {said}")
    for said in health(updates):
        print(f"health: {said}")
    return int(any(found.values()))
