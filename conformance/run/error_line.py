"""An unexpected error of a test, as one line with its file and line number."""

from __future__ import annotations

import traceback
from pathlib import Path

_LONGEST = 300
"""Characters of an error."""


def error_line(error: BaseException, file: Path) -> str:
    """Return an error in a line, with the last line of the test's file that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename) == file] or frames
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    said = f"{type(error).__name__}: {error}".partition("\n")[0]
    return said[: _LONGEST - len(where)] + where
