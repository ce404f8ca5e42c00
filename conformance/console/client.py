"""``client``: judges a client library that a driver runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from fnmatch import fnmatch
from importlib.resources import files
from pathlib import Path

import click

from conformance.clients.campaign import WORKERS, ClientCampaign
from conformance.clients.cases import ClientCase, all_cases
from conformance.clients.catalogue import requirements
from conformance.clients.driver import Driver, DriverEnded
from conformance.clients.judging import ANSWER_TIMEOUT, CaseOutcome
from conformance.clients.listening import Listener
from conformance.clients.program_search import (
    PROGRAM_CASES,
    SEARCH_SECONDS,
    SEED,
    ProgramSearch,
)
from conformance.clients.protocol import OPERATIONS, DriverError
from conformance.clients.results import judged, reproduction, results
from conformance.printable import printable
from conformance.run.aggregation import RequirementVerdict
from conformance.run.baseline import BaselineError, read_baseline, write_baseline
from conformance.run.labels import parsed
from conformance.usage import (
    FROM_1,
    INTERRUPTED,
    SECONDS,
    ConsoleCommand,
    option,
    refuse,
)
from reports.verdicts import Verdict
from reports.write import write_report

_WHAT, _HOW, _KEPT = "What to judge", "How to judge it", "What to keep"
_UNDECIDED = (Verdict.ERROR, Verdict.BLOCKED, Verdict.INCONCLUSIVE, Verdict.FLAKY)
SHOWN = 40
"""The last lines of a transcript that are printed."""
A_DAY = 86400.0
"""Seconds that a call may take in a debugger."""
TEMPLATES = {
    "c": "driver.c",
    "go": "driver.go",
    "java": "Driver.java",
    "lua": "driver.lua",
    "node": "driver.js",
    "perl": "driver.pl",
    "php": "driver.php",
    "python": "driver.py",
    "ruby": "driver.rb",
}
"""The languages that a driver may begin with."""


@click.command(cls=ConsoleCommand)
@click.argument("driver", nargs=-1, metavar="-- DRIVER…")
@option(_WHAT, "--only", metavar="PATTERN", help="requirements, such as 'send.*'")
@option(_WHAT, "--list", "lists", is_flag=True, help="print the requirements, and judge nothing")
@option(
    *(_WHAT, "--template"),
    type=click.Choice([*TEMPLATES]),
    help="print a driver to begin with, and judge nothing",
)
@option(
    *(_HOW, "--answer-timeout"),
    type=SECONDS,
    default=ANSWER_TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="how long a call may take",
)
@option(
    *(_HOW, "--jobs"),
    type=FROM_1,
    default=WORKERS,
    show_default=True,
    metavar="N",
    help="drivers at a time",
)
@option(
    *(_HOW, "--seed"),
    type=FROM_1,
    default=SEED,
    show_default=True,
    metavar="N",
    help="the number of the first random program",
)
@option(_HOW, "--listen", is_flag=True, help="wait for a driver that you start, in a debugger")
@option(_HOW, "--strict", is_flag=True, help="de-facto deviations give exit code 1, too")
@option(
    *(_HOW, "--baseline"),
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="known deviations, which do not give exit code 1",
)
@option(_HOW, "--update-baseline", is_flag=True, help="write the deviations to that file")
@option(_KEPT, "--report", type=click.Path(path_type=Path), metavar="FOLDER", help="write a report")
@option(_KEPT, "--name", default="", metavar="NAME", help="the library's name")
@option(_KEPT, "--library-version", "version", default="", metavar="VERSION", help="its version")
@option(_KEPT, "--label", "labels", multiple=True, metavar="KEY=VALUE", help="a label of the run")
def client(
    driver: Sequence[str],
    only: str | None,
    lists: bool,
    template: str | None,
    answer_timeout: float,
    jobs: int,
    seed: int,
    listen: bool,
    strict: bool,
    baseline: Path | None,
    update_baseline: bool,
    report: Path | None,
    name: str,
    version: str,
    labels: Sequence[str],
) -> int:
    """Judge a client library: the suite is its server, and a small DRIVER runs it.

    Exit code 0: nothing that breaks the text found, 1: something.
    """
    if template is not None:
        text = files("conformance.clients") / "templates" / TEMPLATES[template]
        click.echo(text.read_text(encoding="utf-8"), nl=False)
        return 0
    if lists:
        for slug, one in requirements().items():
            print(f"{slug}  {one.level}\n    “{one.clause}”")
        return 0
    if not driver and not listen:
        raise refuse("give the command of a driver, as in: client -- python my_driver.py")
    if driver and listen:
        raise refuse("--listen waits for a driver that you start: leave out its command")
    cases = _chosen(all_cases(), only)
    random_cases = _chosen(PROGRAM_CASES, only)
    if not cases and not random_cases:
        raise refuse(f"no requirement is called {only}; --list prints all of them")
    if update_baseline and baseline is None:
        raise refuse("--update-baseline needs --baseline FILE")
    try:
        is_new = update_baseline and baseline is not None and not baseline.exists()
        known = read_baseline(baseline, requirements()) if baseline and not is_new else {}
        named = parsed(labels)
        begun = time.monotonic()
        if listen:
            with closing(Listener(Path())) as listener:
                campaign = ClientCampaign(listener.start, A_DAY, 1)
                # Its author waits for the cases that are chosen.
                supported = campaign.self_test() if random_cases else []
                outcomes = _judged(campaign, supported, cases, random_cases, seed, A_DAY)
        else:
            campaign = ClientCampaign(lambda: Driver(driver), answer_timeout, jobs)
            supported = campaign.self_test()
            print(f"the driver supports {len(supported) + 1} of {len(OPERATIONS)} operations")
            outcomes = _judged(campaign, supported, cases, random_cases, seed, SEARCH_SECONDS)
        title = name or (Path(driver[-1]).stem if driver else "driver")
        tally = judged(outcomes, title, known, only is None)
        new = tally.deviations(known=False)
        code = int(any(_counts(one, strict) for one in new))
        shown: set[str] = set()
        for outcome in outcomes:
            _print(outcome, driver, outcome.case.slug not in shown)
            shown |= {outcome.case.slug} if outcome.mismatch else set()
        print(printable(tally.conclusion().sentence))
        counts = Counter(one.words for one in tally.entries.values())
        print(", ".join(f"{count} {word}" for word, count in counts.items()))
        if report is not None:
            found = results(
                tally,
                outcomes,
                version=version,
                labels=named,
                driver=driver,
                seed=seed,
                seconds=time.monotonic() - begun,
                strict=strict,
                exit_code=code,
            )
            write_report(found, report)
            print(f"report: {report / found.file('report.html')}")
        if update_baseline and baseline is not None:
            write_baseline(baseline, tally.updated_baseline())
            return 0
        return code
    except KeyboardInterrupt:
        print("interrupted")
        return INTERRUPTED
    except DriverError as error:
        raise refuse(printable(f"the driver has a bug: {error}")) from None
    except (DriverEnded, BaselineError, OSError) as error:
        raise refuse(printable(str(error))) from None


def _chosen(cases: Iterable[ClientCase], only: str | None) -> list[ClientCase]:
    """Return the cases of the requirements that match a pattern."""
    return [case for case in cases if only is None or fnmatch(case.slug, only)]


def _judged(
    campaign: ClientCampaign,
    supported: Collection[str],
    cases: Sequence[ClientCase],
    random_cases: Sequence[ClientCase],
    seed: int,
    seconds: float,
) -> list[CaseOutcome]:
    """Return the outcomes of the cases, directed ones first; ``seconds``: see ProgramSearch."""
    # What directed cases find explains what random programs do.
    outcomes = campaign.run(all_cases() if random_cases else cases)
    search = ProgramSearch(campaign.start, supported, outcomes, campaign.timeout, seed, seconds)
    of_programs = search.run(random_cases)
    print(f"random programs: {search.count}, from seed {seed} on")
    for outcome in of_programs:
        if outcome.verdict is Verdict.PASS and outcome.reason:
            print(printable(f"{outcome.case.slug}: {outcome.reason}"))
    chosen = {case.slug for case in cases}
    return [one for one in outcomes if one.case.slug in chosen] + of_programs


def _counts(entry: RequirementVerdict, strict: bool) -> bool:
    """Return whether a deviation gives exit code 1."""
    return entry.verdict in (Verdict.FAIL, Verdict.ERROR) or strict


def _print(outcome: CaseOutcome, driver: Sequence[str], is_first: bool) -> None:
    """Print a deviation with both sides, an error of the driver, and what was not decided.

    The first of a requirement has its sentence, and the command that plays it again.
    """
    slug = outcome.case.slug
    requirement = requirements()[slug]
    level = requirement.level
    if outcome.verdict in _UNDECIDED:
        print(printable(f"{outcome.verdict}: {outcome.case.id}: {outcome.reason}"))
    if outcome.mismatch is not None:
        print(printable(f"{'fail' if level == 'must' else level}: {outcome.case.id}"))
        if is_first:
            print(printable(f"  “{requirement.clause}” ({requirement.source})"))
            print(printable(f"  again: {reproduction(outcome, driver)}"))
        for line in outcome.transcript[-SHOWN:]:
            print(printable(line))
        print(printable(f"  EXPECTED  {outcome.mismatch.expected}"))
        print(printable(f"  OBSERVED  {outcome.mismatch.observed}"))
