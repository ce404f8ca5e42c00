"""The options of a command that name its target."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from conformance.run.options import AUTO, Options
from conformance.target.limits import USUAL
from conformance.usage import ADDRESS, WHAT, option

_CLOCKS = click.Choice(["auto", "real", "fake"])
_DETAILS: dict[str, dict[str, Any]] = {
    "--target": {"metavar": "ADDRESS", "help": ADDRESS},
    "--launch": {
        "metavar": "COMMAND",
        "help": "a server to start: a command with {port} or {path}",
    },
    "--profile": {
        "default": AUTO,
        "show_default": True,
        "metavar": "NAME",
        "help": "the version of the protocol, or the file of a fork's dialect",
    },
    "--clock": {
        "type": _CLOCKS,
        "show_default": True,
        "help": "the clock of a launched server",
    },
    "--start-timeout": {
        "type": float,
        "default": USUAL.start,
        "show_default": True,
        "metavar": "SECONDS",
        "help": "how long it may take until it listens",
    },
}


def names_target(clock: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that adds these options, and makes :class:`Options` of them.

    The command gets them as ``options``. ``clock``: the default.
    """

    def add(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def command(
            target: str | None,
            launch: str | None,
            profile: str,
            start_timeout: float,
            **others: Any,
        ) -> int:
            chosen = others.pop("clock")
            if launch is None and chosen == clock:
                chosen = AUTO
            named = Options.of_command(target, launch, chosen, start_timeout, profile)
            return function(options=named, **others)

        added: Callable[..., int] = command
        for name in reversed(_DETAILS):
            default = {"default": clock} if name == "--clock" else {}
            added = option(WHAT, name, **_DETAILS[name], **default)(added)
        return added

    return add
