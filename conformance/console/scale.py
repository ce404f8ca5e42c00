"""``scale``: how the cost of each command grows."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import click

from conformance import yamlish
from conformance.console.progress import ProgressBar
from conformance.printable import printable
from conformance.run.baseline import BaselineError
from conformance.run.options import Options
from conformance.scale.baseline import as_known, read_known, write_known
from conformance.scale.jobs import WrongAnswer
from conformance.scale.measuring import SMALLEST, Effort, ScaleCampaign, Subject
from conformance.scale.populated_server import BatchClient, NoAnswer
from conformance.scale.results import lines, results
from conformance.scale.servers import BUILT_IN, LaunchedServer, SharedServer
from conformance.scale.workloads import WORKLOADS, Growth
from conformance.target.address import TargetError
from conformance.target.launch import LaunchError
from conformance.target.limits import USUAL, Limits
from conformance.target.profile_detection import recognise
from conformance.target.target import Remote
from conformance.target.watchdog import take_endings_for_interrupts
from conformance.usage import (
    ADDRESS,
    INTERRUPTED,
    SECONDS,
    WHAT,
    ConsoleCommand,
    make_folder,
    option,
    refuse,
)
from reference_server.system import allow_many_connections
from reports.files import named, replace
from reports.results import ResultsError
from reports.scale import Scale, read_scale, scale_page

_HOW, _KEPT = "How to measure it", "What to keep"
_PATH = click.Path(path_type=Path)
REPLY_LIMIT = 10.0
"""Seconds that a reply may take: a large server is slow, but not that slow."""


@click.command(cls=ConsoleCommand)
@option(WHAT, "--target", metavar="ADDRESS", help=ADDRESS)
@option(
    *(WHAT, "--launch"),
    metavar="COMMAND",
    help="a server to start: a command with {port} or {path}; by default, the reference server",
)
@option(
    *(WHAT, "--beside"),
    metavar="COMMAND",
    help="another server, measured in turn with the first: a command as for --launch",
)
@option(
    *(WHAT, "--start-timeout"),
    type=float,
    default=USUAL.start,
    show_default=True,
    metavar="SECONDS",
    help="how long it may take until it listens",
)
@option(
    *(_HOW, "--seconds"),
    type=SECONDS,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="for how long, about; more time reaches larger sizes",
)
@option(
    *(_HOW, "--only"),
    type=click.Choice([str(growth) for growth in Growth]),
    multiple=True,
    metavar="NAME",
    help="what grows, such as 'reserved jobs', instead of everything; may be given several times",
)
@option(
    *(_HOW, "--up-to", "most"),
    type=click.IntRange(min=SMALLEST),
    metavar="N",
    help="the largest size; by default 1,000,000 jobs, 100,000 tubes, 10,000 connections,"
    " and on a server that runs 10,000, 1,000 and 100",
)
@option(
    *(_HOW, "--baseline"),
    type=_PATH,
    metavar="FILE",
    help="known growth: exit code 1 if anything has become worse",
)
@option(_HOW, "--update-baseline", is_flag=True, help="write the growth to that file")
@option(_KEPT, "--report", type=_PATH, metavar="FOLDER", help="write scale.json and scale.html")
@option(_KEPT, "--name", default="", metavar="NAME", help="the server's name")
@option(
    *(_KEPT, "--show"),
    type=_PATH,
    multiple=True,
    metavar="FILE",
    help="the scale.json of another server, to be drawn on the same page",
)
def scale(
    target: str | None,
    launch: str | None,
    beside: str | None,
    start_timeout: float,
    seconds: float,
    only: Sequence[str],
    most: int | None,
    baseline: Path | None,
    update_baseline: bool,
    report: Path | None,
    name: str,
    show: Sequence[Path],
) -> int:
    """Measure how the cost of each command grows with jobs, tubes, connections and bodies.

    Exit code 0: all replies were right and nothing is worse than the baseline, 1: something is.
    """
    options = Options.of_command(target, launch, "real", start_timeout)
    all_options = [options]
    if beside is not None:
        if target is not None:
            raise refuse("--beside compares two servers that are started: it needs --launch")
        all_options.append(Options.of_command(None, beside, "real", start_timeout))
    if update_baseline and baseline is None:
        raise refuse("--update-baseline needs --baseline FILE")
    if show and report is None:
        raise refuse("--show needs --report FOLDER")
    if report is not None:
        make_folder(report)
    allow_many_connections()
    take_endings_for_interrupts()
    try:
        is_new = update_baseline and baseline is not None and not baseline.exists()
        known = read_known(baseline) if baseline and not is_new else {}
        shown = [read_scale(path) for path in show]
        subjects = [_subject(one, name if one is options else "") for one in all_options]
        rows = [row for row in WORKLOADS if not only or row.grows in only]
        effort = Effort(seconds, most, paced=seconds / 600)
        campaign = ScaleCampaign(subjects, effort, REPLY_LIMIT, rows)
        try:
            is_interrupted = _measured(campaign)
        finally:
            if remark := options.leave():
                print(remark)
        found = results(campaign, known, is_interrupted)
        for line in lines(found):
            print(printable(line))
        if report is not None:
            _write(report, name, found, shown)
        if is_interrupted:
            print("interrupted")
            return INTERRUPTED
        is_wrong = any(server.violations for server in found.servers)
        if update_baseline and baseline is not None:
            write_known(baseline, as_known(found.servers[0], found.ratios))
            return int(is_wrong)
        return int(is_wrong or bool(found.worse))
    except KeyboardInterrupt:
        print("interrupted")
        return INTERRUPTED
    except (TargetError, LaunchError, BaselineError, ResultsError) as error:
        raise refuse(str(error)) from None
    except OSError as error:
        raise refuse(printable(str(error))) from None


def _measured(campaign: ScaleCampaign) -> bool:
    """Run a campaign; return whether it was interrupted."""
    bar = ProgressBar("measuring:")
    campaign.progress = bar.show
    try:
        campaign.run()
    except KeyboardInterrupt:
        return True
    finally:
        bar.end()
    return False


def _write(folder: Path, name: str, found: Scale, shown: Sequence[Scale]) -> None:
    """Write the files of a report; raises OSError."""
    page = folder / named(name, "scale.html")
    replace(folder / named(name, "scale.json"), found.encode().encode())
    replace(page, scale_page([found, *shown]).encode())
    print(f"report: {page}")


def _subject(options: Options, name: str) -> Subject:
    """Return the server that options name; raises TargetError if it does not answer."""
    limits = Limits(start=options.start_timeout)
    command = options.command or BUILT_IN
    label = "reference server" if options.command is None else command.split()[0].rpartition("/")[2]

    def start() -> LaunchedServer | SharedServer:
        if options.address is not None:
            return SharedServer(Remote(options.address, limits))
        return LaunchedServer(command, limits)

    is_shared = options.address is not None
    subject = Subject(
        name or options.address or label, "" if is_shared else command, start, not is_shared
    )
    server = start()
    try:
        subject.version = _version(server, subject.name)
        subject.profile, _ = recognise(server.address, subject.version, limits.detection)
    finally:
        server.close()
    return subject


def _version(server: LaunchedServer | SharedServer, name: str) -> str:
    """Return the version that a server reports; raises TargetError if it answers nothing."""
    try:
        client = BatchClient(server.connect(), USUAL.probe)
        reply = client.ask("stats")
        client.wire.close()
    except (NoAnswer, WrongAnswer, OSError) as error:
        raise TargetError(f"{name} does not answer stats: {error}") from None
    with contextlib.suppress(ValueError):
        return printable(yamlish.dictionary(reply.body or b"").get("version", ""))[:60]
    return ""
