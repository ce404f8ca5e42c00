"""The outcome of a campaign as tests, as reports show them.

Each finding is a test that has failed; a requirement that no crash shows to be broken is a test
that has passed.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.durability.catalogue import requirements
from conformance.durability.damage import DAMAGED
from conformance.durability.findings import CrashFinding
from conformance.durability.judging import JUDGED
from conformance.durability.report import DAMAGES, KILLS, STATES, UPGRADES, DurabilityReport
from conformance.durability.upgrades import UPGRADE
from conformance.run.campaign_results import CampaignOutcome
from conformance.run.evidence import clean
from reports import results as format
from reports.verdicts import Verdict

PREFIX = "durability::"
"""The beginning of the names of tests that record what crashes have shown."""
_JUDGED = {STATES: JUDGED, KILLS: JUDGED, DAMAGES: (DAMAGED,), UPGRADES: (UPGRADE,)}
"""The requirements that each kind of what is tried may show to be broken."""


def outcome_of(report: DurabilityReport, seconds: float) -> CampaignOutcome:
    """Return the outcome of a campaign that took so many seconds."""
    judged = dict(requirements())
    if UPGRADES not in _kinds(report):
        # No older version was named.
        del judged[UPGRADE]
    return CampaignOutcome(PREFIX, [*_tests(report)], seconds, judged, report.crashes)


def _kinds(report: DurabilityReport) -> set[str]:
    """Return the kinds of what was to be tried."""
    return {part.kind for part in report.parts} | {*report.untestable}


def _tests(report: DurabilityReport) -> Iterator[format.Test]:
    """Yield a test for each finding, and one for each requirement that no crash breaks."""
    for finding in report.findings:
        yield _failed(finding, report)
    broken = {finding.requirement for finding in report.findings}
    kinds = _kinds(report)
    for slug in dict.fromkeys(slug for kind in _JUDGED if kind in kinds for slug in _JUDGED[kind]):
        if slug not in broken and not requirements()[slug].missing_in(report.profile.stage):
            yield _passed(slug, report)


def _failed(finding: CrashFinding, report: DurabilityReport) -> format.Test:
    case = finding.case
    expected, observed = map(clean, case.difference.sides)
    strict = finding.level(report.profile) == "must"
    states = ", ".join(f"{count:,} {kind}" for kind, count in finding.states.items())
    return format.Test(
        id=f"{PREFIX}{finding.requirement}: {clean(finding.cause)}",
        requirements=[finding.requirement],
        verdict=Verdict.FAIL if strict else Verdict.NON_STRICT,
        reason=f"{clean(finding.cause)} ({states}): expected {expected}, observed {observed}",
        seconds=0.0,
        known=False,
        cause=format.CauseRecord(command="", expected=finding.requirement, observed=finding.cause),
        evidence=format.Evidence(
            transcript=[
                *(f"  {clean(line)}" for line in case.talk()),
                f"> {clean(case.disk)}",
                *([f"  the files: {case.place_of_files}"] if case.files else []),
            ],
            expected=expected,
            observed=observed,
            said="",
            reproduce=clean(report.reproduce),
        ),
    )


def _passed(slug: str, report: DurabilityReport) -> format.Test:
    """Return that no crash breaks a requirement, or why that cannot be said."""
    reasons = [why for kind, why in report.untestable.items() if slug in _JUDGED[kind]]
    return format.Test(
        id=f"{PREFIX}{slug}",
        requirements=[slug],
        verdict=Verdict.NOT_TESTABLE if reasons else Verdict.PASS,
        reason=clean(reasons[0]) if reasons else "",
        seconds=0.0,
        known=False,
    )
