"""The results of a campaign: alone, or added to those of an earlier run on the same target.

A campaign has tests, as a run of the suite has: one for each finding, one for each requirement that
it has tested and not found broken. So all reports show both in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from conformance.catalogue import Requirement, catalogue
from conformance.run.aggregation import RequirementVerdict, Result, Tally
from conformance.run.evidence import clean, gather, printable_cause
from conformance.run.identity import named, spoken
from conformance.run.kept_transcripts import TranscriptKeeper
from conformance.run.labels import labels_of, parsed
from conformance.run.options import Options
from conformance.run.report_writer import now, this_suite
from conformance.run.result_records import requirement_record
from conformance.run.runner import Outcome
from conformance.transcript import Transcript
from conformance.verdict import Deviation
from reference_server.profiles import NEWEST, Profile
from reports import results as format
from reports.verdicts import Verdict
from reports.write import write_report

_PARTIAL = ("incomplete", "no verdict")
_UNTESTED = (Verdict.NOT_RUN, Verdict.ERROR)


class CampaignOutcome(NamedTuple):
    """The tests of a campaign, and the seconds that it took.

    The names of the tests begin with ``prefix``. ``requirements``: all that it may judge.
    ``worlds`` replace those of the same name.
    """

    prefix: str
    tests: Sequence[format.Test]
    seconds: float
    requirements: Mapping[str, Requirement]
    crashes: format.Crashes | None = None
    worlds: Sequence[format.WorldRecord] = ()
    health: Sequence[str] = ()


def nothing_yet(target: format.TargetRecord, options: Options) -> format.Results:
    """Return the results of a target on which no test was run."""
    labels = labels_of(parsed(options.labels), options.command)
    tally = _tally(catalogue(), target)
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
        target=target,
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


def finding(
    name: str,
    general: str,
    error: Deviation,
    transcript: Transcript,
    reproduce: Sequence[str],
    profile: Profile,
    keeper: TranscriptKeeper,
) -> format.Test:
    """Return the test for a finding; ``reproduce`` is a command that shows it again.

    It breaks the requirement ``general``, unless it is known to break exactly one other.
    """
    slug = error.suspects[0] if len(error.suspects) == 1 else general
    cause = format.CauseRecord(
        command=error.step.command, expected=error.expected, observed=error.observed
    )
    return format.Test(
        id=clean(name),
        requirements=[slug],
        verdict=Verdict.NON_STRICT if error.de_facto else Verdict.FAIL,
        reason=clean(str(error)),
        seconds=0.0,
        known=False,
        cause=printable_cause(cause),
        evidence=gather(error, Outcome(error, transcript), reproduce, name, keeper, profile),
    )


def passed(name: str, slug: str) -> format.Test:
    """Return the test for a requirement that a campaign has not found broken."""
    return format.Test(
        id=name, requirements=[slug], verdict=Verdict.PASS, reason="", seconds=0.0, known=False
    )


def write_campaign(run: format.Results, outcome: CampaignOutcome, folder: Path) -> Path:
    """Write the report of a run with that of a campaign; return its page. Raises OSError."""
    results = added(run, outcome)
    write_report(results, folder, folder)
    return folder / results.file("report.html")


def added(run: format.Results, outcome: CampaignOutcome) -> format.Results:
    """Return the results of a run with those of a campaign, in place of an earlier one's."""
    replaced = [test for test in run.tests if test.id.startswith(outcome.prefix)]
    kept = [test for test in run.tests if not test.id.startswith(outcome.prefix)]
    slugs = {slug for test in (*replaced, *outcome.tests) for slug in test.requirements}
    mine = {
        slug: requirement
        for slug, requirement in outcome.requirements.items()
        if slug in slugs or slug not in catalogue()
    }
    tally = _tally(mine, run.target)
    tally.add(map(Result, (*kept, *outcome.tests)))
    records = {requirement.slug: requirement for requirement in run.requirements}
    for slug, entry in tally.entries.items():
        before = records.get(slug)
        known = before.known if before and before.verdict is entry.verdict else None
        records[slug] = requirement_record(entry).model_copy(update={"known": known})
    worlds = {world.name: world for world in (*run.worlds, *outcome.worlds)}
    crashes = outcome.crashes or run.crashes
    whole = _tally(mine, run.target)
    whole.selected = _was_partial(run)
    whole.worlds, whole.crashes = [*worlds.values()], crashes
    whole.entries = {slug: _judgement(requirement) for slug, requirement in records.items()}
    ended = {"date": now(), "seconds": round(run.run.seconds + outcome.seconds, 1)}
    if any(test.verdict is Verdict.FAIL and not _is_known(test, records) for test in outcome.tests):
        ended["exit_code"] = 1
    return run.model_copy(
        update={
            "run": run.run.model_copy(update=ended),
            "verdict": whole.conclusion(),
            "health": [*dict.fromkeys([*run.health, *map(clean, outcome.health)])],
            "crashes": crashes,
            "worlds": whole.worlds,
            "requirements": [*records.values()],
            "tests": [*kept, *_with_known(outcome.tests, records)],
        }
    )


def _with_known(
    tests: Iterable[format.Test], records: Mapping[str, format.RequirementRecord]
) -> list[format.Test]:
    return [test.model_copy(update={"known": _is_known(test, records)}) for test in tests]


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
