"""The known bugs of a target: the fuzzer avoids them, to find the bugs behind them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from conformance.oracle.underspecification import KINDS, Lines
from conformance.random_testing.steps import Ask, Program
from reference_server.commands import U32
from reference_server.profiles import Profile

Form = tuple[str, ...]
"""The word of a line, and what its arguments look like."""

_KINDS = {
    "number": re.compile(rb"0|[1-9][0-9]*"),
    "name": re.compile(rb"[A-Za-z][-A-Za-z0-9]{,199}"),
    "none": re.compile(rb""),
    "zeros": re.compile(rb"0[0-9]+"),
    "sign": re.compile(rb"[+-].*", re.DOTALL),
    "garbage": re.compile(rb"[0-9].*", re.DOTALL),
    "odd": re.compile(rb".*", re.DOTALL),
}
LONG = 200
"""Bytes from which on it is a line's length that matters."""
_SOME = 2**31
_PLAIN = {"number", "name"}


class Suppression:
    """Forms of lines that have shown what is wrong; those of plain lines are never among them."""

    def __init__(self) -> None:
        self._forms: set[Form] = set()

    def learn(self, lines: Iterable[bytes | None]) -> None:
        """Keep the forms of lines; None stands for one that is too long."""
        self._forms |= {made for made in map(form, lines) if not _is_plain(made)}

    @property
    def forms(self) -> frozenset[Form]:
        """All of them."""
        return frozenset(self._forms)

    def take(self, forms: Iterable[Form]) -> None:
        """Take in forms that others have learnt."""
        self._forms.update(forms)

    def news(self, lines: Iterable[bytes | None]) -> list[bytes]:
        """Return one line of each form that is not plain, and not known."""
        known = set(self._forms)
        new = []
        for line in lines:
            made = form(line)
            if line is not None and made not in known and not _is_plain(made):
                known.add(made)
                new.append(line)
        return new

    def has(self, lines: Iterable[bytes | None]) -> bool:
        """Return whether one of these lines looks like one that has shown what is wrong."""
        return bool(self._forms) and any(form(line) in self._forms for line in lines)


def lines_of(program: Program, profile: Profile) -> Sequence[bytes | None]:
    """Return the lines that a program sends, whatever the ids of its jobs."""
    lines: list[bytes | None] = []
    for step in program:
        if isinstance(step, Ask):
            reader = Lines(profile)
            reader.read(step.text if step.job is None else step.text % 1)
            lines += reader.lines
    return lines


def form(line: bytes | None) -> Form:
    """Return the form of a line; None stands for one that is too long."""
    if line is None:
        return ("too long",)
    if len(line) > LONG:
        return ("long",)
    word, *arguments = line.split(b" ")
    known = word.decode("latin-1")
    if known not in KINDS:
        known = next((verb for verb in KINDS if known.startswith(verb)), "") + "…"
    return (known, *map(_kind, arguments))


def _kind(argument: bytes) -> str:
    kind = next(name for name, pattern in _KINDS.items() if pattern.fullmatch(argument))
    if kind == "number" and (size := int(argument)) >= _SOME:
        return "31 bits" if size <= U32 else "32 bits"
    return kind


def _is_plain(made: Form) -> bool:
    word, *arguments = made
    return word in KINDS and len(arguments) == len(KINDS[word]) and _PLAIN.issuperset(arguments)
