"""The command line: ``beanstalk-conformance``, or ``python -m conformance``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from conformance.usage import ConsoleGroup
from conformance.usage import run as run_command
from conformance.version import suite_version

NAME = "beanstalk-conformance"
_AT = "conformance.console"

console = click.version_option(suite_version(), prog_name=NAME)(
    ConsoleGroup(
        titles={
            "Test a server": {
                "run": f"{_AT}.run:run",
                "fuzz": "fuzz.cli:fuzz",
                "explore": f"{_AT}.explore:explore",
                "durability": f"{_AT}.durability:durability",
                "scale": f"{_AT}.scale:scale",
                "cleanup": f"{_AT}.servers:cleanup",
                "list": f"{_AT}.run:list_requirements",
                "profile": f"{_AT}.profiles:profile",
            },
            "Test a client library": {"client": f"{_AT}.client:client"},
            "Recorded conversations": {
                "check": f"{_AT}.transcripts:check",
                "replay": f"{_AT}.transcripts:replay",
                "draw": f"{_AT}.drawing:draw",
                "proxy": f"{_AT}.proxy:proxy",
            },
            "Results": {
                "report": f"{_AT}.results:report",
                "compare": f"{_AT}.results:compare",
                "site": f"{_AT}.results:site",
            },
            "A server that conforms": {"serve": f"{_AT}.servers:serve"},
        },
        help="Conformance of servers of the beanstalk protocol.",
    )
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; return the exit code: 4 for bad usage, as pytest has it."""
    return run_command(console, NAME, argv)


if __name__ == "__main__":
    sys.exit(main())
