"""Many results side by side, and the changes between two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reports.results import RequirementRecord, Results
from reports.verdicts import DEVIATIONS, OF_OTHERS, Verdict

_UNTESTED = (Verdict.NOT_RUN, *OF_OTHERS)
UNDECIDED = (*_UNTESTED, Verdict.NOT_TESTABLE, Verdict.BLOCKED)
"""Verdicts in which no two servers differ."""


@dataclass(frozen=True, slots=True)
class Row:
    """A requirement, and what each target made of it; None where a run did not know it."""

    requirement: RequirementRecord
    found: list[RequirementRecord | None]

    @property
    def differs(self) -> bool:
        """Return whether the targets for which it was tested do not all fare alike."""
        verdicts = {found.verdict for found in self.found if found}
        return len(verdicts - {*UNDECIDED}) > 1

    @property
    def with_reasons(self) -> list[tuple[int, RequirementRecord]]:
        """The verdicts that have a reason, each with the number of its target."""
        return [(number, r) for number, r in enumerate(self.found) if r and r.reason]


@dataclass(frozen=True, slots=True)
class ResultsComparison:
    """The matrix: requirements by section, targets in the order in which they were given."""

    results: list[Results]
    sections: dict[str, list[Row]]

    @classmethod
    def of(cls, all_results: Sequence[Results]) -> ResultsComparison:
        """Compare at least one result; requirements in the order of the first that has them."""
        by_slug = [{r.slug: r for r in results.requirements} for results in all_results]
        sections: dict[str, list[Row]] = {}
        known: dict[str, RequirementRecord] = {}
        for requirements in by_slug:
            for slug, requirement in requirements.items():
                known.setdefault(slug, requirement)
        for slug, requirement in known.items():
            row = Row(requirement, [requirements.get(slug) for requirements in by_slug])
            if not all(found is None or found.verdict in _UNTESTED for found in row.found):
                sections.setdefault(requirement.section, []).append(row)
        return cls(list(all_results), sections)

    @property
    def differing(self) -> Iterator[Row]:
        """The requirements in which the targets differ."""
        return (row for rows in self.sections.values() for row in rows if row.differs)


@dataclass(frozen=True, slots=True)
class ResultsDifference:
    """The difference of two runs; each requirement with its later verdict."""

    before: Results
    after: Results
    broken: list[RequirementRecord]
    fixed: list[RequirementRecord]
    other: list[tuple[RequirementRecord, RequirementRecord]]
    """Neither: before and after."""

    @classmethod
    def between(cls, before: Results, after: Results) -> ResultsDifference:
        """Compare two runs, by requirement."""
        earlier = {requirement.slug: requirement for requirement in before.requirements}
        broken, fixed, other = [], [], []
        for now in after.requirements:
            then = earlier.get(now.slug)
            if then is None or then.verdict == now.verdict:
                continue
            if _worse(then.verdict, now.verdict):
                broken.append(now)
            elif then.verdict in DEVIATIONS and now.verdict is Verdict.PASS:
                fixed.append(now)
            else:
                other.append((then, now))
        return cls(before, after, broken, fixed, other)


def _worse(then: Verdict, now: Verdict) -> bool:
    """Tell whether something broke; of what was not tested before, nobody knows that."""
    if now not in DEVIATIONS:
        return False
    if then in DEVIATIONS:
        return DEVIATIONS.index(now) < DEVIATIONS.index(then)
    return then is Verdict.PASS
