"""The arguments of commands that read a recorded transcript: the file and its profile."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.usage import refuse
from reference_server.dialect import DialectError
from reference_server.finding import find_profile
from reference_server.profiles import NEWEST, Profile

STANDARD_INPUT = Path("-")
FILE = click.argument("file", type=click.Path(path_type=Path), metavar="FILE|-")


def found_profile(name: str) -> Profile:
    """Return the profile of a name or file; refuse another."""
    try:
        return find_profile(name)
    except DialectError as error:
        raise refuse(str(error)) from None


PROFILE = click.option(
    "--profile",
    default=NEWEST.name,
    show_default=True,
    metavar="NAME",
    callback=lambda _, __, name: found_profile(name),
    help="the version of the protocol, or the file of a fork's dialect",
)


def name_of(file: Path) -> str:
    """Return the name of a file as messages show it."""
    return "standard input" if file == STANDARD_INPUT else str(file)
