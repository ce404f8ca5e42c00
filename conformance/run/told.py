"""Reports of tests and verdicts of requirements as results.json has them: fit to be shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from conformance.run.aggregation import Entry
from conformance.run.summary import Summary, properties
from conformance.transcript import printable
from reports import results as format
from reports.verdicts import DEVIATIONS, Verdict

LONGEST = 20_000
"""Characters of any text from the target."""


def told_requirement(entry: Entry) -> format.Requirement:
    """Return the verdict of a requirement."""
    requirement = entry.requirement
    known = entry.known
    return format.Requirement(
        slug=requirement.slug,
        level=requirement.level,
        section=requirement.section,
        source=requirement.source,
        clause=requirement.clause,
        profiles=requirement.profiles,
        verdict=entry.verdict,
        reason=clean(entry.reason),
        tests=entry.tests,
        known=format.Known(reason=known.reason, link=known.link) if known else None,
        blocked_by=entry.blocked_by,
    )


def told_tests(summary: Summary) -> Iterator[format.Test]:
    """Yield what came of each test."""
    for number, report in enumerate(summary.reports):
        yield _test(summary, number, report)


def _test(summary: Summary, number: int, report: pytest.TestReport) -> format.Test:
    said, is_blocked = properties(report), summary.is_blocked(number)
    by = list(dict.fromkeys(summary.blocked()[number].values()))
    verdict, reason = said["verdict"], said["reason"]
    if is_blocked:
        verdict, reason = Verdict.BLOCKED, f"blocked by {' and '.join(by)}: {reason}"
    return format.Test(
        id=clean(said["id"]),
        requirements=said["requirements"],
        verdict=verdict,
        reason=clean(reason),
        seconds=round(report.duration, 4),
        known=summary.is_excused(number) and not is_blocked and verdict in DEVIATIONS,
        blocked_by=by,
        cause=_cause(said) if "step" in said and verdict in DEVIATIONS else None,
        evidence=_evidence(said["evidence"]) if "evidence" in said else None,
    )


def _cause(said: Mapping[str, Any]) -> format.Cause:
    return format.Cause.model_validate(cleaned(said["step"]["cause"]))


def _evidence(evidence: dict[str, Any]) -> format.Evidence:
    lines = [clean(line) for line in evidence["transcript"]]
    return format.Evidence.model_validate(
        cleaned({key: evidence[key] for key in evidence if key != "transcript"})
        | {"transcript": lines}
    )


def cleaned(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return texts of which each may be printed."""
    return {key: clean(text) for key, text in texts.items()}


def clean(text: str) -> str:
    """Return text that any reader of JSON, XML and HTML takes: printable, and not too long."""
    return printable(text[:LONGEST]) + ("…" if len(text) > LONGEST else "")
