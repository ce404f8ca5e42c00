"""Labels of a run: where it was, what was tested, and what the user says of it."""

from __future__ import annotations

import platform
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

_LIMIT = 5.0
"""Seconds that git may take."""


def parsed(labels: Sequence[str]) -> dict[str, str]:
    """Return labels as the command line has them, ``KEY=VALUE``; raise UsageError."""
    found: dict[str, str] = {}
    for label in labels:
        key, equals, value = label.partition("=")
        if not key.strip() or not equals:
            raise pytest.UsageError(f"--label takes KEY=VALUE, not {label!r}")
        if key in found:
            raise pytest.UsageError(f"--label is given twice for {key!r}")
        found[key] = value
    return found


def labels_of(given: Mapping[str, str], command: str | None) -> dict[str, str]:
    """Return all labels of a run; ``command`` starts the server, if the suite does."""
    commit = _commit(command) if command is not None else ""
    told = {
        "os": _system(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "hostname": platform.node(),
        **({"commit": commit} if commit else {}),
    }
    return {**told, **given}


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _commit(command: str) -> str:
    """Return the commit of the checkout in which the program is; empty if it is in none."""
    for word in shlex.split(command):
        found = shutil.which(word) or word
        if Path(found).is_file() and (commit := _described(Path(found).resolve().parent)):
            return commit
    return ""


def _described(folder: Path) -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_LIMIT, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
