"""The command line of the fuzzer."""

from __future__ import annotations

import math
import multiprocessing
import queue
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from conformance import usage
from conformance.printable import printable
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.findings import FOLDER
from conformance.run.suite import Options
from conformance.target.address import TargetError
from conformance.target.cleanup import leave, may_be_left
from conformance.target.footprint import FOOTPRINT
from conformance.target.launch import LaunchError
from conformance.target.target import Target
from conformance.target.watchdog import ENDINGS
from conformance.usage import FROM_1, SECONDS, USAGE, ConsoleCommand, names_target, option, refuse
from fuzz.corpus import Pool
from fuzz.fuzzer import Fuzzer
from fuzz.grey_target import CHOICES, NotInstrumented, Sight
from fuzz.hostile import Progress
from reports.words import counted

_LINE = 1.0
"""Seconds between two lines on a terminal."""


@dataclass(frozen=True, slots=True)
class _Work:
    """The work of one process."""

    options: Options
    seed: int
    seconds: float
    most: float
    findings: Path
    corpus: Path | None
    coverage: str
    run: str


@dataclass(frozen=True, slots=True)
class _News:
    """The news of a process: its progress, its findings, and whether it has ended."""

    job: int
    progress: Progress = field(default_factory=Progress)
    shapes: int = 0
    edges: int = 0
    undecided: int = 0
    unjudged: int = 0
    found: tuple[tuple[str, bool], ...] = ()
    """A line for each finding, and whether the text of the protocol decides it."""
    health: tuple[str, ...] = ()
    target: str = ""
    """The target in words, once it is known."""
    error: str = ""
    ended: bool = False


def main(argv: Sequence[str] | None = None) -> int:
    """Fuzzes a target; exit code 0: nothing that breaks the text found, 1: something, 4: usage."""
    return usage.run(fuzz, "beanstalk-conformance fuzz", argv)


_FOLDER = click.Path(path_type=Path)
_TRIED, _KEPT = "How much to try", "What to keep"


@click.command(cls=ConsoleCommand)
@names_target("real")
@option(
    _TRIED, "--time", "seconds", type=SECONDS, default=60.0, metavar="SECONDS", help="for how long"
)
@option(_TRIED, "--seed", type=int, default=0, metavar="N", help="where choices begin")
@option(_TRIED, "--jobs", type=FROM_1, default=1, metavar="N", help="in so many processes")
@option(_TRIED, "--max-findings", type=FROM_1, metavar="N", help="end after so many")
@option(
    *(_TRIED, "--coverage"),
    type=click.Choice(CHOICES),
    default="auto",
    show_default=True,
    help="the edges of the server's code that guide what is tried",
)
@option(_KEPT, "--findings", type=_FOLDER, metavar="FOLDER", help="findings go there")
@option(_KEPT, "--corpus", type=_FOLDER, metavar="FOLDER", help="share inputs with other fuzzers")
def fuzz(
    target: str | None,
    launch: str | None,
    clock: str,
    start_timeout: float,
    profile: str,
    seconds: float,
    seed: int,
    jobs: int,
    max_findings: int | None,
    coverage: str,
    findings: Path | None,
    corpus: Path | None,
) -> int:
    """Send hostile bytes, and look whether the text allows what comes back.

    Exit code 0: nothing that breaks the text found, 1: something.
    """
    options = Options.of_command(target, launch, clock, start_timeout, profile)
    try:
        for folder in filter(None, (findings, corpus)):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refuse(f"cannot write to {error.filename}: {error.strerror}") from None
    most, run = max_findings or math.inf, FOOTPRINT.run
    work = [
        _Work(options, seed + job * 10**6, seconds, most, findings or FOLDER, corpus, coverage, run)
        for job in range(jobs)
    ]
    start = time.monotonic()
    news = _run(work)
    if target is not None and not leave(options.target(), []):
        print(may_be_left(target))
    errors = [told.error for told in news if told.error]
    if errors and not any(told.found for told in news):
        raise refuse(errors[0])
    code = _summary(news, time.monotonic() - start)
    for said in errors:
        print(f"error: {said}", file=sys.stderr)
    return code or (USAGE if errors else 0)


def _run(work: Sequence[_Work]) -> list[_News]:
    """The last news of each job."""
    context = multiprocessing.get_context("spawn")
    told: multiprocessing.Queue[_News] = context.Queue()
    processes = [
        context.Process(target=_job, args=(number, job, told), daemon=True)
        for number, job in enumerate(work)
    ]
    for process in processes:
        process.start()
    # They end it as Ctrl-C does: with what it has found, and with all that it has started.
    for ending in set(ENDINGS) - {signal.SIGINT}:
        signal.signal(ending, signal.default_int_handler)
    last: dict[int, _News] = {}
    is_told = False
    start = shown = time.monotonic()
    try:
        while not all(number in last and last[number].ended for number in range(len(work))):
            try:
                news = told.get(timeout=0.5)
                if news.error and news.job in last:
                    news = replace(last[news.job], error=news.error, ended=True)
                if news.target and not is_told:
                    is_told = True
                    print(_begins(work, news.target), flush=True)
                last[news.job] = news
            except queue.Empty:
                for number, process in enumerate(processes):
                    if process.exitcode and number not in last:
                        error = f"process {number} ended with status {process.exitcode}"
                        last[number] = _News(number, error=error, ended=True)
            if sys.stdout.isatty() and time.monotonic() - shown > _LINE:
                shown = time.monotonic()
                print(f"\r{_line(list(last.values()), shown - start)}", end="\x1b[K", flush=True)
    except KeyboardInterrupt:
        print(f"\ninterrupted after {time.monotonic() - start:.0f} s")
    finally:
        for process in processes:
            process.terminate()
            process.join()
    if sys.stdout.isatty():
        print()
    return [last[number] for number in sorted(last)]


def _begins(work: Sequence[_Work], target: str) -> str:
    """Return what is told of the work when it begins."""
    processes = f", in {len(work)} processes" if len(work) > 1 else ""
    return f"fuzzing {target} for {work[0].seconds:g} s, seed {work[0].seed}{processes}"


def _job(number: int, work: _Work, told: multiprocessing.Queue[_News]) -> None:
    FOOTPRINT.join(work.run, number + 1)
    try:
        sight = Sight.of(work.options, work.coverage)
        target = sight.options.target()
        try:
            _fuzz(target, sight, number, work, told)
        finally:
            target.close()
    except (TargetError, LaunchError, NotInstrumented) as error:
        told.put(_News(number, error=str(error), ended=True))


def _fuzz(
    target: Target, sight: Sight, number: int, work: _Work, told: multiprocessing.Queue[_News]
) -> None:
    """Tells now and then how far it is; raises TargetError or LaunchError."""
    work.options.recognise(target)
    name = f"{target.label} {target.version} (profile {target.profile.name})"
    told.put(_News(number, target=printable(f"{name}, {sight.told}")))
    exploration = Exploration(
        1, work.seed, profile=target.profile, folder=work.findings, shared=True
    )
    grey = sight.grey_box(target, work.seed, work.corpus)
    pool = Pool(work.corpus) if grey is None else Pool(work.corpus, grey.has_news)
    fuzzer = Fuzzer(exploration, target, pool, grey)

    def tell(ended: bool = False) -> None:
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():
            raise SystemExit
        report, undecided = fuzzer.report, exploration.undecided
        found = tuple((filed.line, not filed.diagnosis.de_facto) for filed in report.found)
        health = tuple(report.health.values())
        edges = grey.guidance.edges if grey is not None else 0
        news = _News(
            *(number, report.progress, report.shapes, edges, undecided, report.unjudged),
            *(found, health),
            ended=ended,
        )
        told.put(news)

    try:
        fuzzer.run(work.seconds, work.most, tell)
    except (OSError, TargetError, LaunchError) as error:
        raise TargetError(f"the target is lost: {error}") from error
    tell(ended=True)


def _line(news: Sequence[_News], seconds: float) -> str:
    cases = sum(told.progress.cases for told in news)
    commands = sum(told.progress.commands for told in news)
    shapes = max((told.shapes for told in news), default=0)
    edges = max((told.edges for told in news), default=0)
    found = len({line for told in news for line, _ in told.found})
    rate = f"{cases / max(seconds, 1):,.0f}/s, {commands / max(seconds, 1):,.0f} commands/s"
    seen = f"{counted(edges, 'edge')}, " if edges else ""
    return (
        f"{seconds:.0f} s, {counted(cases, 'case')} ({rate}),"
        f" {counted(shapes, 'shape')}, {seen}"
        f"{counted(found, 'finding')}"
    )


def _summary(news: Sequence[_News], seconds: float) -> int:
    print(_line(news, seconds))
    slowest = max((told.progress.slowest for told in news), default=0.0)
    undecided = sum(told.undecided for told in news)
    print(
        f"slowest reply to somebody else: {slowest * 1000:.0f} ms;"
        f" {counted(undecided, 'program')} undecided"
    )
    if unjudged := sum(told.unjudged for told in news):
        print(f"judged in part: {counted(unjudged, 'program')} that got to a new place in the code")
    found = dict(sorted({finding for told in news for finding in told.found}))
    for line, must in found.items():
        print(f"{'fail' if must else 'non-strict'}: {line}")
    for line in dict.fromkeys(line for told in news for line in told.health):
        print(f"health: {line}")
    return int(any(found.values()))
