"""The shares of requirements that a target meets, by section or level."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from reports.results import RequirementRecord, Results
from reports.verdicts import OF_OTHERS, Level, Verdict


class Share(NamedTuple):
    """Requirements of the profile: how many are met, how many are not, and how many there are."""

    met: int
    broken: int
    total: int

    @property
    def open(self) -> int:
        """The number of those that were not tested, or not decided."""
        return self.total - self.met - self.broken

    @property
    def percent(self) -> int:
        """The part that is met, rounded down: 100 only if all of them are."""
        return 100 * self.met // self.total if self.total else 0

    @property
    def kind(self) -> str:
        """The class of its colour."""
        if self.met == self.total:
            return "all"
        if not self.broken:
            return "open"
        return "most" if self.percent >= 90 else "few"


def share(requirements: Iterable[RequirementRecord], level: Level) -> Share:
    """Count the requirements of a level; those of other profiles are left out.

    As in the verdict of the target, de-facto deviations do not break the text.
    """
    met, broken = {Verdict.PASS}, {Verdict.FAIL}
    (met if level == "must" else broken).add(Verdict.NON_STRICT)
    found = [r.verdict for r in requirements if r.level == level]
    return Share(
        met=sum(verdict in met for verdict in found),
        broken=sum(verdict in broken for verdict in found),
        total=sum(verdict not in OF_OTHERS for verdict in found),
    )


def by_section(results: Results) -> dict[str, Share]:
    """Return the shares of must requirements, of sections that have any."""
    sections: dict[str, list[RequirementRecord]] = {}
    for requirement in results.requirements:
        sections.setdefault(requirement.section, []).append(requirement)
    shares = {section: share(found, "must") for section, found in sections.items()}
    return {section: found for section, found in shares.items() if found.total}
