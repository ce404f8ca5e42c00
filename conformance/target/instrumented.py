"""Launched servers that count which of their lines run, and write that when they exit."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

WRITES = 20.0
"""Seconds that such a server may take to exit: to write is a part of that."""
_FOLDER = "BEANSTALK_CONFORMANCE_SOURCE_COVERAGE"
_LOST = "lost-"


def environment(folder: Path) -> Mapping[str, str]:
    """Return the environment in which servers write below ``folder`` what they have counted.

    Those of many processes are added up: gcov does so always, LLVM where the name asks for it.
    """
    return {
        _FOLDER: str(folder),
        "GCOV_PREFIX": str(folder),
        "LLVM_PROFILE_FILE": str(folder / "%m.profraw"),
    }


def is_counting() -> bool:
    """Return whether the servers that we launch count."""
    return _FOLDER in os.environ


def note_loss() -> None:
    """Note that a server has ended by a signal, and so has written nothing."""
    if folder := os.environ.get(_FOLDER):
        # Other processes note theirs at the same time.
        os.close(tempfile.mkstemp(prefix=_LOST, dir=folder)[0])


def losses(folder: Path) -> int:
    """Return how many servers have written nothing."""
    return sum(1 for _ in folder.glob(f"{_LOST}*"))
