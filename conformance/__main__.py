"""The command line: ``beanstalk-conformance``, or ``python -m conformance``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from conformance.console.durability import durability
from conformance.console.explore import explore
from conformance.console.profiles import profile
from conformance.console.results import compare, report, site
from conformance.console.run import list_requirements, run
from conformance.console.servers import cleanup, serve
from conformance.console.transcripts import check, replay
from conformance.run.record import suite_version
from conformance.usage import ConsoleGroup
from conformance.usage import run as run_command
from fuzz.cli import fuzz

NAME = "beanstalk-conformance"

console = click.version_option(suite_version(), prog_name=NAME)(
    ConsoleGroup(
        titles={
            "Test a server": [run, fuzz, explore, durability, cleanup, list_requirements, profile],
            "Recorded conversations": [check, replay],
            "Results": [report, compare, site],
            "A server that conforms": [serve],
        },
        help="Conformance of servers of the beanstalk protocol.",
    )
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a subcommand; gives the exit code: 4 for bad usage, as pytest has it."""
    return run_command(console, NAME, argv)


if __name__ == "__main__":
    sys.exit(main())
