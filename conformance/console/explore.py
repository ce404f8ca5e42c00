"""``explore``: walks small state spaces and larger ones until the time is over."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from conformance.catalogue import catalogue
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.findings import FOLDER
from conformance.run.campaign_results import (
    CampaignOutcome,
    earlier,
    finding,
    nothing_yet,
    passed,
    write_campaign,
)
from conformance.run.cluster import Cluster
from conformance.run.identity import identified
from conformance.run.kept_transcripts import TranscriptKeeper
from conformance.run.named_target import names_target
from conformance.run.options import Options, with_short_names
from conformance.run.tasks import Backend, Processes, Task
from conformance.run.transferred_files import HandedOver
from conformance.small_worlds.tour_time import TourTime
from conformance.small_worlds.tours import tour_of
from conformance.small_worlds.visit import Visit, untimed, worlds_for
from conformance.small_worlds.world import LARGER, WORLDS, World
from conformance.target.address import TargetError
from conformance.target.footprint import FOOTPRINT
from conformance.target.launch import LaunchError
from conformance.target.target import Target
from conformance.target.watchdog import take_endings_for_interrupts
from conformance.transcript import Transcript
from conformance.usage import (
    FROM_1,
    INTERRUPTED,
    SECONDS,
    ConsoleCommand,
    option,
    refuse,
)
from conformance.verdict import NotTestable
from reports.files import replace
from reports.results import ResultsError, TargetRecord, Test
from reports.results import WorldRecord as WorldSeen
from reports.verdicts import Verdict
from reports.words import counted
from reports.worlds import transitions

_TRIED, _KEPT = "How much to try", "What to keep"
PROGRESS = FOLDER.parent / "explored.json"
"""The file that records what was explored."""
_PREFIX = "explore::"
"""The beginning of the names of tests that record what a world has shown."""
_ANY = "protocol.any-transition"


class Explored(NamedTuple):
    """A world that was explored on a target, and the test that it was."""

    world: str
    seen: WorldSeen | None = None
    """The part of it that was explored; None if it cannot be explored."""
    seconds: float = 0.0
    test: Test | None = None
    target: TargetRecord | None = None
    unfit: str = ""
    """The reason for which it cannot be explored."""

    @property
    def line(self) -> str:
        """The world in words."""
        if self.seen is None:
            return f"{self.world}: {self.unfit}"
        states = counted(self.seen.states, "state")
        return f"{self.world}: {states}, {transitions([self.seen])}, {self.seconds:.1f} s"

    @property
    def is_broken(self) -> bool:
        """Return whether the finding breaks the text."""
        return self.test is not None and self.test.verdict is Verdict.FAIL

    @property
    def is_whole(self) -> bool:
        """Return whether all of it was explored."""
        return self.seen is not None and self.seen.taken == self.seen.transitions


@dataclass(frozen=True, slots=True)
class _Exploration:
    """The work of one process: a world on a target, until ``end`` of the monotonic clock."""

    options: Options
    world: World
    states: int
    end: float
    run: str
    number: int
    findings: Path = FOLDER


@click.command(cls=ConsoleCommand)
@names_target("auto")
@option(
    _TRIED,
    "--time",
    "seconds",
    type=SECONDS,
    default=600.0,
    metavar="SECONDS",
    help="how long to explore",
)
@option(
    *(_TRIED, "--states"),
    type=FROM_1,
    default=20_000,
    show_default=True,
    metavar="N",
    help="the largest world",
)
@option(_TRIED, "--jobs", type=FROM_1, default=1, metavar="N", help="the number of processes")
@option(_TRIED, "--cluster", metavar="ADDRESS", help="on the workers of a Dask scheduler")
@option(_KEPT, "--resume", is_flag=True, help="leave out worlds that were explored before")
@option(
    *(_KEPT, "--report"),
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="write a report there, or add to that of a run on the same server",
)
def explore(
    options: Options,
    seconds: float,
    states: int,
    jobs: int,
    cluster: str | None,
    resume: bool,
    report: Path | None,
) -> int:
    """Walk every transition of small state spaces, and compare the full server state after each.

    Exit code 0: nothing that breaks the text found, 1: something.
    """
    if cluster is not None and jobs != 1:
        raise refuse("--cluster and --jobs exclude each other")
    name = options.command or options.address or "the reference server"
    known = _explored_before(name) if resume else set[str]()
    worlds = [world for world in (*WORLDS, *LARGER) if world.name not in known]
    begun = time.monotonic()
    end = begun + seconds
    work = [
        _Exploration(options, world, states, end, FOOTPRINT.run, number + 1)
        for number, world in enumerate(worlds)
    ]
    print(f"exploring {name}: {counted(len(worlds), 'world')} for {seconds:g} s", flush=True)
    take_endings_for_interrupts()
    found: list[Explored] = []
    code = 0
    try:
        backend = Processes[Far](jobs) if cluster is None else _cluster(cluster, work)
        for explored in explored_on(backend, work):
            found.append(explored)
            _keep(name, known | {one.world for one in found if one.is_whole})
            print(explored.line, flush=True)
            if explored.test is not None and explored.test.verdict is not Verdict.PASS:
                print(f"{explored.test.verdict.words}: {explored.test.reason}")
    except KeyboardInterrupt:
        print("interrupted")
        code = INTERRUPTED
    except (TargetError, LaunchError, OSError) as error:
        raise refuse(str(error)) from None
    finally:
        if remark := options.leave():
            print(remark)
    print(_summary(found, len(worlds)))
    if report is not None:
        _report(report, options, found, time.monotonic() - begun)
    return code or int(any(one.is_broken for one in found))


def _report(folder: Path, options: Options, found: Sequence[Explored], seconds: float) -> None:
    """Write the report of what was explored, if anything was; refuses that of another target."""
    target = next((one.target for one in found if one.target is not None), None)
    if target is None:
        return
    tests = {one.test.id: one.test for one in found if one.test is not None}
    worlds = [one.seen for one in found if one.seen is not None]
    try:
        run = earlier(folder, nothing_yet(target, options))
        # Worlds that were explored before, and left out now.
        tests = {test.id: test for test in run.tests if test.id.startswith(_PREFIX)} | tests
        outcome = CampaignOutcome(_PREFIX, [*tests.values()], seconds, catalogue(), worlds=worlds)
        print(f"report: {write_campaign(run, outcome, folder)}")
    except (ResultsError, OSError) as error:
        raise refuse(str(error)) from None


def _explored_before(name: str) -> set[str]:
    """Return the worlds that were explored on a target before."""
    try:
        kept = json.loads(PROGRESS.read_text(encoding="utf-8"))
        return {*kept.get(name, ())}
    except (OSError, ValueError, AttributeError, TypeError):
        return set()


def _keep(name: str, worlds: Iterable[str]) -> None:
    """Write down which worlds were explored on a target."""
    try:
        PROGRESS.parent.mkdir(parents=True, exist_ok=True)
        replace(PROGRESS, json.dumps({name: sorted(worlds)}, indent=1).encode())
    except OSError as error:
        print(f"how far it came could not be kept in {PROGRESS}: {error.strerror}")


def _cluster(address: str, work: Sequence[_Exploration]) -> Cluster[Far]:
    """Return the workers of a scheduler, for exactly this work."""
    which = repr([(one.options, one.states) for one in work[:1]]).encode()
    return Cluster(address, f"explore-{hashlib.sha256(which).hexdigest()[:12]}")


def explored_on(backend: Backend[Far], work: Iterable[_Exploration]) -> Iterator[Explored]:
    """Explore worlds, and yield each that is done."""
    tasks = (
        Task(one.world.name, partial(explore_far, one, one.end - time.monotonic())) for one in work
    )
    with contextlib.closing(backend):
        for task in backend.each(tasks):
            if task.result is None:
                raise TargetError(str(task.error))
            yield task.result.filed()


class Far(NamedTuple):
    """A world that was explored by a worker, with the files of what was found."""

    explored: Explored
    files: HandedOver

    def filed(self) -> Explored:
        """Store the findings here; return the explored world with local paths to its files."""
        self.files.file(FOLDER)
        if (test := self.explored.test) is None:
            return self.explored
        text = self.files.with_local_paths(test.model_dump_json(), FOLDER)
        return self.explored._replace(test=Test.model_validate_json(text))


def explore_far(work: _Exploration, seconds: float) -> Far:
    """Explore one world, for so many seconds at most; raises as ``_explore``."""
    with tempfile.TemporaryDirectory() as folder:
        end, home = time.monotonic() + seconds, Path(folder)
        explored = _explore(replace_fields(work, end=end, findings=home))
        return Far(explored, HandedOver.of(home))


def _explore(work: _Exploration) -> Explored:
    """Explore one world; raises TargetError, LaunchError or OSError."""
    if time.monotonic() > work.end:
        return Explored(work.world.name, unfit="not begun in the time")
    FOOTPRINT.join(work.run, work.number)
    target = work.options.target()
    try:
        work.options.recognise(target)
        worlds = worlds_for(target, [work.world])
        if not worlds:
            return Explored(work.world.name, unfit="needs another profile, or a clock of its own")
        return _visited(worlds[0], target, work)
    except NotTestable as error:
        return Explored(work.world.name, unfit=str(error))
    finally:
        target.close()


def _visited(world: World, target: Target, work: _Exploration) -> Explored:
    tour = tour_of(world, target.profile, work.states)
    start = time.monotonic()
    exploration = Exploration(1, profile=target.profile, folder=work.findings, shared=True)
    with untimed(target) as other:
        visit = Visit(tour, target if world.timed else other, exploration, TourTime(work.end))
        found = visit.run()
        seconds, identity = time.monotonic() - start, identified(target, work.options)
        explored = Explored(world.name, visit.seen(), seconds, target=identity)
        name = f"{_PREFIX}{world.name}"
        if found is None:
            return explored._replace(test=passed(name, _ANY))
        transcript, keeper = Transcript(), TranscriptKeeper(None, "")
        deviation = visit.deviation(found, transcript)
        again = ["beanstalk-conformance", "explore", *with_short_names(work.options.chosen)]
        test = finding(name, _ANY, deviation, transcript, again, target.profile, keeper)
        return explored._replace(test=test)


def _summary(found: Sequence[Explored], worlds: int) -> str:
    """Return how far it came, in words."""
    taken = transitions(one.seen for one in found if one.seen is not None)
    whole = sum(one.is_whole for one in found)
    return f"{taken}; {whole} of {counted(worlds, 'world')} explored"
