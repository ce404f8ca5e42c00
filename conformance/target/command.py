"""The command that starts a server: a template with placeholders for address, limits, binlog."""

from __future__ import annotations

import os
import re
import shlex
import string
from collections.abc import Mapping

PLACES = ("port", "path")
"""Names of which a template must have one: there the server listens."""
PLACEHOLDERS = (*PLACES, "host", "max_job_size", "max_jobs_ready", "binlog")
NO_LAUNCH = "a server can be launched on Linux and macOS only: start it, and give --target"


class LaunchError(Exception):
    """The server could not be started; the text says why, in one sentence."""


def listens_on_path(command: str) -> bool:
    """Return whether a template is of a server that listens on a UNIX socket only."""
    return "path" in _names(command)


def check_command(command: str) -> None:
    """Raise LaunchError if a template cannot be of a server that we could start and reach."""
    if not hasattr(os, "killpg"):
        raise LaunchError(NO_LAUNCH)
    if not command.strip():
        raise LaunchError("the command to launch is empty")
    names = _names(command)
    known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    for name in names:
        if name not in PLACEHOLDERS:
            raise LaunchError(f"the command to launch has {{{name}}}; there are only {known}")
    if all(place in names for place in PLACES):
        raise LaunchError("the command to launch has {port} and {path}: give one of them")
    # What is in brackets may be left out.
    if not any(place in _names(_optional.sub("", command)) for place in PLACES):
        raise LaunchError(
            f"the command to launch has no place for the address:"
            f" it needs {{port}} or {{path}}: {command}"
        )


def command_line(command: str, values: Mapping[str, object]) -> list[str]:
    """Return the arguments of a command template, its ``{names}`` filled in.

    A part in ``[brackets]`` is left out unless all its names have values. Raises
    :class:`LaunchError` if the template is not well-formed.
    """

    def part(match: re.Match[str]) -> str:
        try:
            return match[1].format_map(values)
        except KeyError:
            return ""

    try:
        arguments = shlex.split(_optional.sub(part, command).format_map(values))
    except (KeyError, ValueError, IndexError) as error:
        raise _malformed(command) from error
    if not arguments:
        raise LaunchError("the command to launch is empty")
    return arguments


_optional = re.compile(r"\[([^\][]*)\]")


def _names(command: str) -> list[str]:
    try:
        return [name for _, name, _, _ in string.Formatter().parse(command) if name is not None]
    except ValueError as error:
        raise _malformed(command) from error


def _malformed(command: str) -> LaunchError:
    return LaunchError(f"the command to launch is not well-formed: {command!r}")
