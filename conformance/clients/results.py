"""The outcomes of a campaign as results, in the form of those of runs on servers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from conformance.clients.catalogue import requirements
from conformance.clients.judging import CaseOutcome
from conformance.run.aggregation import Result, Tally
from conformance.run.baseline import KnownDeviation, is_known
from conformance.run.evidence import clean
from conformance.run.report_writer import now, this_suite
from conformance.run.result_records import requirement_record
from reference_server.profiles import NEWEST
from reports import results as format
from reports.verdicts import DEVIATIONS, Verdict

Baseline = Mapping[str, KnownDeviation]


def judged(outcomes: Sequence[CaseOutcome], name: str, baseline: Baseline, is_whole: bool) -> Tally:
    """Return the verdicts of all requirements; ``is_whole``: all cases were meant to be played."""
    tally = Tally(requirements(), baseline, clean(name), NEWEST.name, selected=not is_whole)
    tally.add(
        Result(test, {outcome.case.slug: outcome.blocked_by} if outcome.blocked_by else {})
        for test, outcome in zip(tests(outcomes, baseline, ()), outcomes, strict=True)
    )
    return tally


def results(
    tally: Tally,
    outcomes: Sequence[CaseOutcome],
    *,
    version: str,
    labels: Mapping[str, str],
    driver: Sequence[str],
    seed: int,
    seconds: float,
    strict: bool,
    exit_code: int,
) -> format.Results:
    """Return what a campaign found."""
    return format.Results(
        suite=this_suite(),
        run=format.Run(
            date=now(),
            seconds=round(seconds, 1),
            seed=seed,
            examples=0,
            fuzz_time=0.0,
            lateness=0.0,
            strict=strict,
            exit_code=exit_code,
            arguments=[*map(clean, _started(driver))],
        ),
        target=format.TargetRecord(
            title=tally.target,
            label=format.CLIENT_LIBRARY,
            version=clean(version),
            profile=NEWEST.name,
            profile_reason="the server speaks the newest one",
            clock="real",
            clock_reason="a library has its own clock",
        ),
        verdict=tally.conclusion(),
        labels={key: clean(value) for key, value in labels.items()},
        gone=tally.gone(),
        requirements=[requirement_record(entry) for entry in tally.entries.values()],
        tests=[*tests(outcomes, tally.baseline, driver)],
        timings=format.Timings(),
    )


def reproduction(outcome: CaseOutcome, driver: Sequence[str]) -> str:
    """Return the command that plays a case again."""
    seed = [] if outcome.seed is None else ["--seed", str(outcome.seed)]
    only = ["--only", outcome.case.slug, *seed]
    return shlex.join(["beanstalk-conformance", "client", *only, *_started(driver)])


def _started(driver: Sequence[str]) -> Sequence[str]:
    """Return the arguments that name a driver; its author has started it if it is empty."""
    return ["--", *driver] if driver else ["--listen"]


def tests(
    outcomes: Sequence[CaseOutcome], baseline: Baseline, driver: Sequence[str]
) -> Iterator[format.Test]:
    """Yield the result of each case."""
    for outcome in outcomes:
        yield _test(outcome, baseline, driver)


def _test(outcome: CaseOutcome, baseline: Baseline, driver: Sequence[str]) -> format.Test:
    slug, verdict = outcome.case.slug, outcome.verdict
    if verdict is Verdict.FAIL and requirements()[slug].level != "must":
        verdict = Verdict.NON_STRICT
    mismatch, reason = outcome.mismatch, outcome.reason
    cause = evidence = None
    if mismatch is not None:
        expected, observed = clean(mismatch.expected), clean(mismatch.observed)
        reason = f"{outcome.case.ask[:60]}: expected {expected}, observed {observed}"
        command = outcome.case.ask.split()[0]
        cause = format.CauseRecord(command=command, expected=expected[:60], observed=observed[:60])
        evidence = format.Evidence(
            transcript=[clean(line) for line in outcome.transcript[-400:]],
            expected=expected,
            observed=observed,
            said=clean(outcome.said),
            reproduce=clean(reproduction(outcome, driver)),
        )
    return format.Test(
        id=clean(outcome.case.id),
        requirements=[slug],
        verdict=verdict,
        reason=clean(reason),
        seconds=round(outcome.seconds, 4),
        known=verdict in DEVIATIONS and is_known(baseline, slug, verdict, ()),
        blocked_by=[outcome.blocked_by] if outcome.blocked_by else [],
        cause=cause,
        evidence=evidence,
    )
