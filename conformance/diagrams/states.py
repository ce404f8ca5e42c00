"""The states of jobs and clients as pictures, drawn from the tables of the model.

``python -m conformance.diagrams.states FOLDER`` writes those of the documentation.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from reference_server.lifecycle import BECOMES, CLIENTS, REPLIES, STATES, TRANSITIONS

WIDTH, HEIGHT, NODE = 760, 420, 44
"""The size of a picture, and the radius of a state, in pixels."""
BEND, LINE, LETTER = 34, 15, 8
"""The bend of an arrow where another one goes back, and the size of a letter, in pixels."""
_STYLE = """
text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1b1f24; text-anchor: middle;
  paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }
circle { fill: #dde9fa; stroke: #2b5ea8; stroke-width: 1.5; }
path { fill: none; stroke: #57606a; stroke-width: 1.3; marker-end: url(#head); }
#head path { fill: #57606a; stroke: none; marker-end: none; }
text.state { stroke: none; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e8ee; stroke: #0e1116; }
  circle { fill: #17305a; stroke: #8ab8ff; }
  path { stroke: #9aa4b0; }
  #head path { fill: #9aa4b0; }
}
"""


class StateChange(NamedTuple):
    """An arrow: an event, and the states before and after; ``before`` is empty at a beginning."""

    event: str
    before: str
    after: str


class Position(NamedTuple):
    """The middle of a state in the picture, in pixels."""

    x: float
    y: float


JOBS: Mapping[str, Position] = {
    "ready": Position(190, 190),
    "delayed": Position(380, 60),
    "buried": Position(380, 320),
    "reserved": Position(570, 190),
}
OF_CLIENTS: Mapping[str, Position] = {
    "idle": Position(380, 110),
    "in a body": Position(90, 230),
    "waiting": Position(670, 230),
    "gone": Position(380, 320),
}
"""Where the states are drawn; those that are missing are named below the picture."""


def changes_of_jobs() -> Iterator[StateChange]:
    """Yield the changes of the state of a job, as its holder sees them."""
    yield StateChange("put", "", "ready")
    yield StateChange("put with delay", "", "delayed")
    for command, *words in _rows(REPLIES):
        for state, word in zip(STATES, words, strict=True):
            if state in JOBS and BECOMES.get(word, state) != state:
                yield StateChange(command, state, BECOMES[word])
    for event, *states in _rows(TRANSITIONS):
        for before, after in zip(STATES, states, strict=False):
            if after != "-":
                yield StateChange(event.replace("-", " "), before, after)


def changes_of_clients() -> Iterator[StateChange]:
    """Yield the changes of the state of a client."""
    yield StateChange("connect", "", "idle")
    for row in _rows(CLIENTS):
        yield StateChange(*(word.replace("-", " ") for word in row))


def _rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def drawn(title: str, changes: Sequence[StateChange], places: Mapping[str, Position]) -> str:
    """Return a picture of these changes as SVG; events that end each state are below it."""
    ending = _in_each_state(changes, places)
    arrows: dict[tuple[str, str], list[str]] = {}
    for event, before, after in changes:
        if (event, after) not in ending:
            arrows.setdefault((before, after), []).append(event)
    svg = ET.Element("svg", xmlns="http://www.w3.org/2000/svg", role="img")
    svg.set("viewBox", f"0 0 {WIDTH} {HEIGHT}")
    ET.SubElement(svg, "title").text = title
    ET.SubElement(svg, "style").text = _STYLE
    head = ET.SubElement(svg, "marker", id="head", viewBox="0 0 8 8", orient="auto")
    for name, value in (("refX", "7"), ("refY", "4"), ("markerWidth", "9"), ("markerHeight", "9")):
        head.set(name, value)
    ET.SubElement(head, "path", d="M0,0 L8,4 L0,8 z")
    texts: list[tuple[Position, Sequence[str]]] = []
    for (before, after), events in arrows.items():
        start = places[before] if before else _beginning(places[after])
        bend = BEND if (after, before) in arrows else 0
        middle, across = _arrow(svg, start, places[after], NODE if before else 0, bend)
        texts.append((_beside(middle, across, events), events))
    for name, (x, y) in places.items():
        ET.SubElement(svg, "circle", cx=f"{x:g}", cy=f"{y:g}", r=f"{NODE}")
        _text(svg, Position(x, y), [name], "state")
    for place, lines in texts:
        _text(svg, place, lines, "event")
    _text(
        svg,
        Position(WIDTH / 2, HEIGHT - 8),
        [f"in each other state: {event} → {after}" for event, after in sorted(ending)],
        "event",
    )
    ET.indent(svg)
    return ET.tostring(svg, encoding="unicode") + "\n"


def _in_each_state(
    changes: Sequence[StateChange], places: Mapping[str, Position]
) -> set[tuple[str, str]]:
    """Return events, and the state after them, that may happen in each state."""
    found = {(event, after) for event, _, after in changes}
    return {
        (event, after)
        for event, after in found
        if {one.before for one in changes if one.event == event} == places.keys() - {after}
    }


def _beginning(place: Position) -> Position:
    return Position(place.x - 3 * NODE, place.y - NODE)


def _arrow(
    svg: ET.Element, start: Position, end: Position, distance: float, bend: float
) -> tuple[Position, Position]:
    """Draw an arrow that begins ``distance`` from a place.

    Return its middle, and the direction in which there is room for its text.
    """
    length = math.dist(start, end)
    across = Position((end.y - start.y) / length, (start.x - end.x) / length)
    control = Position(
        (start.x + end.x) / 2 + bend * across.x, (start.y + end.y) / 2 + bend * across.y
    )
    first, last = _towards(start, control, distance), _towards(end, control, NODE)
    points = [f"{x:.0f},{y:.0f}" for x, y in (first, control, last)]
    ET.SubElement(svg, "path", d="M{} Q{} {}".format(*points))
    middle = Position(
        (first.x + 2 * control.x + last.x) / 4, (first.y + 2 * control.y + last.y) / 4
    )
    outwards = across.x * (middle.x - WIDTH / 2) + across.y * (middle.y - HEIGHT / 2)
    if not bend and outwards < 0:
        across = Position(-across.x, -across.y)
    return middle, across


def _beside(middle: Position, across: Position, lines: Sequence[str]) -> Position:
    """Return the middle of a text that does not touch the arrow."""
    width, height = LETTER * max(map(len, lines)), LINE * len(lines)
    distance = 5 + (abs(across.x) * width + abs(across.y) * height) / 2
    return Position(middle.x + distance * across.x, middle.y + distance * across.y)


def _towards(start: Position, end: Position, distance: float) -> Position:
    share = distance / math.dist(start, end)
    return Position(start.x + share * (end.x - start.x), start.y + share * (end.y - start.y))


def _text(svg: ET.Element, place: Position, lines: Sequence[str], kind: str) -> None:
    top = place.y - (len(lines) - 1) * LINE / 2 + 4
    for number, line in enumerate(lines):
        text = ET.SubElement(svg, "text", x=f"{place.x:.0f}", y=f"{top + number * LINE:.0f}")
        text.set("class", kind)
        text.text = line


PICTURES: Mapping[str, str] = {
    "states-of-jobs.svg": drawn("The states of a job", [*changes_of_jobs()], JOBS),
    "states-of-clients.svg": drawn("The states of a client", [*changes_of_clients()], OF_CLIENTS),
}
"""The pictures of the documentation, by the names of their files."""


if __name__ == "__main__":
    for name, picture in PICTURES.items():
        Path(sys.argv[1], name).write_text(picture, encoding="utf-8")
