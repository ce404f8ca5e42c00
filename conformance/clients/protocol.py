"""The lines between the suite and a driver: questions, answers, and the table of operations.

A question is ``NUMBER OPERATION ARGUMENT…``, an answer ``@beanstalk NUMBER WORD VALUE…``; bytes are
``x`` and hex digits, so that even no bytes are a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from reference_server.commands import COMMANDS, ArgumentKind

PREFIX = "@beanstalk"
"""The beginning of an answer; the library may have printed something before it in the line."""
OK, ERROR, UNSUPPORTED = "ok", "error", "unsupported"
LONGEST_SHOWN = 200
"""Characters of a line that an error quotes."""


_BYTES = "x([0-9a-fA-F]{2})*"


class Values(Enum):
    """The values after ``ok``, as a regular expression over the rest of the line."""

    NONE = ".*"
    ID = r"\d+"
    JOB = rf"\d+ {_BYTES}"
    COUNT = r"(\d+)?"
    NAME = rf"{_BYTES}"
    WORDS = rf"((\d+|{_BYTES})( (\d+|{_BYTES}))*)?"


_JOBS = ("reserve", "reserve-with-timeout", "reserve-job")
_SPECIAL = {
    "put": Values.ID,
    **dict.fromkeys(_JOBS, Values.JOB),
    **{verb: Values.JOB for verb in COMMANDS if verb.startswith("peek")},
    **dict.fromkeys(("kick", "watch", "ignore"), Values.COUNT),
    **{verb: Values.WORDS for verb in COMMANDS if verb.startswith(("stats", "list-tubes"))},
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


def parse_answer(line: str, number: int) -> Answer | None:
    """Return the answer in a line, None if the library printed the line.

    Raises :class:`DriverError`.
    """
    _, found, rest = line.rpartition(f"{PREFIX} ")
    if not found:
        return None
    shown = line if len(line) <= LONGEST_SHOWN else f"{line[:LONGEST_SHOWN]}…"
    repeated, *words = rest.split() or [""]
    if repeated != str(number):
        raise DriverError(f"the answer to question {number} has another number: {shown!r}")
    if not words:
        raise DriverError(f"the answer has no word after the number: {shown!r}")
    word, *values = words
    return Answer(word, tuple(values))


def require_values(operation: str, answer: Answer) -> None:
    """Raise :class:`DriverError` if a success does not have the values of its operation."""
    wanted = OPERATIONS[operation]
    if answer.is_ok and not re.fullmatch(wanted.value, " ".join(answer.values)):
        raise DriverError(
            f"the answer to {operation} does not have the values {wanted.name} after ok:"
            f" {str(answer)!r}"
        )


def require_translation(question: str, answer: Answer, commands: Sequence[bytes]) -> None:
    """Raise :class:`DriverError` if a driver has not given a question to its library.

    ``commands``: what the library has sent, to a well-behaved server.
    """
    operation, *words = question.split()
    for word in words:
        if len(word) > 1 and word[0] == "x" and any(word.encode() in one for one in commands):
            raise DriverError(f"{operation} sends the text {word}, not the bytes it stands for")
    if not commands and answer.word not in (OK, ERROR, "none"):
        raise DriverError(
            f"{operation} sends nothing, and the answer is {str(answer)!r}: an operation that the"
            f" library does not have is {UNSUPPORTED}"
        )


def text_of(values: Sequence[str]) -> list[bytes]:
    """Return the words of statistics or names: bytes as they are, numbers as their digits.

    A library may return the text of the server as it came: then its lines are the words.
    """
    words = [
        bytes.fromhex(word[1:]) if re.fullmatch(_BYTES, word) else word.encode() for word in values
    ]
    if len(words) != 1 or b"\n" not in words[0]:
        return words
    lines = [line.removeprefix(b"- ") for line in words[0].splitlines() if line != b"---"]
    return [word for line in lines for word in line.split(b": ", 1)]
