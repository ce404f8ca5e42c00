"""Space-time diagrams of conversations: the geometry, which a template draws as SVG.

Time goes down. Clients and the server are lifelines, messages are arrows between them, and each job
has a bar. Waits are to scale, up to ``LONGEST`` seconds; a longer one is marked as compressed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from reports.plots import duration
from reports.results import Diagram, DrawnMessage, JobStretch

ROW, LINE = 27, 15
"""The height of a message, and of a line of text."""
SECOND, LONGEST = 24, 3.0
"""The height of a second of waiting, and the seconds that the longest such height stands for."""
SHORTEST = 0.02
"""Seconds from which on a wait has a height."""
TIMES, WIRE, STRIP, BAR = 62, 346, 46, 82
"""The widths of times, of messages, of the strip before the server, and of a job's bar."""
TOP = 58
CHARACTERS = 46
"""Characters for which a message has room."""
LINES = 3
"""Lines of what was expected, and of what was observed."""
SLOPE = 7
"""The height by which a message is later at its end, if nobody knows when it arrives."""
_ZIGZAG = ((0, -9), (-6, -3), (6, 3), (0, 9))
"""The mark on a lifeline where time is compressed."""
POINT = 15
"""The height of a number on the server's lifeline."""


class Stroke(NamedTuple):
    """A line through points, or, if it is a head, the shape that they enclose."""

    kind: str
    points: str


class DiagramBox(NamedTuple):
    """A rectangle, and what it says to whom points at it."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    text: str


class Label(NamedTuple):
    """A text; ``whole`` is all of it, where it was cut."""

    kind: str
    x: float
    y: float
    text: str
    anchor: str = "start"
    whole: str = ""


class Dot(NamedTuple):
    """A circle, with a number in it if it has one."""

    kind: str
    x: float
    y: float
    radius: float
    text: str = ""


@dataclass(slots=True)
class Drawing:
    """All that is drawn, in pixels; boxes are behind strokes, and these behind labels."""

    title: str
    width: float = 0
    height: float = 0
    boxes: list[DiagramBox] = field(default_factory=list)
    strokes: list[Stroke] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)


def drawing(diagram: Diagram) -> Drawing:
    """Return the drawing of a diagram."""
    return _Pen(diagram).drawing()


class _Pen:
    """Draws one diagram."""

    def __init__(self, diagram: Diagram) -> None:
        self._diagram = diagram
        self._messages = diagram.messages
        names = dict.fromkeys(message.client for message in self._messages if message.client)
        # As an alphabet has them: A, B, …, Z, AA.
        self._clients = sorted(names, key=lambda name: (len(name), name))
        apart = 36 if len(self._clients) <= 6 else 24
        self._x = {name: TIMES + 18 + apart * n for n, name in enumerate(self._clients)}
        self._wire = max(self._x.values(), default=TIMES + 18)
        self._strip = self._wire + WIRE
        self._server = self._strip + STRIP
        self._jobs = list(dict.fromkeys(stretch.job for stretch in diagram.jobs))
        said = [
            self._lines("expected", diagram.expected),
            self._lines("observed", diagram.observed),
        ]
        self._expected, self._observed = said
        row = -1 if diagram.wrong is None else diagram.wrong
        wrong = self._messages[row] if 0 <= row < len(self._messages) else None
        if wrong is None:
            self._expected = self._observed = []
        elif wrong.kind == "received" and wrong.text[:40] == diagram.observed[:40]:
            self._observed = []
        self._ys = [*self._rows()]
        self._picture = Drawing(self._title())

    def _title(self) -> str:
        clients = ", ".join(self._clients) or "nobody"
        said = f"Messages between {clients} and the server over time"
        if self._expected:
            said += f"; expected {self._diagram.expected}, observed {self._diagram.observed}"
        return said

    @staticmethod
    def _lines(word: str, text: str) -> list[str]:
        """Return a text in lines for which there is room."""
        lines = textwrap.wrap(f"{word} {text}", CHARACTERS, break_long_words=True)
        cut = lines[:LINES]
        if len(lines) > LINES:
            cut[-1] = cut[-1][: CHARACTERS - 1] + "…"
        return cut if text else []

    def _rows(self) -> Iterator[float]:
        """Yield where each message is; waits are before the message that ends them."""
        y = float(TOP)
        known = None
        for row, message in enumerate(self._messages):
            if row:
                y += ROW
            y += self._height(known, message.time)
            known = known if message.time is None else message.time
            yield y
            if row == self._diagram.wrong:
                y += LINE * (len(self._expected) + len(self._observed)) + 6

    @staticmethod
    def _height(before: float | None, now: float | None) -> float:
        passed = 0.0 if before is None or now is None else now - before
        return SECOND * min(passed, LONGEST) if passed >= SHORTEST else 0.0

    def _y(self, place: float) -> float:
        """Return where a place among rows is."""
        last = len(self._ys) - 1
        row = min(int(place), last)
        following = self._ys[min(row + 1, last)]
        return self._ys[row] + (following - self._ys[row]) * (place - row)

    # ------------------------------------------------------------ all of it

    def drawing(self) -> Drawing:
        picture = self._picture
        end = self._ys[-1] if self._ys else TOP
        if self._diagram.wrong == len(self._ys) - 1:
            end += LINE * (len(self._expected) + len(self._observed)) + 6
        end += 22
        jobs_begin = self._server + 26
        picture.width = jobs_begin + max(BAR * len(self._jobs), 14)
        notes = textwrap.wrap(self._diagram.note, int((picture.width - 12) / 6.7))
        picture.height = end + LINE * len(notes) + 6
        self._lifelines(end)
        points = self._points()
        for row, message in enumerate(self._messages):
            self._message(row, message, points)
        self._times()
        for column, job in enumerate(self._jobs):
            self._job(jobs_begin + BAR * column, job)
        for number, line in enumerate(notes, start=1):
            picture.labels.append(Label("quiet", 6, end + LINE * number, line))
        return picture

    def _lifelines(self, end: float) -> None:
        for name, x in [*self._x.items(), ("server", self._server)]:
            self._stroke("life", (x, TOP - 22), (x, end))
            self._picture.labels.append(Label("name", x, TOP - 30, _cut(name, 12), "middle", name))

    def _stroke(self, kind: str, *points: tuple[float, float]) -> None:
        coordinates = " ".join(
            f"{x:g},{y:g}" for x, y in ((round(x, 1), round(y, 1)) for x, y in points)
        )
        self._picture.strokes.append(Stroke(kind, coordinates))

    def _head(self, kind: str, x: float, y: float, left: bool, slope: float = 0.0) -> None:
        """Draw the head of an arrow that points to a lifeline."""
        back = x + (8 if left else -8)
        self._stroke(f"{kind} head", (x, y), (back, y - 4 - slope), (back, y + 4 - slope))

    # ------------------------------------------------------------ messages

    def _points(self) -> dict[int, float]:
        """Return where on its lifeline the server handles the commands that are in order."""
        sent: dict[int, float] = {}
        heard: dict[int, float] = {}
        for y, message in zip(self._ys, self._messages, strict=True):
            if message.order and message.kind == "sent":
                sent[message.order] = y + SLOPE
            elif message.order and message.kind == "received":
                heard[message.order] = y - SLOPE
        orders = sorted({*sent, *heard})
        latest: dict[int, float] = {}
        limit = float("inf")
        for order in reversed(orders):
            limit = min(limit - POINT * 0.7, heard.get(order, float("inf")))
            latest[order] = limit
        points: dict[int, float] = {}
        earliest = 0.0
        for order in orders:
            y = max(earliest, sent.get(order, heard.get(order, 0.0)))
            points[order] = min(y, latest[order])
            earliest = points[order] + POINT
        for order, y in points.items():
            self._picture.dots.append(Dot("point", self._server, y, 8, str(order)))
        return points

    def _message(self, row: int, message: DrawnMessage, points: dict[int, float]) -> None:
        y, is_wrong = self._ys[row], row == self._diagram.wrong
        kind = "wrong" if is_wrong and message.kind != "sent" else message.kind.replace(" ", "-")
        x = self._x.get(message.client, self._server)
        labels = self._picture.labels
        if message.kind == "left out":
            text = f"… {message.text} left out …"
            labels.append(Label("quiet", self._wire + WIRE / 2, y, text, "middle"))
            return
        if is_wrong:
            height = LINE * (len(self._expected) + len(self._observed)) + 6
            wide = self._server - TIMES
            self._picture.boxes.append(DiagramBox("ground", TIMES, y - 19, wide, height + 27, ""))
        text = f"✕ {message.text}" if kind == "wrong" else message.text
        labels.append(Label(f"text {kind}", self._wire + 12, y - 5, _cut(text), "start", text))
        point = points.get(message.order)
        if message.kind == "sent":
            at = y + SLOPE if point is None else point
            self._picture.dots.append(Dot(kind, x, y, 2.5))
            self._stroke(kind, (x, y), (self._strip, y), (self._server, at))
            self._head(kind, self._server, at, left=False, slope=(at - y) * 8 / STRIP)
        elif message.kind == "received" or message.text.startswith("closed by"):
            at = y - SLOPE if point is None else point
            self._stroke(kind, (self._server, at), (self._strip, y), (x, y))
            self._head(kind, x, y, left=True)
        else:
            self._picture.dots.append(Dot(kind, x, y, 4))
            self._stroke(f"{kind} event-line", (x, y), (self._strip, y))
        if is_wrong:
            self._wrong(x, y)

    def _wrong(self, x: float, y: float) -> None:
        """Draw what should have come, and what has come if the message does not say so."""
        labels = self._picture.labels
        for line in self._observed:
            y += LINE
            labels.append(Label("text wrong", self._wire + 12, y, line))
        for line in self._expected:
            y += LINE
            labels.append(Label("text expected", self._wire + 12, y, line))
        if self._expected:
            self._stroke(
                "expected", (self._server, y - SLOPE + 5), (self._strip, y + 5), (x, y + 5)
            )
            self._head("expected", x, y + 5, left=True)

    # ------------------------------------------------------------ time and jobs

    def _times(self) -> None:
        """Draw when messages came, and which waits are not to scale."""
        timed = [
            (y, message.time)
            for y, message in zip(self._ys, self._messages, strict=True)
            if message.time is not None
        ]
        labels = self._picture.labels
        if not timed:
            labels.append(Label("quiet", 6, TOP - 5, "no times"))
            return
        last_labelled = None
        for y, seconds in timed:
            if last_labelled is None or seconds - last_labelled >= SHORTEST / 2:
                text = _seconds(seconds)
                labels.append(Label("time", TIMES - 8, y + 4, text, "end"))
                last_labelled = seconds
        for (_, earlier), (y, later) in pairwise(timed):
            if later - earlier > LONGEST:
                middle = y - ROW / 2 - SECOND * LONGEST / 2
                for x in [*self._x.values(), self._server]:
                    zigzag = [(x + dx, middle + dy) for dx, dy in _ZIGZAG]
                    self._stroke("break", *zigzag)
                text = f"{duration(round(later - earlier, 2))} pass, not to scale"
                labels.append(Label("quiet", self._wire + WIRE / 2, middle + 4, text, "middle"))

    def _job(self, x: float, job: str) -> None:
        picture = self._picture
        middle = x + BAR / 2 - 3
        picture.labels.append(
            Label("name", middle, TOP - 30, _cut(f"job {job}", 11), "middle", job)
        )
        for stretch in self._diagram.jobs:
            if stretch.job == job:
                self._bar(x, stretch)

    def _bar(self, x: float, stretch: JobStretch) -> None:
        top, bottom = self._y(stretch.begin) + SLOPE, self._y(stretch.end) + SLOPE
        said = f"{stretch.state} {stretch.holder}".strip()
        whole = f"job {stretch.job}: {stretch.state}"
        whole += f" by {stretch.holder}" if stretch.holder else ""
        picture, width = self._picture, BAR - 6
        picture.boxes.append(
            DiagramBox(stretch.state, x, top, width, max(bottom - top, 2.0), whole)
        )
        if bottom - top >= 13:
            y = top + min((bottom - top) / 2 + 4, 18)
            picture.labels.append(Label("state", x + width / 2, y, _cut(said, 12), "middle", whole))


def _cut(text: str, most: int = CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _seconds(seconds: float) -> str:
    """Return a time in seconds, as exactly as a reader needs it."""
    return f"{seconds:.2f}".rstrip("0").rstrip(".") + " s"
