"""The lines of a transcript: what went over the wire and when, as text that can be read back.

One line is a message, an event or passed time. Bytes are escaped, so that nothing is lost::

    A > reserve\\r\\n
    + 2s
    A < RESERVED 1 5\\r\\nhello\\r\\n
"""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from reference_server.wire import escape

Direction = Literal[">", "<", "+", "!"]
"""Sent, received, time observed, and what happened to a connection."""
CLIENT_CLOSES, CLIENT_HALF_CLOSES, CLIENT_RESETS = b"closes", b"half-closes", b"resets"
"""The events of a connection that its client ends."""
TARGET_CLOSES = b"closed by the target"
"""The event of a connection that the target ends."""
RESTARTS = b"restarts"
"""The event of a target that is ended and started again."""
AT_ONCE = b"at once"
"""The data of an entry of time if the target's clock was moved there from the entry before."""
GRAIN = 0.005
"""Seconds to which written times are rounded down: half of what clocks may differ by."""
FOLD = 200
"""Bytes of a message that a reader is shown."""
_EXACT = 1e-6
"""The part of a grain by which sums of decimal fractions may be too small."""


def letters() -> Iterator[str]:
    """Yield names for connections: A, B, …, Z, AA, AB, …"""
    for length in itertools.count(1):
        for name in itertools.product(string.ascii_uppercase, repeat=length):
            yield "".join(name)


@dataclass(frozen=True, slots=True)
class Entry:
    """One message: of ``connection``, at ``time`` seconds of the target's clock; NaN if unknown."""

    connection: str
    direction: Direction
    data: bytes
    time: float

    def line(self, fold: bool = False) -> str:
        """Return a message in the format; with ``fold``, long ones are cut in the middle."""
        if not self.connection:
            return f"! {self.data.decode()}"
        if fold and len(self.data) > FOLD:
            left = len(self.data) - FOLD
            head, tail = escape(self.data[: FOLD - 20]), escape(self.data[-20:])
            text = f"{head}…({left:,} more byte{'s' * (left != 1)})…{tail}"
        else:
            text = escape(self.data)
        return f"{self.connection} {self.direction} {text}"


def written(
    entries: Sequence[Entry], numbers: Iterable[int], marked: int | None, fold: bool
) -> str:
    """Return the entries of these numbers, two columns indented; ``marked`` gets an arrow.

    A line counts the messages that are left out. With ``fold``, long messages are cut.
    """
    lines: list[str] = []
    clock, last = _WrittenTime(entries), -1
    for number in numbers:
        if left_out := number - last - 1:
            lines.append(f"  … {left_out:,} message{'s' * (left_out != 1)} …")
        last = number
        shown = [] if _goes_on(entries, number) and number != marked else [*clock.until(number)]
        if entries[number].direction != "+":
            shown.append(entries[number].line(fold))
        elif number == marked and not shown:
            shown.append("+ 0s")
        lines += [f"  {line}" for line in shown]
        if number == marked:
            lines[-1] = f"> {shown[-1]}"
    return "\n".join(lines)


def _goes_on(entries: Sequence[Entry], number: int) -> bool:
    """Tell whether an entry of time is followed by another: they are written in one line."""
    return all(entry.direction == "+" for entry in entries[number : number + 2]) and (
        number + 1 < len(entries)
    )


class _WrittenTime:
    """The lines of time between entries: none where less than a grain has passed.

    Times are rounded down, not durations, so that errors do not add up. A clock that was moved
    several times in a row, while nothing was sent or received, was moved once.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._first = entries[0].time if entries else 0.0
        self._written = self._next = 0

    def until(self, number: int) -> Iterator[str]:
        """Yield the lines of the time up to an entry, since the last one that was asked for."""
        passed = moved = 0
        for entry in self._entries[self._next : number + 1]:
            if math.isnan(entry.time):
                continue
            grains = int((entry.time - self._first) / GRAIN + _EXACT) - self._written
            if grains > 0:
                self._written += grains
                if entry.data == AT_ONCE and entry.direction == "+":
                    moved += grains
                elif moved:
                    yield from _lines_of_time(passed, moved)
                    passed, moved = grains, 0
                else:
                    passed += grains
        self._next = number + 1
        yield from _lines_of_time(passed, moved)


def _lines_of_time(passed: int, moved: int) -> Iterator[str]:
    if passed:
        yield f"+ {_seconds(passed)}s"
    if moved:
        yield f"+ {_seconds(moved)}s {AT_ONCE.decode()}"


def _seconds(grains: int) -> str:
    """Return a time as short as it can be written."""
    return f"{grains * GRAIN:.3f}".rstrip("0").rstrip(".")
