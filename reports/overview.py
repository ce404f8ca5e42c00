"""The overview: all requirements of a run at a glance, as an image for a README."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from reports.results import RequirementRecord, Results
from reports.verdicts import Verdict

CELL, GAP = 14, 4
"""The size of a cell, and the space between two."""
WIDTH, COLUMNS, MARGIN = 800, 2, 16
LINE = 20
"""The height of a line of text."""
CHARACTERS = 112
"""Characters that a line of the sentence has room for."""


class OverviewCell(NamedTuple):
    """A requirement: its place, level and verdict."""

    x: float
    y: float
    requirement: RequirementRecord


class Heading(NamedTuple):
    """The name of a section, and its place."""

    x: float
    y: float
    text: str


@dataclass(slots=True)
class Overview:
    """The geometry of the image, which a template draws."""

    results: Results
    height: float = 0.0
    sentence: list[str] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    cells: list[OverviewCell] = field(default_factory=list)


def overview(results: Results) -> Overview:
    """Return the overview of a run: sections side by side, each column as high as the other."""
    image = Overview(results, sentence=textwrap.wrap(results.verdict.sentence, CHARACTERS)[:3])
    sections = _sections(results.requirements)
    top = MARGIN + LINE * (2 + len(image.sentence))
    column = (WIDTH - MARGIN) / COLUMNS
    bottoms = [float(top)] * COLUMNS
    for title, requirements in sections.items():
        place = bottoms.index(min(bottoms))
        left = MARGIN + place * column
        y = bottoms[place] + LINE
        image.headings.append(Heading(left, y - 5, title))
        across = int((column - MARGIN) // (CELL + GAP))
        for number, requirement in enumerate(requirements):
            down, right = divmod(number, across)
            x = left + right * (CELL + GAP)
            image.cells.append(OverviewCell(x, y + down * (CELL + GAP), requirement))
        rows = -(-len(requirements) // across)
        bottoms[place] = y + rows * (CELL + GAP) + 6
    image.height = max(bottoms) + MARGIN
    return image


def _sections(requirements: Iterable[RequirementRecord]) -> dict[str, list[RequirementRecord]]:
    """Return the requirements that the profile has, by section."""
    sections: dict[str, list[RequirementRecord]] = {}
    for requirement in requirements:
        if requirement.verdict is not Verdict.NOT_APPLICABLE:
            sections.setdefault(requirement.section, []).append(requirement)
    return sections
