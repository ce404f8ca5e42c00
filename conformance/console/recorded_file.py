"""The arguments of commands that read a recorded transcript: the file and its profile."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import click

from conformance.transcript import NotATranscript
from conformance.usage import refuse
from reference_server.dialect import DialectError
from reference_server.finding import find_profile
from reference_server.profiles import NEWEST, Profile

STANDARD_INPUT = Path("-")
LONGEST_LINE = 1 << 26
"""Characters of a line: longer ones are no messages."""
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


@contextlib.contextmanager
def opened(file: Path) -> Iterator[io.BufferedReader]:
    """Open a file for reading bytes; refuse one that cannot be read."""
    try:
        with open(0 if file == STANDARD_INPUT else file, "rb") as stream:
            yield stream
    except OSError as error:
        raise refuse(f"cannot read {name_of(file)}: {error.strerror}") from None


def lines_of(stream: io.BufferedReader) -> Iterator[str]:
    """Yield the lines of a text; raises OSError, UnicodeDecodeError or NotATranscript."""
    text = io.TextIOWrapper(stream, encoding="utf-8")
    while line := text.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise NotATranscript(f"it has a line of {LONGEST_LINE >> 20} MiB or more")
        yield line
