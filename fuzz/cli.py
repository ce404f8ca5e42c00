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

import pytest

from conformance.random_testing.exploration import Exploration
from conformance.random_testing.findings import FOLDER
from conformance.run.suite import Options
from conformance.target.address import TargetError
from conformance.target.builtin import BuiltIn
from conformance.target.cleanup import leave, may_be_left
from conformance.target.footprint import FOOTPRINT
from conformance.target.launch import LaunchError
from conformance.target.target import Target
from conformance.usage import Parser
from fuzz.corpus import Pool
from fuzz.coverage import Coverage
from fuzz.fuzzer import Fuzzer
from fuzz.hostile import Progress

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
    run: str


@dataclass(frozen=True, slots=True)
class _News:
    """The news of a process: its progress, its findings, and whether it has ended."""

    job: int
    progress: Progress = field(default_factory=Progress)
    shapes: int = 0
    undecided: int = 0
    found: tuple[tuple[str, bool], ...] = ()
    """A line for each finding, and whether the text of the protocol decides it."""
    health: tuple[str, ...] = ()
    error: str = ""
    ended: bool = False


def main(argv: Sequence[str] | None = None) -> int:
    """Fuzzes a target; exit code 0: nothing that breaks the text found, 1: something, 4: usage."""
    parser = Parser(prog="beanstalk-conformance fuzz", description="Sends hostile bytes.")
    parser.add_argument("--target", metavar="ADDRESS", help="HOST:PORT or unix:/path")
    parser.add_argument("--launch", metavar="COMMAND", help="a server to start, as for run")
    parser.add_argument("--clock", choices=("auto", "real", "fake"), default="real")
    parser.add_argument("--time", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="where choices begin")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--max-findings", type=int, metavar="N", help="end after so many")
    parser.add_argument("--findings", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--corpus", type=Path, metavar="FOLDER", help="share inputs with other fuzzers"
    )
    args = parser.parse_args(argv)
    if args.jobs < 1 or not args.time > 0 or (args.max_findings or 1) < 1:
        parser.error("--jobs, --time and --max-findings take numbers above 0")
    clock = args.clock if args.launch is not None else "auto"
    options = Options(args.target, args.launch, clock, 0.25)
    most, findings = args.max_findings or math.inf, args.findings or FOLDER
    work = [
        _Work(
            options,
            args.seed + job * 10**6,
            args.time,
            most,
            findings,
            args.corpus,
            FOOTPRINT.run,
        )
        for job in range(args.jobs)
    ]
    try:
        options.check()
        for folder in filter(None, (args.findings, args.corpus)):
            folder.mkdir(parents=True, exist_ok=True)
    except pytest.UsageError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"cannot write to {error.filename}: {error.strerror}")
    start = time.monotonic()
    news = _run(work)
    if args.target is not None and not leave(options.target(), []):
        print(may_be_left(args.target))
    errors = [told.error for told in news if told.error]
    if errors and not any(told.found for told in news):
        parser.error(errors[0])
    code = _summary(news, time.monotonic() - start)
    for said in errors:
        print(f"error: {said}", file=sys.stderr)
    return code or (4 if errors else 0)


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
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    last: dict[int, _News] = {}
    start = shown = time.monotonic()
    try:
        while not all(number in last and last[number].ended for number in range(len(work))):
            try:
                news = told.get(timeout=0.5)
                if news.error and news.job in last:
                    news = replace(last[news.job], error=news.error, ended=True)
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
        print("interrupted")
    finally:
        for process in processes:
            process.terminate()
            process.join()
    if sys.stdout.isatty():
        print()
    return [last[number] for number in sorted(last)]


def _job(number: int, work: _Work, told: multiprocessing.Queue[_News]) -> None:
    FOOTPRINT.join(work.run, number + 1)
    try:
        target = work.options.target()
        try:
            _fuzz(target, number, work, told)
        finally:
            target.close()
    except (TargetError, LaunchError) as error:
        told.put(_News(number, error=str(error), ended=True))


def _fuzz(target: Target, number: int, work: _Work, told: multiprocessing.Queue[_News]) -> None:
    """Tells now and then how far it is; raises TargetError or LaunchError."""
    exploration = Exploration(
        1, work.seed, profile=target.probe(), folder=work.findings, shared=True
    )
    is_new = Coverage(target).is_new if isinstance(target, BuiltIn) else lambda: False
    fuzzer = Fuzzer(exploration, target, Pool(work.corpus, is_new))

    def tell(ended: bool = False) -> None:
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():
            raise SystemExit
        report, undecided = fuzzer.report, exploration.undecided
        found = tuple((filed.line, not filed.diagnosis.de_facto) for filed in report.found)
        health = tuple(report.health.values())
        news = _News(number, report.progress, report.shapes, undecided, found, health, ended=ended)
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
    found = len({line for told in news for line, _ in told.found})
    rate = f"{cases / max(seconds, 1):,.0f}/s, {commands / max(seconds, 1):,.0f} commands/s"
    return f"{seconds:.0f} s, {cases:,} cases ({rate}), {shapes:,} shapes, {found} findings"


def _summary(news: Sequence[_News], seconds: float) -> int:
    print(_line(news, seconds))
    slowest = max((told.progress.slowest for told in news), default=0.0)
    undecided = sum(told.undecided for told in news)
    print(
        f"slowest reply to somebody else: {slowest * 1000:.0f} ms; {undecided} programs undecided"
    )
    found = dict(sorted({finding for told in news for finding in told.found}))
    for line, must in found.items():
        print(f"{'fail' if must else 'non-strict'}: {line}")
    for line in dict.fromkeys(line for told in news for line in told.health):
        print(f"health: {line}")
    return int(any(found.values()))
