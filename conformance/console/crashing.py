"""The parts of ``durability``: disk crashes, damaged files and kills under load."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from conformance.console.progress import ProgressBar
from conformance.durability.campaign import DurabilityCampaign
from conformance.durability.catalogue import requirements
from conformance.durability.crashes import CrashKind
from conformance.durability.damage import Damage, cuts, damages, other_files, wrong
from conformance.durability.disk import Disk, digest, write_out
from conformance.durability.findings import CrashCase, grouped, place
from conformance.durability.inspection import Inventory, Question
from conformance.durability.judging import STARTS
from conformance.durability.kills import kills
from conformance.durability.recording import (
    RecordingFiles,
    SceneRecording,
    read,
    record,
    usual_loss,
)
from conformance.durability.report import DAMAGES, KILLS, STATES, UPGRADES, DurabilityReport
from conformance.durability.results import outcome_of
from conformance.durability.rivals import rivals
from conformance.durability.scenes import LARGEST, TUBES, CrashScene, scenes
from conformance.durability.upgrades import LeftFiles, changed, left_by, upgraded
from conformance.run.campaign_results import earlier, nothing_yet, write_campaign
from conformance.run.identity import identified
from conformance.run.options import Options
from conformance.run.tasks import Backend
from conformance.target.launch import DidNotStart
from conformance.target.launched_target import LaunchedTarget
from conformance.target.limits import Limits
from conformance.target.target import Target
from conformance.usage import refuse
from conformance.verdict import NotTestable
from reference_server.profiles import Profile
from reports.crashes import line
from reports.results import CrashPart
from reports.words import counted

OLDER = "files of an older version"


class Tried(NamedTuple):
    """The amount that is tried of each kind."""

    states: int
    kills: int
    damages: int


class ReportPlaces(NamedTuple):
    """The places of what is written; ``report``: that of a report, if one is wanted."""

    folder: Path
    report: Path | None


class Crashing:
    """One run of the command; ``reproduce`` are the words that start it again."""

    def __init__(
        self,
        options: Options,
        older: Options | None,
        loss: float | None,
        written: ReportPlaces,
        resume: bool,
        reproduce: str,
    ) -> None:
        assert options.command is not None
        self._begun = time.monotonic()
        self._options, self._older = options, older
        self._limits = Limits(start=options.start_timeout)
        self._command = options.command
        self._folder, self._written = written
        self._resume = resume
        self._cases: list[CrashCase] = []
        with _recognised(options, self._limits) as target:
            self._profile, self._scenes = target.profile, _scenes(target)
            run = nothing_yet(identified(target, options), options)
        self._loss = usual_loss(self._profile) if loss is None else loss
        if why := requirements()[STARTS].missing_in(self._profile.stage):
            raise refuse(f"the server keeps no jobs: that {why}")
        self._run = run if self._written is None else earlier(self._written, run)
        self._report = DurabilityReport(self._command, self._profile, reproduce)

    def everything(self, backend: Backend[Inventory], tried: Tried) -> int:
        """Run all parts, print their findings, and return the exit code."""
        first: SceneRecording | None = None
        for scene in self._scenes:
            with self._testing(scene.name, STATES):
                recording = self._recording(scene)
                first = first or recording
                self._crash(backend, recording, tried.states)
        if tried.damages:
            with self._testing("damaged files", DAMAGES):
                if first is None:
                    raise NotTestable("no conversation was recorded")
                self._damage(backend, "damaged files", _left(first), tried.damages)
            with self._testing("two servers on one folder", DAMAGES):
                self._share()
        if self._older is not None:
            with self._testing(OLDER, UPGRADES):
                left = self._upgrades(self._older)
                if tried.damages and left:
                    self._damage(backend, OLDER, left[0], tried.damages)
        if tried.kills:
            with self._testing("kills under load", KILLS):
                self._kill(tried.kills)
        return self._conclude()

    @contextlib.contextmanager
    def _testing(self, what: str, kind: str) -> Iterator[None]:
        """Note what cannot be tested, and why."""
        try:
            yield
        except (NotTestable, DidNotStart) as error:
            self._missing(what, f"not testable: {error}")
            self._report.untestable.setdefault(kind, f"{what}: {error}")
            print(f"{what}: not testable: {error}", flush=True)

    def _missing(self, what: str, why: str) -> None:
        self._report.missing.append(f"{what}: {why}")

    def _recording(self, scene: CrashScene) -> SceneRecording:
        """Record a scene, unless that was done before; raise NotTestable."""
        kept = RecordingFiles.of(self._folder, scene.name)
        if not (self._resume and kept.talk.exists()):
            for path in (kept.talk, kept.inventories):
                path.unlink(missing_ok=True)
            record(self._command, scene, self._profile, self._limits, self._loss, kept)
        return read(kept, scene, self._profile, self._loss)

    def _question(self, ids: Iterable[int]) -> Question:
        return Question(self._command, self._profile, self._limits, tuple(ids), TUBES)

    def _campaign(self, backend: Backend[Inventory], name: str) -> DurabilityCampaign:
        bar = ProgressBar(f"{name}:")
        kept = RecordingFiles.of(self._folder, name).inventories
        return DurabilityCampaign(backend, kept, lambda done, of: bar.show(done / of))

    def _crash(self, backend: Backend[Inventory], recording: SceneRecording, limit: int) -> None:
        """Try all crashes in a scene."""
        name = recording.scene.name
        campaign = self._campaign(backend, name)
        outcome = campaign.run(self._question(recording.transcript.ids.values()), recording, limit)
        self._cases += outcome.cases
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in outcome.states.items())
        if recording.scene.points:
            kinds += f"; of {outcome.found:,}"
        self._add_part(name, STATES, outcome.states.total(), kinds, campaign)
        for reason in outcome.untried:
            self._missing(name, f"not tried: {reason}")
        for reason, count in outcome.left_out.items():
            if count:
                self._missing(name, f"{counted(count, 'state')} left out: {reason}")

    def _upgrades(self, older: Options) -> list[LeftFiles]:
        """Start the server on the files of an older version, and return them.

        Raises NotTestable, TargetError or LaunchError.
        """
        with _recognised(older, self._limits) as target:
            profile, found = target.profile, _scenes(target)
        left: list[LeftFiles] = []
        for scene in found:
            if not scene.points:
                with self._testing(f"{OLDER}, {scene.name}", UPGRADES):
                    left.append(self._upgrade(older, profile, scene))
        return left

    def _upgrade(self, older: Options, profile: Profile, scene: CrashScene) -> LeftFiles:
        """Start the server on the files after a scene, and return them; raises NotTestable."""
        assert older.command is not None
        name, folder = f"{OLDER}, {scene.name}", self._folder / "older" / scene.name
        left = LeftFiles.kept(folder, scene) if self._resume else None
        if left is None:
            left = left_by(older.command, scene, profile, self._limits)
            left.keep(folder)
        ids, state = tuple(left.bodies), digest(left.files)
        question = Question(older.command, profile, self._limits, ids, TUBES)
        before, after = upgraded(question, self._question(ids), left.files)
        kind, where = CrashKind.UPGRADE, place(CrashKind.UPGRADE, 0)
        for one in changed(before, after):
            talk = partial(left.transcript.about, one.ids)
            self._cases.append(CrashCase(one, kind, where, OLDER, talk, state, left.files, name))
        said = after.ending or f"{len(after.jobs)} of {counted(len(before.jobs), 'job')}"
        self._add_part(name, UPGRADES, 1, said)
        return left

    def _damage(
        self, backend: Backend[Inventory], name: str, before: LeftFiles, limit: int
    ) -> None:
        """Start the server on files as they were left, and damaged in each way."""
        files, bodies = before.files, before.bodies
        others = [Damage(files, "as they were left"), *other_files(files)]
        whole = {digest(damage.files): damage for damage in others}
        chosen, found = [*whole.items()], len(whole)
        for kind in (damages(files), cuts(files)):
            work = {digest(damage.files): damage for damage in kind}
            places = [(state, damage) for state, damage in work.items() if state not in whole]
            chosen += places[:: max(-(-len(places) // limit), 1)]
            found += len(places)
        if not self._resume:
            RecordingFiles.of(self._folder, name).inventories.unlink(missing_ok=True)
        campaign = self._campaign(backend, name)
        tried = [(state, damage.files) for state, damage in chosen]
        inventories = campaign.inspected(self._question(bodies), tried)
        for number, (state, damage) in enumerate(chosen):
            where = place(CrashKind.DAMAGE, number)
            for one in wrong(inventories[state], bodies, damage.is_cut):
                talk = partial(before.transcript.about, one.ids)
                case = CrashCase(
                    one, CrashKind.DAMAGE, where, damage.words, talk, state, damage.files, name
                )
                self._cases.append(case)
        ended = sum(
            bool(one.ending) and not one.crashed
            for one in map(inventories.get, dict(chosen))
            if one
        )
        self._add_part(name, DAMAGES, len(chosen), f"{ended:,} ended with a message", campaign)
        if left := found - len(chosen):
            self._missing(name, f"{left:,} left out: --damages")

    def _share(self) -> None:
        """Start two servers on one folder."""
        found = list(rivals(self._question(())))
        where = place(CrashKind.DAMAGE, 0)
        words = "two servers on one folder"
        self._cases += [
            CrashCase(one, CrashKind.DAMAGE, where, words, list, words, {}, words) for one in found
        ]
        self._add_part(words, DAMAGES, 1, found[0].cause if found else "the second one refuses")

    def _kill(self, count: int) -> None:
        """Kill the server under load."""
        bar = ProgressBar("kills under load:")
        done = kills(self._question(()), count, lambda number: bar.show(number / count))
        bar.end()
        self._cases += done.cases
        self._add_part("kills under load", KILLS, done.count, f"{done.commands:,} commands before")
        if done.count < count:
            self._missing("kills under load", f"{count - done.count} left out: it did not go on")

    def _add_part(
        self,
        name: str,
        kind: str,
        count: int,
        said: str,
        campaign: DurabilityCampaign | None = None,
    ) -> None:
        """Print a part that is done, and add it to the report."""
        rate = campaign.started / campaign.seconds if campaign and campaign.started else None
        part = CrashPart(name=name, kind=kind, tried=count, said=said, rate=rate)
        print(line(part), flush=True)
        self._report.parts.append(part)

    def _conclude(self) -> int:
        self._report.findings = grouped(self._cases)
        for finding in self._report.findings:
            folder = self._folder / finding.case.place_of_files
            if finding.case.files and not folder.exists():
                folder.mkdir(parents=True)
                write_out(finding.case.files, folder)
        print("\n".join(self._report.lines(self._folder)))
        outcome = outcome_of(self._report, time.monotonic() - self._begun)
        print(f"report: {write_campaign(self._run, outcome, self._written or self._folder)}")
        return int(self._report.broken > 0)


@contextlib.contextmanager
def _recognised(options: Options, limits: Limits) -> Iterator[Target]:
    """Start a server, detect its profile, and end it."""
    assert options.command is not None
    target = LaunchedTarget(options.command, "real", limits=limits, binlog=True)
    with contextlib.closing(target):
        options.recognise(target)
        yield target


def _scenes(target: Target) -> tuple[CrashScene, ...]:
    """Return the conversations that a server can hold."""
    return scenes(target.profile, target.traits.max_body or LARGEST)


def _left(recording: SceneRecording) -> LeftFiles:
    """Return the files at the end of a recording."""
    disk = Disk()
    for _, operation in recording.operations:
        disk.apply(operation)
    return LeftFiles(disk.files(), recording.transcript)
