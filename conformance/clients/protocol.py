"""The lines between the suite and a driver: questions, answers, and the table of operations.

A question is ``NUMBER OPERATION ARGUMENT…``, an answer ``@beanstalk NUMBER WORD VALUE…``; bytes are
``x`` and hex digits, so that even no bytes are a word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from reference_server.commands import COMMANDS, ArgumentKind

PREFIX = "@beanstalk"
"""The beginning of an answer; the library may have printed something before it in the line."""
OK, UNSUPPORTED = "ok", "unsupported"
LONGEST_SHOWN = 200
"""Characters of a line that an error quotes."""


class Values(Enum):
    """The values after ``ok``, as a regular expression over the rest of the line."""

    NONE = ".*"
    ID = r"\d+"
    JOB = r"\d+ x([0-9a-fA-F]{2})*"
    COUNT = r"(\d+)?"
    NAME = r"x([0-9a-fA-F]{2})*"
    NAMES = r"(x([0-9a-fA-F]{2})*( x([0-9a-fA-F]{2})*)*)?"


_JOBS = ("reserve", "reserve-with-timeout", "reserve-job")
_SPECIAL = {
    "put": Values.ID,
    **dict.fromkeys(_JOBS, Values.JOB),
    **{verb: Values.JOB for verb in COMMANDS if verb.startswith("peek")},
    **dict.fromkeys(("kick", "watch", "ignore"), Values.COUNT),
    **{verb: Values.NAMES for verb in COMMANDS if verb.startswith(("stats", "list-tubes"))},
    "list-tube-used": Values.NAME,
}
OPERATIONS = {
    "connect": Values.NONE,
    **{verb: _SPECIAL.get(verb, Values.NONE) for verb in COMMANDS},
}
"""All operations, and the values that each returns."""


class DriverError(Exception):
    """The driver breaks its own protocol; the text says how, and quotes the line."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: ``ok``, ``unsupported``, or any other word for what the library reported."""

    word: str
    values: tuple[str, ...] = ()

    @property
    def is_ok(self) -> bool:
        """Return whether the library reported success."""
        return self.word == OK

    def __str__(self) -> str:
        text = " ".join((self.word, *self.values))
        return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def data(content: bytes) -> str:
    """Return bytes as a word of a question."""
    return "x" + content.hex()


def arguments(operation: str) -> tuple[str, ...]:
    """Return the names of an operation's arguments: those of the command, a body for its size."""
    if operation == "connect":
        return ("host", "port")
    return tuple(
        "body" if kind is ArgumentKind.SIZE else kind.name.lower()
        for kind in COMMANDS[operation].kinds
    )


def parse_answer(line: str, number: int, operation: str) -> Answer | None:
    """Return the answer in a line, None if the library printed the line.

    Raises :class:`DriverError`.
    """
    _, found, rest = line.rpartition(f"{PREFIX} ")
    if not found:
        return None
    shown = line if len(line) <= LONGEST_SHOWN else f"{line[:LONGEST_SHOWN]}…"
    repeated, *words = rest.split()
    if repeated != str(number):
        raise DriverError(f"the answer to question {number} has another number: {shown!r}")
    if not words:
        raise DriverError(f"the answer has no word after the number: {shown!r}")
    word, *values = words
    if word == OK and not re.fullmatch(OPERATIONS[operation].value, " ".join(values)):
        raise DriverError(
            f"the answer to {operation} does not have the values {OPERATIONS[operation].name}"
            f" after ok: {shown!r}"
        )
    return Answer(word, tuple(values))
