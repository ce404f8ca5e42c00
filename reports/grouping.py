"""Failures by cause: what has one cause is told once, and what it breaks and blocks is listed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from reports.results import Requirement, Test
from reports.verdicts import DEVIATIONS, Verdict


@dataclass(slots=True)
class Group:
    """Failures of one cause, the most fundamental first: the fewest messages, early in the text.

    ``broken`` are the requirements that it breaks, the worst first, ``blocked`` those that were not
    tested for it.
    """

    tests: list[Test] = field(default_factory=list)
    broken: list[Requirement] = field(default_factory=list)
    blocked: list[Requirement] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of its tests: what it breaks may fail for another cause."""
        return min((test.verdict for test in self.tests), key=DEVIATIONS.index)

    @property
    def known(self) -> bool:
        """Return whether the baseline lists all of it."""
        return self.tests[0].known

    @property
    def title(self) -> str:
        """Its first requirement, and how many others it breaks and blocks."""
        more = len(self.broken) - 1
        blocks = f"; blocks {len(self.blocked)}" if self.blocked else ""
        return self.broken[0].slug + (f" and {more} more" if more else "") + blocks


def grouped(requirements: Sequence[Requirement], tests: Sequence[Test]) -> list[Group]:
    """Return the failures of a run by cause: the worst first, then the most fundamental."""
    known = {requirement.slug: requirement for requirement in requirements}
    places = {slug: place for place, slug in enumerate(known)}

    def order(test: Test) -> tuple[int, int]:
        # What shows nothing is the last that is shown.
        length = len(test.evidence.transcript) if test.evidence else 0
        return length or sys.maxsize, min(places[slug] for slug in test.requirements)

    groups: dict[object, Group] = {}
    for test in sorted(tests, key=order):
        broken = [known[slug] for slug in test.requirements if known[slug].deviates]
        if test.verdict in DEVIATIONS and broken:
            cause = test.cause or tuple(test.requirements)
            group = groups.setdefault((cause, test.known), Group())
            group.tests.append(test)
            group.broken += [r for r in broken if r not in group.broken]
    found = sorted(
        groups.values(), key=lambda g: (g.known, DEVIATIONS.index(g.verdict), order(g.tests[0]))
    )
    for group in found:
        group.broken.sort(key=lambda requirement: DEVIATIONS.index(requirement.verdict))
    behind = first_causes(found)
    for requirement in requirements:
        for first in requirement.blocked_by[:1]:
            if first in behind:
                behind[first].blocked.append(requirement)
    return found


def first_causes(groups: Sequence[Group]) -> dict[str, Group]:
    """Return the first cause that each requirement is broken for: there, links lead to it."""
    found: dict[str, Group] = {}
    for group in groups:
        for requirement in group.broken:
            found.setdefault(requirement.slug, group)
    return found
