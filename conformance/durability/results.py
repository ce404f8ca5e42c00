"""The findings of a campaign as results: alone, or added to those of a run.

Each finding is a test that has failed, beside those of the suite; a requirement that no crash shows
to be broken is a test that has passed. So all reports show them as they show any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from conformance.catalogue import Requirement, catalogue
from conformance.durability.catalogue import requirements
from conformance.durability.damage import DAMAGED
from conformance.durability.findings import CrashFinding
from conformance.durability.judging import JUDGED
from conformance.durability.report import DAMAGES, DurabilityReport
from conformance.run.aggregation import RequirementVerdict, Result, Tally
from conformance.run.evidence import clean
from conformance.run.identity import identified, named, spoken
from conformance.run.labels import labels_of, parsed
from conformance.run.options import Options
from conformance.run.report_writer import now, this_suite
from conformance.run.result_records import requirement_record
from conformance.target.target import Target
from reference_server.profiles import NEWEST
from reports import results as format
from reports.verdicts import Verdict

PREFIX = "durability::"
"""The beginning of the names of tests that record what crashes have shown."""
_PARTIAL = ("incomplete", "no verdict")
_UNTESTED = (Verdict.NOT_RUN, Verdict.ERROR)


def nothing_yet(target: Target, options: Options) -> format.Results:
    """Return the results of a target on which no test was run."""
    identity = identified(target, options.name, options.named_profile() is not None)
    labels = labels_of(parsed(options.labels), options.command)
    tally = _tally(catalogue(), identity)
    tally.add(())
    return format.Results(
        suite=this_suite(),
        run=format.Run(
            date=now(),
            seconds=0.0,
            seed=0,
            examples=0,
            fuzz_time=0.0,
            lateness=options.lateness,
            strict=False,
            exit_code=0,
            arguments=options.chosen,
        ),
        target=identity,
        verdict=tally.conclusion(),
        labels={key: clean(value) for key, value in labels.items()},
        gone=[],
        requirements=[requirement_record(entry) for entry in tally.entries.values()],
        tests=[],
        timings=format.Timings(),
    )


def earlier(folder: Path, empty: format.Results) -> format.Results:
    """Return the results of the target that a folder has, else empty ones; raise ResultsError."""
    path = folder / empty.file("results.json")
    if not path.exists():
        return empty
    found = format.read_results(path)
    if _identity(found.target) != _identity(empty.target):
        raise format.ResultsError(
            f"{path} is of {named(found.target)}, not of {named(empty.target)}"
        )
    return found


def _identity(target: format.TargetRecord) -> tuple[str, str, str]:
    return target.label, target.version, target.profile


def added(run: format.Results, report: DurabilityReport, seconds: float) -> format.Results:
    """Return the results of a run with those of a campaign, in place of an earlier one's."""
    earlier = [test for test in run.tests if test.id.startswith(PREFIX)]
    kept = [test for test in run.tests if not test.id.startswith(PREFIX)]
    found = [*_tests(report)]
    slugs = {slug for test in (*earlier, *found) for slug in test.requirements}
    mine = {s: one for s, one in requirements().items() if s in slugs or s not in catalogue()}
    tally = _tally(mine, run.target)
    tally.add(map(Result, (*kept, *found)))
    records = {requirement.slug: requirement for requirement in run.requirements}
    for slug, entry in tally.entries.items():
        before = records.get(slug)
        known = before.known if before and before.verdict is entry.verdict else None
        records[slug] = requirement_record(entry).model_copy(update={"known": known})
    whole = _tally(mine, run.target)
    whole.selected = _was_partial(run)
    whole.worlds, whole.crashes = run.worlds, report.crashes
    whole.entries = {slug: _judgement(requirement) for slug, requirement in records.items()}
    ended = {"date": now(), "seconds": round(run.run.seconds + seconds, 1)}
    if any(test.verdict is Verdict.FAIL and not _is_known(test, records) for test in found):
        ended["exit_code"] = 1
    return run.model_copy(
        update={
            "run": run.run.model_copy(update=ended),
            "verdict": whole.conclusion(),
            "crashes": report.crashes,
            "requirements": [*records.values()],
            "tests": [
                *kept,
                *(test.model_copy(update={"known": _is_known(test, records)}) for test in found),
            ],
        }
    )


def _tally(among: Mapping[str, Requirement], target: format.TargetRecord) -> Tally:
    name = target.name if target.dialect else named(target)
    return Tally(among, {}, name, target.stage, dialect=spoken(target))


def _was_partial(run: format.Results) -> bool:
    """Return whether a run had not tried all that it could, for no reason that is seen here."""
    seen = any(requirement.verdict in _UNTESTED for requirement in run.requirements)
    return run.verdict.word in _PARTIAL and not seen


def _judgement(record: format.RequirementRecord) -> RequirementVerdict:
    levels = ((NEWEST.name, record.level),)
    requirement = Requirement(record.slug, levels, record.section, record.source, record.clause)
    verdict, blocked = Verdict(record.verdict), [*record.blocked_by]
    return RequirementVerdict(requirement, verdict, record.reason, record.tests, None, blocked)


def _is_known(test: format.Test, records: Mapping[str, format.RequirementRecord]) -> bool:
    """Return whether the baseline of the run lists what a test has found."""
    requirement = records[test.requirements[0]]
    return requirement.known is not None and test.verdict is requirement.verdict


def _tests(report: DurabilityReport) -> Iterator[format.Test]:
    """Yield a test for each finding, and one for each requirement that no crash breaks."""
    for finding in report.findings:
        yield _failed(finding, report)
    broken = {finding.requirement for finding in report.findings}
    kinds = {part.kind for part in report.parts} | {*report.untestable}
    judged = [*(JUDGED if kinds - {DAMAGES} else ()), *([DAMAGED] if DAMAGES in kinds else [])]
    for slug in judged:
        if slug not in broken and not requirements()[slug].missing_in(report.profile.stage):
            yield _passed(slug, report)


def _failed(finding: CrashFinding, report: DurabilityReport) -> format.Test:
    case, difference = finding.case, finding.case.difference
    job = f"{difference.job}: " if difference.job else ""
    expected, observed = (clean(job + said) for said in (difference.expected, difference.observed))
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
            transcript=[*(f"  {clean(line)}" for line in case.talk()), f"> {clean(case.disk)}"],
            expected=expected,
            observed=observed,
            said="",
            reproduce=clean(report.reproduce),
        ),
    )


def _passed(slug: str, report: DurabilityReport) -> format.Test:
    """Return that no crash breaks a requirement, or why that cannot be said."""
    kinds = {DAMAGES} if slug == DAMAGED else {*report.untestable} - {DAMAGES}
    reasons = [report.untestable[kind] for kind in kinds if kind in report.untestable]
    return format.Test(
        id=f"{PREFIX}{slug}",
        requirements=[slug],
        verdict=Verdict.NOT_TESTABLE if reasons else Verdict.PASS,
        reason=clean(reasons[0]) if reasons else "",
        seconds=0.0,
        known=False,
    )
