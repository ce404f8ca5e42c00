"""Labels of a run: where it ran, what was tested, and what the user adds."""

from __future__ import annotations

import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

_INTERPRETER = re.compile(
    r"((ba|da|z|k)?sh|python|pypy|node|nodejs|deno|bun|ruby|perl|php|java|lua|luajit|env|exec|nice"
    r"|nohup|setsid|timeout|stdbuf|sudo|strace|ltrace|valgrind|gdb|taskset|prlimit|time|go|dotnet"
    r"|uv|npx|npm|bundle|tini|xargs)[0-9.]*(\.exe)?"
)
"""Programs that start the one that an argument of theirs names."""
_TEXT = re.compile("-[a-z]*c")
"""The option of a shell that a command follows as one word."""
_SHELL = {"exec", "cd", "&&", ";", "||", "run", "--"}
"""Words of a command that name no program."""
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
    detected = {
        "os": _system(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "hostname": platform.node(),
        **({"commit": commit} if commit else {}),
    }
    return {**detected, **given}


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _commit(command: str) -> str:
    """Return the commit of the checkout that the launched program is in; empty if it is in none."""
    program = _program(command)
    return _described(program.resolve().parent) if program else ""


def _program(command: str) -> Path | None:
    """Return the first file that a command names and that is no interpreter.

    Options and settings are passed over, and the text of a shell's ``-c`` is a command itself. A
    module of Python may be anywhere: it is not found.
    """
    words = _split(command)
    for before, word in pairwise(["", *words]):
        if _TEXT.fullmatch(before):
            return _program(word)
        if word.startswith("-") or "=" in word or "{" in word or word in _SHELL:
            continue
        path = Path(shutil.which(word) or word)
        if path.is_file() and not _INTERPRETER.fullmatch(path.name):
            return path
    return None


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _described(folder: Path) -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_LIMIT, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
