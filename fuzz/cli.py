"""The command line of the fuzzer."""

from __future__ import annotations

import math
import multiprocessing
import queue
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from conformance import usage
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.findings import FOLDER
from conformance.run.named_target import names_target
from conformance.run.options import Options
from conformance.target.address import TargetError
from conformance.target.footprint import FOOTPRINT
from conformance.target.launch import LaunchError
from conformance.target.target import Target
from conformance.target.watchdog import take_endings_for_interrupts
from conformance.usage import FROM_1, SECONDS, USAGE, ConsoleCommand, option, refuse
from fuzz.corpus import Pool
from fuzz.entries import FOLDER as PROGRAMS
from fuzz.entries import Shelf
from fuzz.fuzzer import Fuzzer
from fuzz.grey_target import CHOICES, NotInstrumented, Sight
from fuzz.live import LiveView
from fuzz.progress_updates import ProgressUpdates, health, summary
from reports.files import replace as replace_file
from reports.fuzzing import fuzz_page


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


def main(argv: Sequence[str] | None = None) -> int:
    """Fuzz a target; exit code 0: nothing that breaks the text found, 1: something, 4: usage."""
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
@option(_TRIED, "--cluster", metavar="ADDRESS", help="on the workers of a Dask scheduler")
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
@option(_KEPT, "--report", type=_FOLDER, metavar="FOLDER", help="a page of it goes there")
def fuzz(
    options: Options,
    seconds: float,
    seed: int,
    jobs: int,
    cluster: str | None,
    max_findings: int | None,
    coverage: str,
    findings: Path | None,
    corpus: Path | None,
    report: Path | None,
) -> int:
    """Send malformed and random input, and check every reply against the protocol.

    Exit code 0: nothing that breaks the text found, 1: something.
    """
    if cluster is not None and jobs != 1:
        raise refuse("--cluster and --jobs exclude each other")
    try:
        for folder in filter(None, (findings, corpus, report)):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refuse(f"cannot write to {error.filename}: {error.strerror}") from None
    most, run = max_findings or math.inf, FOOTPRINT.run
    work = [
        _Work(options, seed + job * 10**6, seconds, most, findings or FOLDER, corpus, coverage, run)
        for job in range(jobs)
    ]
    start = time.monotonic()
    with LiveView() as view:
        news = _run(work, view) if cluster is None else _run_on(cluster, work[0], view)
        view.end(news)
    if remark := options.leave():
        print(remark)
    errors = [told.error for told in news if told.error]
    if errors and not any(told.found for told in news):
        raise refuse(errors[0])
    if report is not None:
        found = sorted({line for told in news for line, _ in told.found})
        name = next((told.target for told in news if told.target), "a server")
        text = fuzz_page(f"Fuzzing {name}", view.history.moments, found, health(news))
        replace_file(report / "fuzz.html", text.encode())
        print(f"report: {report / 'fuzz.html'}")
    code = summary(news, time.monotonic() - start)
    for said in errors:
        print(f"error: {said}", file=sys.stderr)
    return code or (USAGE if errors else 0)


def _run(work: Sequence[_Work], view: LiveView) -> list[ProgressUpdates]:
    """Return the last news of each job."""
    context = multiprocessing.get_context("spawn")
    told: multiprocessing.Queue[ProgressUpdates] = context.Queue()
    processes = [
        context.Process(target=_job, args=(number, job, told), daemon=True)
        for number, job in enumerate(work)
    ]
    for process in processes:
        process.start()
    # With what it has found, and with all that it has started.
    take_endings_for_interrupts()
    last: dict[int, ProgressUpdates] = {}
    is_told = False
    start = time.monotonic()
    try:
        while not all(number in last and last[number].ended for number in range(len(work))):
            try:
                news = told.get(timeout=0.5)
                if news.error and news.job in last:
                    news = replace(last[news.job], error=news.error, ended=True)
                if news.target and not is_told:
                    is_told = True
                    print(_begins(work, news.target), flush=True)
                name = last[news.job].target if news.job in last else ""
                last[news.job] = replace(news, target=news.target or name)
            except queue.Empty:
                for number, process in enumerate(processes):
                    if process.exitcode and number not in last:
                        error = f"process {number} ended with status {process.exitcode}"
                        last[number] = ProgressUpdates(number, error=error, ended=True)
            view.show(list(last.values()))
    except KeyboardInterrupt:
        print(f"\ninterrupted after {time.monotonic() - start:.0f} s")
    finally:
        for process in processes:
            process.terminate()
            process.join()
    return [last[number] for number in sorted(last)]


def _run_on(cluster: str, work: _Work, view: LiveView) -> list[ProgressUpdates]:
    """Return the last news of a cluster's workers; what is handed out goes on after Ctrl-C."""
    # Dask is an extra, and takes long to import.
    from fuzz.cluster import ClusterCampaign

    print(f"fuzzing on {cluster} for {work.seconds:g} s, seed {work.seed}", flush=True)
    campaign = ClusterCampaign(
        work.options, work.seed, work.findings, work.corpus, work.coverage, view.show
    )
    try:
        return campaign.run(cluster, work.seconds, work.most)
    except TargetError as error:
        raise refuse(str(error)) from None
    except KeyboardInterrupt:
        print("\ninterrupted; the same command takes over what workers have begun")
        return campaign.news


def _begins(work: Sequence[_Work], target: str) -> str:
    """Return what is told of the work when it begins."""
    processes = f", in {len(work)} processes" if len(work) > 1 else ""
    return f"fuzzing {target} for {work[0].seconds:g} s, seed {work[0].seed}{processes}"


def _job(number: int, work: _Work, told: multiprocessing.Queue[ProgressUpdates]) -> None:
    FOOTPRINT.join(work.run, number + 1)
    try:
        sight = Sight.of(work.options, work.coverage)
        target = sight.options.target()
        try:
            _fuzz(target, sight, number, work, told)
        finally:
            target.close()
    except (TargetError, LaunchError, NotInstrumented) as error:
        told.put(ProgressUpdates(number, error=str(error), ended=True))


def _fuzz(
    target: Target,
    sight: Sight,
    number: int,
    work: _Work,
    told: multiprocessing.Queue[ProgressUpdates],
) -> None:
    """Tell now and then how far it is; raises TargetError or LaunchError."""
    work.options.recognise(target)
    told.put(ProgressUpdates(number, target=sight.named(target)))
    exploration = Exploration(
        1, work.seed, profile=target.profile, folder=work.findings, shared=True
    )
    shelf = None if work.corpus is None else Shelf(work.corpus / PROGRAMS)
    grey = sight.grey_box(target, work.seed, shelf)
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
        news = ProgressUpdates(
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
