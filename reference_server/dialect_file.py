"""The file in which a fork describes its dialect: YAML, with a reason for each difference.

``python -m reference_server.dialect_file`` prints its JSON Schema, which is kept in
``reference_server/dialect.schema.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reference_server.commands import COMMANDS, ArgumentKind, Grammar
from reference_server.dialect import Added, Changes, Dialect, DialectDifference, DialectError
from reference_server.profiles import PROFILES, Profile
from reference_server.unique_keys import NotUnique, UniqueKeys
from reference_server.wire import BARE

MOST_BYTES = 1 << 20
"""Longer files are not read."""
NEEDED = frozenset(
    (
        *("put", "use", "reserve", "reserve-with-timeout", "delete", "release", "bury", "watch"),
        *("ignore", "peek", "kick", "stats", "stats-job", "stats-tube", "list-tubes"),
        *("list-tube-used", "stats.cmd-stats", "stats.total-connections"),
    )
)
"""Commands and keys that no dialect may leave out: too little could be tested without them."""
REFUSALS = (
    *("BAD_FORMAT", "UNKNOWN_COMMAND", "OUT_OF_MEMORY", "INTERNAL_ERROR", "DRAINING"),
    *("EXPECTED_CRLF", "JOB_TOO_BIG", "NOT_FOUND", "NOT_IGNORED"),
)
"""The replies that a fork may word otherwise."""
_STATISTICS = ("stats", "stats-job", "stats-tube")

Reason = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"\S")]
Verb = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,99}$")]
Form = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,99}( <number>| <tube>){0,9}( <bytes>)?$")]
Text = Annotated[str, Field(pattern=r"^[!-~]([ -~]{0,198}[!-~])?$")]
Key = Annotated[str, Field(pattern=r"^(stats|stats-job|stats-tube)\.[a-z0-9_-]{1,100}$")]


class _DialectData(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class NewCommand(_DialectData):
    """A command that the fork has added; without arguments and replies, it is opaque.

    What is sent of an opaque command is only what must not end the server.
    """

    reason: Reason
    arguments: list[Literal["job", "priority", "seconds", "count", "tube"]] | None = None
    """The kinds of its arguments, in order."""
    replies: Annotated[list[Form], Field(min_length=1, max_length=20)] | None = None
    """The forms of its replies, as "TRUNCATED <number>"; a last <bytes> announces data."""
    changes: Changes = Changes.ANYTHING
    """The things that may be other than before, once it was said."""


class _Limit(_DialectData):
    reason: Reason


class NameLimit(_Limit):
    """The longest name of a tube, in bytes."""

    value: Annotated[int, Field(strict=True, ge=32, le=1000)]


class LineLimit(_Limit):
    """The longest line, in bytes, CR LF included."""

    value: Annotated[int, Field(strict=True, ge=224, le=1 << 20)]


class JobLimit(_Limit):
    """The largest body by default, in bytes."""

    value: Annotated[int, Field(strict=True, ge=1, le=1 << 30)]


class DialectLimits(_DialectData):
    """The limits that differ."""

    max_name: Annotated[NameLimit | None, Field(alias="max-name")] = None
    max_line: Annotated[LineLimit | None, Field(alias="max-line")] = None
    max_job_size: Annotated[JobLimit | None, Field(alias="max-job-size")] = None


class Wording(_DialectData):
    """The words in which the fork refuses something."""

    text: Text
    reason: Reason


class Quotes(_DialectData):
    """The style of YAML: whether strings in statistics are quoted."""

    value: Annotated[bool, Field(strict=True)]
    reason: Reason


class NewKey(_DialectData):
    """A key that the fork's statistics have besides."""

    value: str | int | float
    """An example of its value: of a number, another number may come."""
    reason: Reason


class DialectFile(_DialectData):
    """The dialect of a fork."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    """The name that reports call it by."""
    extends: str
    """The profile of the protocol that it begins with, as "1.13", in quotes."""
    commands: dict[Verb, NewCommand] = {}
    """Commands that it has besides."""
    without: dict[str, Reason] = {}
    """Commands, and keys of statistics such as stats.draining, that it leaves out, and why."""
    limits: DialectLimits = DialectLimits()
    replies: dict[str, Wording] = {}
    """Refusals that it words otherwise."""
    yaml_quotes: Annotated[Quotes | None, Field(alias="yaml-quotes")] = None
    keys: dict[Key, NewKey] = {}
    """Keys that its statistics have besides, as stats.cmd-truncate."""


def read_dialect(path: Path) -> Profile:
    """Return the profile that a file describes; raises :class:`DialectError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise DialectError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise DialectError(f"{path} is longer than {MOST_BYTES >> 20} MiB")
    try:
        document = yaml.load(data.decode("utf-8"), UniqueKeys)
    except NotUnique as error:
        raise DialectError(f"{path}: {error}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise DialectError(f"{path} is not YAML: {' '.join(str(error).split())[:300]}") from None
    if not isinstance(document, Mapping):
        raise DialectError(f"{path}: a dialect is a dictionary, with name, extends, and more")
    try:
        file_ = DialectFile.model_validate(document)
        return _profile(file_)
    except ValidationError as error:
        raise DialectError(f"{path}: {_first(error)}") from None
    except ValueError as error:
        raise DialectError(f"{path}: {error}") from None


def _first(error: ValidationError) -> str:
    """Return the first thing that is wrong, in a sentence."""
    first = error.errors(include_url=False, include_context=False, include_input=True)[0]
    where = ".".join(str(part)[:60] for part in first["loc"] if part != "[key]")
    match first["type"]:
        case "missing":
            return f"{where} is missing"
        case "string_type":
            return f"{where}: {first['input']!r} is no text: put it in quotes"
        case "extra_forbidden":
            return f"{where}: there is no such key"
        case "string_pattern_mismatch":
            return f"{where}: {first['input']!r} does not have the form that it must have"
    said = first["msg"]
    return f"{where}: {said[:1].lower()}{said[1:]}, not {first['input']!r:.80}"


def _profile(file: DialectFile) -> Profile:
    """Return the profile; raises ValueError if what the file says contradicts itself."""
    base = PROFILES.get(file.extends)
    if base is None:
        raise ValueError(f"extends: {file.extends!r} is none of {', '.join(PROFILES)}")
    if file.name in PROFILES:
        raise ValueError(f"name: {file.name} is a profile of the protocol; give it another name")
    _check(file, base)
    left_out = tuple(name for name in file.without if "." not in name)
    lacks = {name for name in file.without if "." in name}
    lacks |= {f"{of}.cmd-{verb}" for verb in left_out for of in _STATISTICS}
    limits = file.limits
    max_name = limits.max_name.value if limits.max_name else base.max_name
    # Where a name may be longer, so may a line with one.
    max_line = max(base.max_line + max_name - base.max_name, base.max_line)
    return replace(
        base,
        name=file.name,
        commands=base.commands - {*left_out},
        lacks=base.lacks | lacks,
        max_name=max_name,
        max_line=limits.max_line.value if limits.max_line else max_line,
        max_job_size=limits.max_job_size.value if limits.max_job_size else base.max_job_size,
        yaml_quotes=file.yaml_quotes.value if file.yaml_quotes else base.yaml_quotes,
        dialect=Dialect(
            file.extends,
            tuple(_added(file.name, verb, command) for verb, command in file.commands.items()),
            left_out,
            tuple((key, str(new.value)) for key, new in file.keys.items()),
            tuple((word, wording.text) for word, wording in file.replies.items()),
            tuple(_differences(file)),
        ),
    )


def _check(file: DialectFile, base: Profile) -> None:
    """Raise ValueError if a dialect adds what is there, or leaves out what is not, or needed."""
    for verb, command in file.commands.items():
        if verb in COMMANDS:
            raise ValueError(f"commands.{verb}: it is a command of the protocol already")
        if (command.arguments is None) != (command.replies is None):
            raise ValueError(f"commands.{verb}: give both arguments and replies, or neither")
        if command.arguments is None and command.changes is not Changes.ANYTHING:
            raise ValueError(f"commands.{verb}: changes is said of commands with arguments only")
    for name in file.without:
        if name in NEEDED:
            raise ValueError(f"without.{name}: the suite needs {name}; it cannot be left out")
        if "." in name and not re.fullmatch(r"(stats|stats-job|stats-tube)\.[a-z0-9-]+", name):
            raise ValueError(
                f"without.{name}: name a key as stats.KEY, stats-job.KEY or stats-tube.KEY"
            )
        if "." not in name and name not in base.commands:
            raise ValueError(f"without.{name}: profile {base.name} has no such command")
    texts = [wording.text for wording in file.replies.values()]
    for word, wording in file.replies.items():
        if word not in REFUSALS:
            raise ValueError(f"replies.{word}: it is none of {', '.join(REFUSALS)}")
        if wording.text.encode() in BARE or texts.count(wording.text) > 1:
            raise ValueError(f"replies.{word}: another reply has the text {wording.text!r}")
    longest, limit = file.limits.max_name, file.limits.max_line
    if longest and limit and limit.value < longest.value + len("pause-tube  4294967295\r\n"):
        raise ValueError(f"limits.max-line: no line of {limit.value} bytes holds the longest name")


def _added(name: str, verb: str, command: NewCommand) -> Added:
    if command.arguments is None or command.replies is None:
        return Added(verb)
    kinds = tuple(ArgumentKind[kind.upper()] for kind in command.arguments)
    words = tuple(form.partition(" ")[0] for form in command.replies)
    return Added(
        verb, Grammar(verb, name, kinds, words, None), tuple(command.replies), command.changes
    )


def _differences(file: DialectFile) -> Iterator[DialectDifference]:
    """Yield all that differs, in words: commands that are left out first, then those added."""
    for name, reason in file.without.items():
        if "." not in name:
            yield DialectDifference(f"no {name}", reason)
    for verb, command in file.commands.items():
        kind = "" if command.arguments is not None else ", which is not tested"
        yield DialectDifference(f"the command {verb}{kind}", command.reason)
    for name, reason in file.without.items():
        if "." in name:
            yield DialectDifference(f"no {name}", reason)
    limits = file.limits
    for summary, limit in (
        ("names of {} bytes", limits.max_name),
        ("lines of {} bytes", limits.max_line),
        ("bodies of {} bytes by default", limits.max_job_size),
    ):
        if limit is not None:
            yield DialectDifference(summary.format(limit.value), limit.reason)
    for word, wording in file.replies.items():
        yield DialectDifference(f"“{wording.text}” for {word}", wording.reason)
    if file.yaml_quotes is not None:
        quotes = "quotes" if file.yaml_quotes.value else "no quotes"
        yield DialectDifference(f"{quotes} around strings in statistics", file.yaml_quotes.reason)
    for key, new in file.keys.items():
        yield DialectDifference(f"the key {key}", new.reason)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **DialectFile.model_json_schema(by_alias=True),
    }


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2))
