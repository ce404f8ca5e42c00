"""Coverage of codec and model by the reference server: input that reaches new lines is kept."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from conformance.target.builtin import BuiltIn
from reference_server import lifecycle, model, store
from reference_server.wire import lines, messages, replies, requests

FILES = frozenset(
    str(module.__file__) for module in (lifecycle, model, store, lines, messages, replies, requests)
)


class Coverage:
    """Watches the reference server in this process; it gets slower by that."""

    def __init__(self, target: BuiltIn) -> None:
        self.lines: set[tuple[CodeType, int]] = set()
        self._known = 0
        target.call(lambda: sys.settrace(self._enter))

    def is_new(self) -> bool:
        """Return whether it has come to lines that it had not come to when this was last asked."""
        known, self._known = self._known, len(self.lines)
        return self._known > known

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._line if frame.f_code.co_filename in FILES else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.lines.add((frame.f_code, frame.f_lineno))
        return self._line
