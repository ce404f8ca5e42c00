"""The findings of a campaign, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance.durability.findings import CrashFinding
from conformance.printable import printable
from reference_server.profiles import Profile
from reports.crashes import tried
from reports.results import Crashes, CrashPart
from reports.words import counted

STATES, DAMAGES, KILLS, UPGRADES = "states of the disk", "damages", "kills", "upgrades"
"""The kinds of what is tried."""
TALK = 24
"""Lines of a conversation that are shown."""


@dataclass
class DurabilityReport:
    """The result for a server; ``parts`` say what was tried, ``missing`` what was not, and why.

    ``untestable``: of what was to be tried, the kinds of which something cannot be tested, and why.
    ``reproduce`` is the command that tries all again.
    """

    server: str
    profile: Profile
    reproduce: str = ""
    parts: list[CrashPart] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    untestable: dict[str, str] = field(default_factory=dict)
    findings: list[CrashFinding] = field(default_factory=list)

    @property
    def crashes(self) -> Crashes:
        """Return what was tried, as results have it."""
        return Crashes(parts=self.parts, untried=self.missing)

    @property
    def broken(self) -> int:
        """Return how many requirements of the text are broken."""
        return len({f.requirement for f in self.findings if f.level(self.profile) == "must"})

    @property
    def loose(self) -> int:
        """Return how many requirements below the level ``must`` are broken."""
        return len({f.requirement for f in self.findings if f.level(self.profile) != "must"})

    @property
    def sentence(self) -> str:
        """Return the verdict."""
        loose = counted(self.loose, "de-facto deviation") if self.loose else ""
        if self.broken:
            said = counted(self.broken, "must requirement")
            outcome = f"does not conform, {said} broken, {loose or 'no de-facto deviation'}"
        elif self.missing or not self.parts:
            outcome = f"incomplete: {loose or 'no deviation'} in what was tried"
        else:
            outcome = f"conforms with {loose}" if loose else "conforms"
        return f"{self.server}: {outcome}; tried {tried(self.crashes)}"

    def lines(self, folder: Path) -> Iterator[str]:
        """Yield the lines for a terminal."""
        for finding in self.findings:
            yield ""
            yield from _finding(finding, self.profile, folder)
        yield ""
        for reason in self.missing:
            yield f"not tested: {reason}"
        yield self.sentence


def _finding(finding: CrashFinding, profile: Profile, folder: Path) -> Iterator[str]:
    case = finding.case
    level = "fail" if finding.level(profile) == "must" else "de-facto deviation"
    states = ", ".join(f"{count:,} {kind}" for kind, count in finding.states.items())
    yield f"{level}: {finding.requirement}: {finding.cause} ({states})"
    yield from _talk(case.talk())
    yield f"  on the disk: {case.disk}"
    expected, observed = map(printable, case.difference.sides)
    yield f"  EXPECTED  {expected}"
    yield f"  OBSERVED  {observed}"
    if case.files:
        yield f"  the files: {folder / case.place_of_files}"


def _talk(talk: Sequence[str]) -> Iterator[str]:
    left = len(talk) - TALK
    if left > 0:
        yield f"  … {counted(left, 'message')} …"
    for line in talk[max(left, 0) :]:
        yield f"  {line}"
