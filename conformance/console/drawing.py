"""``draw``: turns a recorded conversation into a space-time diagram."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import click

from conformance.console.recorded_file import FILE, PROFILE, name_of, opened
from conformance.diagrams.diagram import Wrong, diagram_of, diagram_of_order
from conformance.diagrams.order import overlaps
from conformance.oracle.check import check
from conformance.reading import read
from conformance.recorded import Recorded
from conformance.transcript import Counters, NotATranscript
from conformance.usage import ConsoleCommand, refuse
from conformance.verdict import Inconclusive
from reference_server.profiles import Profile
from reports.files import replace
from reports.html import picture
from reports.results import Diagram

_MARKED = re.compile(r"\s*> [A-Z]+ [<>!]( .*)?")
"""The line of a failure that shows it."""
_SIDE = re.compile(r"\s*(EXPECTED|OBSERVED)  (.*)")
MOST_BYTES = 64 << 20
"""Longer files are not drawn."""


@click.command(cls=ConsoleCommand)
@FILE
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="OUT.svg",
    help="write the diagram there instead of to standard output",
)
@PROFILE
def draw(file: Path, output: Path | None, profile: Profile) -> None:
    """Draw a recorded transcript as a space-time diagram, an SVG file.

    A failure is drawn as it was found; any other transcript is judged first.
    """
    name = name_of(file)
    try:
        text = _read(file)
        diagram = drawn(text.splitlines(), profile)
    except (NotATranscript, UnicodeDecodeError) as error:
        raise refuse(f"{name}: {error}") from None
    if diagram is None:
        raise refuse(f"{name} is empty: there is no transcript in it")
    image = picture(diagram)
    if output is None:
        print(image, end="")
        return
    try:
        replace(output, image.encode())
    except OSError as error:
        raise refuse(f"cannot write {output}: {error.strerror}") from None


def _read(file: Path) -> str:
    """Return the text of a file; raises UnicodeDecodeError or NotATranscript."""
    with opened(file) as stream:
        data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise NotATranscript(f"it is longer than {MOST_BYTES >> 20} MiB")
    return data.decode("utf-8")


def drawn(lines: Sequence[str], profile: Profile) -> Diagram | None:
    """Return the diagram of a transcript in lines; None if it is empty. Raises NotATranscript."""
    recorded = Recorded.of(lines)
    if not recorded.entries:
        return None
    if overlaps(recorded.entries):
        ordered = diagram_of_order(recorded, profile)
        if ordered is not None:
            return ordered
    return diagram_of(recorded, profile, _shown(lines) or _judged(recorded, profile))


def _shown(lines: Sequence[str]) -> Wrong | None:
    """Return the deviation that the text of a failure shows, if it is one."""
    sides = {match[1]: match[2] for line in lines if (match := _SIDE.fullmatch(line))}
    marked = next((n for n, line in enumerate(lines) if _MARKED.fullmatch(line)), None)
    if marked is None or len(sides) < 2:
        return None
    before = [one for one in read(lines[: marked + 1]) if not isinstance(one, Counters)]
    return Wrong(len(before) - 1, sides["EXPECTED"], sides["OBSERVED"])


def _judged(recorded: Recorded, profile: Profile) -> Wrong | None:
    """Return the first message that is not allowed; None if there is none, or nobody can tell."""
    try:
        finding = check(recorded, profile)
    except Inconclusive:
        return None
    if finding is None:
        return None
    return Wrong(finding.position, finding.expected, finding.observed)
