"""``durability``: which jobs a server still has after each crash."""

from __future__ import annotations

import contextlib
import re
import shlex
from dataclasses import replace
from pathlib import Path

import click

from conformance.console.crashing import Crashing, ReportPlaces, Tried
from conformance.durability.campaign import workers
from conformance.durability.recording import NEVER
from conformance.random_testing.findings import FOLDER
from conformance.run.options import Options, with_short_names
from conformance.target.address import TargetError
from conformance.target.launch import LaunchError
from conformance.usage import (
    FROM_1,
    INTERRUPTED,
    WHAT,
    ConsoleCommand,
    make_folder,
    option,
    refuse,
)
from reports.results import ResultsError

_TRIED, _KEPT = "How much to try", "What to keep"
PLACE = FOLDER.parent / "durability"
"""The folder with all that was recorded and seen."""
FROM_0 = click.IntRange(min=0)
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
    help="how long the server may take until it listens",
)
@option(
    *(WHAT, "--older"),
    metavar="COMMAND",
    help="an older version: the server is also started on its files; a command as for --launch",
)
@option(
    *(WHAT, "--loss"),
    metavar="MS",
    help="the milliseconds of history that lost power may cost, or never: nothing is synced;"
    " by default as -f or -F in COMMAND says, else as beanstalkd does: 50, or never before 1.12",
)
@option(
    *(_TRIED, "--states"),
    type=FROM_1,
    default=10**6,
    metavar="N",
    help="at most so many states of the disk of each kind and conversation; by default, all",
)
@option(
    *(_TRIED, "--kills"),
    type=FROM_0,
    default=20,
    show_default=True,
    metavar="N",
    help="how often it is killed under load",
)
@option(
    *(_TRIED, "--damages"),
    type=FROM_0,
    default=500,
    show_default=True,
    metavar="N",
    help="the largest number of places at which files are damaged",
)
@option(
    *(_TRIED, "--jobs"),
    type=FROM_1,
    default=2,
    show_default=True,
    metavar="N",
    help="the number of processes",
)
@option(
    *(_KEPT, "--folder"),
    type=click.Path(path_type=Path),
    default=PLACE,
    show_default=True,
    metavar="FOLDER",
    help="the folder for crashes, with the files that each has left",
)
@option(
    *(_KEPT, "--report"),
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="write a report there, or add to that of a run on the same server",
)
@option(_KEPT, "--name", default="", metavar="NAME", help="the server's name in that report")
@option(_KEPT, "--resume", is_flag=True, help="resume the campaign in the folder")
def durability(
    launch: str,
    profile: str,
    start_timeout: float,
    older: str | None,
    loss: str | None,
    states: int,
    kills: int,
    damages: int,
    jobs: int,
    folder: Path,
    report: Path | None,
    name: str,
    resume: bool,
) -> int:
    """Crash the server at every write to its binlog, restart it, and check which jobs survived.

    Exit code 0: no violation of the text found, 1: a violation found.
    """
    for command in filter(None, (launch, older)):
        if "{binlog}" not in command or "[" in command:
            raise refuse("durability needs {binlog} in the command to launch, outside of brackets")
    options = replace(Options.of_command(None, launch, "real", start_timeout, profile), name=name)
    others = {"--older": older, "--loss": loss}
    words = with_short_names(options.chosen)
    words += [f"{name}={said}" for name, said in others.items() if said]
    again = shlex.join(["beanstalk-conformance", "durability", *words])
    for place in filter(None, (folder, report)):
        make_folder(place)
    try:
        before = Options.of_command(None, older, "real", start_timeout) if older else None
        written = ReportPlaces(folder, report)
        run = Crashing(options, before, promised(launch, loss), written, resume, again)
        with contextlib.closing(workers(jobs)) as backend:
            return run.everything(backend, Tried(states, kills, damages))
    except KeyboardInterrupt:
        print("interrupted; --resume goes on")
        return INTERRUPTED
    except (TargetError, LaunchError, ResultsError, OSError) as error:
        raise refuse(str(error)) from None


def promised(command: str, loss: str | None) -> float | None:
    """Return the seconds that a power loss may cost, None if no option states it.

    Raises UsageError if the value is malformed.
    """
    words = shlex.split(command)
    if loss is None:
        following = [words[n + 1] for n, word in enumerate(words[:-1]) if word == "-f"]
        joined = [match[1] for word in words if (match := _OPTION.fullmatch(word))]
        loss = "never" if "-F" in words else next(iter(following + joined), None)
    if loss is None:
        return None
    if loss == "never":
        return NEVER
    if not loss.isdecimal():
        raise refuse(f"--loss takes milliseconds, or never, not {loss!r}")
    return int(loss) / 1000
