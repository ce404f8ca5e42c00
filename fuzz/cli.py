"""The command line of the fuzzer."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from conformance import usage
from conformance.random_testing.findings import FOLDER
from conformance.run.campaign_results import earlier, nothing_yet, write_campaign
from conformance.run.cluster import Cluster
from conformance.run.kept_transcripts import TranscriptKeeper
from conformance.run.named_target import names_target
from conformance.run.options import Options
from conformance.run.tasks import Processes
from conformance.target.address import TargetError
from conformance.target.watchdog import take_endings_for_interrupts
from conformance.usage import FROM_1, SECONDS, USAGE, ConsoleCommand, make_folder, option, refuse
from fuzz.grey_target import CHOICES
from fuzz.live import LiveView
from fuzz.progress_updates import ProgressUpdate, health, summary, target_of
from fuzz.results import outcome_of
from fuzz.sliced_campaign import SlicedCampaign
from fuzz.slices import SliceOutcome
from reports.files import replace as replace_file
from reports.fuzzing import CampaignMoment, fuzz_page
from reports.results import ResultsError


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
@option(
    *(_KEPT, "--report"),
    type=_FOLDER,
    metavar="FOLDER",
    help="write a report there, or add to that of a run on the same server",
)
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
    for folder in filter(None, (findings, corpus, report)):
        make_folder(folder)
    where = "" if jobs == 1 else f", in {jobs} processes"
    if cluster is not None:
        where = f", on {cluster}"
    start, errors, begun = time.monotonic(), list[str](), False
    take_endings_for_interrupts()
    with LiveView() as view:

        def show(updates: Sequence[ProgressUpdate]) -> None:
            nonlocal begun
            if not begun and (target := target_of(updates)):
                begun = True
                print(f"fuzzing {target} for {seconds:g} s, seed {seed}{where}", flush=True)
            view.show(updates)

        campaign = SlicedCampaign(options, seed, findings or FOLDER, corpus, coverage, show)
        try:
            backend = (
                Processes[SliceOutcome](jobs)
                if cluster is None
                else Cluster[SliceOutcome](cluster, campaign.name)
            )
            campaign.run(backend, seconds, max_findings or math.inf)
        except TargetError as error:
            errors = [str(error)]
        except KeyboardInterrupt:
            print(f"\ninterrupted after {time.monotonic() - start:.0f} s")
            if cluster is not None:
                print("the same command takes over what workers have begun")
            for path in campaign.unreduced:
                print(f"observed, but not shrunk: {path}")
        updates = campaign.updates
        view.end(updates)
    passed = time.monotonic() - start
    if remark := options.leave():
        print(remark)
    if errors and not campaign.found:
        raise refuse(errors[0])
    if report is not None:
        try:
            for path in _report(report, campaign, options, view.history.moments, passed):
                print(f"report: {path}")
        except (ResultsError, OSError) as error:
            errors.append(str(error))
    code = summary(updates, passed)
    for said in errors:
        print(f"error: {said}", file=sys.stderr)
    return code or (USAGE if errors else 0)


def _report(
    folder: Path,
    campaign: SlicedCampaign,
    options: Options,
    moments: Sequence[CampaignMoment],
    seconds: float,
) -> Iterator[Path]:
    """Write the report of a campaign, and its progress over time; yield the pages."""
    updates = campaign.updates
    remarks = health(updates)
    lines = sorted({line for update in updates for line, _ in update.found})
    title = f"Fuzzing {target_of(updates) or 'a server'}"
    page = folder / "fuzz.html"
    replace_file(page, fuzz_page(title, moments, lines, remarks).encode())
    yield page
    if campaign.target is not None:
        target, profile = campaign.target
        keeper = TranscriptKeeper(folder, options.name)
        found = [*campaign.found.values()]
        outcome = outcome_of(found, profile, seconds, remarks, options, keeper)
        yield write_campaign(earlier(folder, nothing_yet(target, options)), outcome, folder)
