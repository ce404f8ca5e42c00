"""The coverage of a target after each turn: edges of its code, or lines of ours."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Protocol

from conformance.target.builtin import BuiltIn
from fuzz.edges import classed, marked
from fuzz.shared_memory import SharedSegment
from reference_server import lifecycle, model, store
from reference_server.wire import lines, messages, replies, requests

_FILES = {
    str(module.__file__): number * 10**4
    for number, module in enumerate((lifecycle, model, store, lines, messages, replies, requests))
}
"""The files of codec and model, and the number before that of their first line."""


class Coverage(Protocol):
    """The code that a target reaches, as a set of ``fuzz.edges``."""

    def take(self) -> int:
        """Return what it has reached since the last call."""
        ...


class NoCoverage:
    """The coverage of a target that reports none."""

    def take(self) -> int:
        """Return nothing."""
        return 0


class CountedEdges:
    """The edges that an instrumented server counts."""

    def __init__(self, segment: SharedSegment) -> None:
        self._segment = segment

    def take(self) -> int:
        """Return the edges that it has taken."""
        return classed(self._segment.take())


class ModelLines:
    """The lines of codec and model that the reference server reaches in this process.

    It gets slower by that.
    """

    def __init__(self, target: BuiltIn) -> None:
        self._lines: set[int] = set()
        target.call(lambda: sys.settrace(self._enter))

    def take(self) -> int:
        """Return the lines that it has come to."""
        lines, self._lines = self._lines, set()
        return marked(lines)

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._line if frame.f_code.co_filename in _FILES else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self._lines.add(_FILES[frame.f_code.co_filename] + frame.f_lineno)
        return self._line
