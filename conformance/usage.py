"""Click commands with grouped help, suggestions, and one sentence for each error."""

from __future__ import annotations

import difflib
import errno
import importlib
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from conformance.output import take_standard_output
from conformance.printable import printable

USAGE = 4
"""Exit code for what the user has got wrong, as pytest has it."""
INTERRUPTED = 2
FROM_1 = click.IntRange(min=1)
LONGEST = 10.0**8
"""Seconds that any option takes at most."""
WHAT = "What to test"
ADDRESS = "a server that runs: HOST:PORT or unix:/path"
_PLAIN = "Options"
_Function = TypeVar("_Function", bound=Callable[..., Any])


def refuse(sentence: str) -> click.UsageError:
    """Return an error that is printed as one sentence."""
    return click.UsageError(sentence)


def make_folder(folder: Path) -> None:
    """Make the folder of a report before anything else is done; refuse what cannot be one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refuse(f"cannot write to the folder {folder}: {error.strerror}") from None


def looks_like_address(word: str) -> bool:
    """Tell whether a word that is given where no address belongs is one, as HOST:PORT is."""
    return re.fullmatch(r"(\[[^]]+\]|[^-\s:/][^\s:/]*):[0-9]+|unix:.+", word) is not None


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return what is added to a sentence about a word that is not known: what may be meant."""
    near = difflib.get_close_matches(word, {*known} - {word}, n=1)
    return f"; did you mean {near[0]}?" if near else ""


class Seconds(click.FloatRange):
    """A time that a command may take."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True, max=LONGEST)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            # No range excludes it.
            raise refuse(f"{param.opts[0] if param else value} takes a number of seconds")
        return seconds


SECONDS = Seconds()


class Option(click.Option):
    """An option that help shows in a ``group``."""

    def __init__(self, *args: Any, group: str = _PLAIN, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


def option(group: str, *names: str, **details: Any) -> Callable[[_Function], _Function]:
    """Return a decorator that gives a command an option of a group."""
    return click.option(*names, cls=Option, group=group, **details)


class ConsoleCommand(click.Command):
    """A command whose options are in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and not isinstance(parameter, click.Argument):
                groups.setdefault(getattr(parameter, "group", _PLAIN), []).append(record)
        for title, records in groups.items():
            with formatter.section(click.style(title, bold=True)):
                formatter.write_dl(records)


class ConsoleGroup(click.Group):
    """A group of commands, each under a title; its first commands are the most important ones.

    ``titles`` maps each command to ``module:name``, which is imported when the command is used.
    """

    def __init__(self, *args: Any, titles: Mapping[str, Mapping[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._titles = titles
        self._places = {name: at for places in titles.values() for name, at in places.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._places]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._places:
            return None
        module, _, name = self._places[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            raise refuse(f"give a command: {', '.join(self._places)}; --help explains them")
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in self._titles.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(click.style(title, bold=True)):
                formatter.write_dl([(name, c.get_short_help_str(100)) for name, c in commands if c])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if looks_like_address(name):
            raise refuse(f"a server is tested by: beanstalk-conformance run --target={name}")
        if name not in self._places and not name.startswith("-"):
            raise refuse(f"no such command: {name}{suggestion(name, self._places)}")
        return super().resolve_command(ctx, args)


def run(command: click.Command, name: str, argv: Sequence[str] | None) -> int:
    """Run a command line; return its exit code: 4, with a sentence, for what is wrong with it.

    ``argv``: None for that of this process, whose standard output may fail.
    """
    if sys.stderr is None:
        # Nobody wants to hear of errors: the exit code stays.
        sys.stderr = open(os.devnull, "w")
    output = take_standard_output() if argv is None else None
    code = _run(command, name, argv)
    if output is None:
        return code
    output.flush()
    if output.lost is not None and output.lost.errno != errno.EPIPE:
        sys.stderr.write(f"{name}: cannot write the output: {output.lost.strerror}\n")
        return USAGE
    return code


def _run(command: click.Command, name: str, argv: Sequence[str] | None) -> int:
    try:
        os.getcwd()
    except FileNotFoundError:
        sys.stderr.write(f"{name}: the current folder does not exist any more\n")
        return USAGE
    try:
        code = command.main(
            None if argv is None else list(argv), prog_name=name, standalone_mode=False
        )
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        message = printable(" ".join(error.format_message().split()))
        sys.stderr.write(f"{context.command_path if context else name}: {message}\n")
        return USAGE
    except click.Abort:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    return code if isinstance(code, int) else 0
