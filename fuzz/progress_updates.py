"""Progress updates of a campaign, from each of its workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fuzz.hostile import Progress
from reports.verdicts import Verdict
from reports.words import counted


@dataclass(frozen=True, slots=True)
class ProgressUpdates:
    """The news of a worker: its progress, and its findings."""

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


def line(news: Sequence[ProgressUpdates], seconds: float) -> str:
    """Return how far a campaign is, in a line."""
    cases = sum(told.progress.cases for told in news)
    commands = sum(told.progress.commands for told in news)
    shapes = max((told.shapes for told in news), default=0)
    edges = max((told.edges for told in news), default=0)
    found = len({line for told in news for line, _ in told.found})
    rate = f"{cases / max(seconds, 1):,.0f}/s, {commands / max(seconds, 1):,.0f} commands/s"
    seen = f"{counted(edges, 'edge')}, " if edges else ""
    return (
        f"{seconds:.0f} s, {counted(cases, 'case')} ({rate}),"
        f" {counted(shapes, 'shape')}, {seen}{counted(found, 'finding')}"
    )


def target_of(news: Sequence[ProgressUpdates]) -> str:
    """Return the target in words; empty until it is known."""
    return next((told.target for told in news if told.target), "")


def health(news: Sequence[ProgressUpdates]) -> list[str]:
    """Return what is said of the health of the targets, once."""
    return list(dict.fromkeys(said for told in news for said in told.health))


def summary(news: Sequence[ProgressUpdates], seconds: float) -> int:
    """Tell what a campaign has found; return its exit code."""
    print(line(news, seconds))
    slowest = max((told.progress.slowest for told in news), default=0.0)
    undecided = sum(told.undecided for told in news)
    print(
        f"slowest reply to somebody else: {slowest * 1000:.0f} ms;"
        f" {counted(undecided, 'program')} undecided"
    )
    if unjudged := sum(told.unjudged for told in news):
        print(f"judged in part: {counted(unjudged, 'program')} that got to a new place in the code")
    found = dict(sorted({finding for told in news for finding in told.found}))
    for said, must in found.items():
        verdict = Verdict.FAIL if must else Verdict.NON_STRICT
        print(f"{verdict.words}: {said}")
    for said in health(news):
        print(f"health: {said}")
    return int(any(found.values()))
