"""Tests and requirements as results.json records them, with text that is safe to show."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.run.aggregation import RequirementVerdict
from conformance.run.evidence import clean
from conformance.run.summary import Summary
from reports import results as format
from reports.verdicts import DEVIATIONS, Verdict


def requirement_record(entry: RequirementVerdict) -> format.RequirementRecord:
    """Return the verdict of a requirement."""
    requirement = entry.requirement
    known = entry.known
    return format.RequirementRecord(
        slug=requirement.slug,
        level=requirement.level,
        section=requirement.section,
        source=requirement.document,
        clause=requirement.clause,
        profiles=requirement.profiles,
        verdict=entry.verdict,
        reason=clean(entry.reason),
        tests=entry.tests,
        known=format.KnownRecord(reason=known.reason, link=known.link) if known else None,
        blocked_by=entry.blocked_by,
    )


def test_records(summary: Summary) -> Iterator[format.Test]:
    """Yield the record of each test, with the requirements that block it."""
    for number, observation in enumerate(summary.observations):
        test, is_blocked = observation.test, summary.is_blocked(number)
        by = list(dict.fromkeys(summary.blocked()[number].values()))
        excused = summary.is_excused(number) and not is_blocked
        changes: dict[str, object] = {
            "seconds": round(summary.reports[number].duration, 4),
            "known": excused and test.verdict in DEVIATIONS,
            "blocked_by": by,
        }
        if is_blocked:
            reason = f"blocked by {' and '.join(by)}: {test.reason}"
            changes |= {"verdict": Verdict.BLOCKED, "reason": reason, "cause": None}
        yield test.model_copy(update=changes)
