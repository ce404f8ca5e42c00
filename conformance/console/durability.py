"""``durability``: which jobs a server has after each crash."""

from __future__ import annotations

import re
import shlex
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click

from conformance.console.progress import ProgressBar
from conformance.durability.campaign import Campaign, Outcome, processes
from conformance.durability.disk import write_out
from conformance.durability.findings import Case, grouped
from conformance.durability.inspection import Question
from conformance.durability.recording import NEVER, Kept, read, record
from conformance.durability.report import Report
from conformance.durability.scenes import LARGEST, TUBES, Scene, scenes
from conformance.random_testing.findings import FOLDER
from conformance.run.suite import Options
from conformance.target.address import TargetError
from conformance.target.launch import LaunchError
from conformance.target.launched_target import LaunchedTarget
from conformance.target.limits import Limits
from conformance.usage import (
    FROM_1,
    INTERRUPTED,
    WHAT,
    ConsoleCommand,
    option,
    refuse,
)
from conformance.verdict import NotTestable
from reference_server.profiles import Profile

_TRIED, _KEPT = "How much to try", "What to keep"
PLACE = FOLDER.parent / "durability"
"""The folder with all that was recorded and seen."""
DEFAULT_LOSS = 50
"""The milliseconds that lost power may cost with beanstalkd if nothing else is said."""
_OPTION = re.compile(r"-f(\d+)")


@click.command(cls=ConsoleCommand)
@option(
    *(WHAT, "--launch"),
    metavar="COMMAND",
    required=True,
    help="the server to start: a command with {binlog}, and {port} or {path}",
)
@option(WHAT, "--profile", default="auto", show_default=True, metavar="NAME", help="as for run")
@option(
    *(WHAT, "--start-timeout"),
    type=float,
    default=8.0,
    show_default=True,
    metavar="SECONDS",
    help="how long it may take until it listens",
)
@option(
    *(WHAT, "--loss"),
    metavar="MS",
    help="the milliseconds of history that lost power may cost, or never: nothing is synced;"
    " by default as -f or -F in COMMAND says, else 50",
)
@option(
    *(_TRIED, "--states"),
    type=FROM_1,
    default=10**6,
    metavar="N",
    help="at most so many states of the disk of each kind and conversation; by default, all",
)
@option(_TRIED, "--jobs", type=FROM_1, default=2, show_default=True, metavar="N")
@option(_KEPT, "--folder", type=click.Path(path_type=Path), default=PLACE, show_default=True)
@option(_KEPT, "--resume", is_flag=True, help="go on with what the folder has")
def durability(
    launch: str,
    profile: str,
    start_timeout: float,
    loss: str | None,
    states: int,
    jobs: int,
    folder: Path,
    resume: bool,
) -> int:
    """Crash a server's disk at every point, start it again, and see which jobs it has.

    Exit code 0: nothing that breaks the text found, 1: something.
    """
    if "{binlog}" not in launch or "[" in launch:
        raise refuse("durability needs {binlog} in the command to launch, outside of brackets")
    options = Options.of_command(None, launch, "real", start_timeout, profile)
    run = _Run(options, launch, promised(launch, loss), folder, resume)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with processes(jobs) as pool:
            return run.everything(pool, states)
    except KeyboardInterrupt:
        print("interrupted; --resume goes on")
        return INTERRUPTED
    except (TargetError, LaunchError, OSError) as error:
        raise refuse(str(error)) from None


def promised(command: str, loss: str | None) -> float:
    """Return the seconds that lost power may cost; raise UsageError if that is not said well."""
    words = shlex.split(command)
    if loss is None:
        following = [words[n + 1] for n, word in enumerate(words[:-1]) if word == "-f"]
        joined = [match[1] for word in words if (match := _OPTION.fullmatch(word))]
        loss = "never" if "-F" in words else next(iter(following + joined), str(DEFAULT_LOSS))
    if loss == "never":
        return NEVER
    if not loss.isdecimal():
        raise refuse(f"--loss takes milliseconds, or never, not {loss!r}")
    return int(loss) / 1000


class _Run:
    """One run of the command."""

    def __init__(
        self, options: Options, command: str, loss: float, folder: Path, resume: bool
    ) -> None:
        self._options = options
        self._limits = Limits(start=options.start_timeout)
        self._command = command
        self._loss = loss
        self._folder = folder
        self._resume = resume
        self._cases: list[Case] = []
        profile, limit = self._recognised()
        self._profile = profile
        self._scenes = scenes(profile, limit)
        self._report = Report(command, profile)

    def _recognised(self) -> tuple[Profile, int]:
        """Return the profile of the server, and the bytes that a body may have."""
        target = LaunchedTarget(self._command, "real", limits=self._limits, binlog=True)
        try:
            self._options.recognise(target)
            return target.profile, target.learnt.max_job_size or LARGEST
        finally:
            target.close()

    def everything(self, pool: ProcessPoolExecutor, limit: int) -> int:
        """Try all, tell what came of it, and return the exit code."""
        for scene in self._scenes:
            try:
                self._tell(scene, self._scene(pool, scene, limit))
            except NotTestable as error:
                self._report.missing.append(f"{scene.name}: {error}")
                print(f"{scene.name}: not testable: {error}", flush=True)
        self._report.findings = grouped(self._cases)
        self._report.keep(self._folder)
        for finding in self._report.findings:
            place = self._folder / "states" / finding.case.state
            place.mkdir(parents=True, exist_ok=True)
            write_out(finding.case.files, place)
        print("\n".join(self._report.lines(self._folder)))
        return int(self._report.broken > 0)

    def _scene(self, pool: ProcessPoolExecutor, scene: Scene, limit: int) -> Outcome:
        """Record a scene, and try all crashes in it; raise NotTestable."""
        kept = Kept.of(self._folder, scene)
        if not (self._resume and kept.talk.exists()):
            for path in (kept.talk, kept.seen):
                path.unlink(missing_ok=True)
            record(self._command, scene, self._profile, self._limits, self._loss, kept)
        recording = read(kept, scene, self._profile, self._loss)
        ids = tuple(recording.ids.values())
        question = Question(self._command, self._profile, self._limits, ids, TUBES)
        bar = ProgressBar(f"{scene.name}:")
        try:
            campaign = Campaign(pool, kept.seen, lambda done, of: bar.tell(done / of))
            return campaign.run(question, recording, limit)
        finally:
            bar.end()

    def _tell(self, scene: Scene, outcome: Outcome) -> None:
        """Tell how far a scene has come."""
        self._cases += outcome.cases
        self._report.tried["states of the disk"] += outcome.states.total()
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in outcome.states.items())
        speed = f", {outcome.started / outcome.seconds:.0f} a second" if outcome.started else ""
        line = f"{scene.name}: {outcome.states.total():,} states ({kinds}){speed}"
        print(line, flush=True)
        self._report.parts.append(line)
        for reason, count in outcome.left_out.items():
            if count:
                self._report.missing.append(f"{scene.name}: {count:,} left out: {reason}")
