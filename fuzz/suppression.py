"""Known bugs of the target, which the fuzzer avoids to find the bugs that they hide."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from conformance.oracle.underspecification import KINDS, Lines, answered, talks
from conformance.random_testing.steps import Ask, Program
from conformance.transcript import Entry
from reference_server.commands import COMMANDS, U32
from reference_server.profiles import Profile

Form = tuple[str, ...]
"""The word of a line, and what its arguments look like."""
Signature = tuple[str, str, str]
"""The word of a line, and those of the reply that should come and of the one that did."""

_KINDS = {
    "number": re.compile(rb"0|[1-9][0-9]*"),
    "name": re.compile(rb"[A-Za-z][-A-Za-z0-9]{,199}"),
    "none": re.compile(rb""),
    "zeros": re.compile(rb"0[0-9]+"),
    "sign": re.compile(rb"[+-].*", re.DOTALL),
    "garbage": re.compile(rb"[0-9].*", re.DOTALL),
    "odd": re.compile(rb".*", re.DOTALL),
}
_REFUSALS = ("BAD_FORMAT", "UNKNOWN_COMMAND")
_TAKEN = {"nothing", *(word for grammar in COMMANDS.values() for word in grammar.replies)}
_COUNTER = re.compile(r"OK with [a-z-]+")
LONG = 200
"""Bytes from which on it is a line's length that matters."""
_SOME = 2**31
_ODD = "…"
"""Stands for all words that do not begin like a command."""
_MANY = 3
"""Buggy forms of one word from which on its other forms most likely show the same bug."""
_PLAIN = {"number", "name"}


class Suppression:
    """Forms of lines that have triggered bugs; forms of plain lines are never included."""

    def __init__(self) -> None:
        self._forms: set[Form] = set()
        self._words: Counter[str] = Counter()
        """The number of forms with a word."""

    def __len__(self) -> int:
        return len(self._forms)

    def learn(self, lines: Iterable[bytes | None]) -> None:
        """Keep the forms of lines; None stands for one that is too long."""
        self.take(made for made in map(form, lines) if not _is_plain(made))

    @property
    def forms(self) -> frozenset[Form]:
        """All of them."""
        return frozenset(self._forms)

    def take(self, forms: Iterable[Form]) -> None:
        """Add the forms that other processes have found."""
        new = {*forms} - self._forms
        self._forms |= new
        self._words.update(word for word, *_ in new)

    def unknown(self, lines: Iterable[bytes | None]) -> list[bytes]:
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

    def expects(self, lines: Iterable[bytes | None]) -> bool:
        """Return whether one of these lines has a word that was seen to go wrong in many forms."""
        words = (made[0] for made in map(form, lines) if not _is_plain(made))
        return bool(self._forms) and any(
            word != _ODD and self._words[word] >= _MANY for word in words
        )


def lines_of(program: Program, profile: Profile) -> Sequence[bytes | None]:
    """Return the lines that a program sends, whatever the ids of its jobs."""
    lines: list[bytes | None] = []
    for step in program:
        if isinstance(step, Ask):
            reader = Lines(profile)
            reader.read(step.text if step.job is None else step.text % 1)
            lines += reader.lines
    return lines


def line_of(entries: Sequence[Entry], profile: Profile) -> bytes | None:
    """Return the line to which the last reply belongs, or which has got none; None if unknown."""
    name = entries[-1].connection if entries else ""
    *_, (sent, got) = [(b"", b""), *talks([entry for entry in entries if entry.connection == name])]
    reader = Lines(profile)
    reader.read(sent)
    line = None
    for _, asked, reply in answered(reader, got, profile):
        if reply is None:
            return asked if entries[-1].direction == ">" else line
        line = asked
    return line


def signature(line: bytes | None, due: str, came: str) -> Signature:
    """Return what findings that are alike have in common, by the replies in words.

    What is replied to a line that should have been refused depends on what is there, so that all
    such replies are alike. Where statistics differ, the counter matters, and not the line.
    """
    if counter := _COUNTER.match(due):
        return "", counter[0], "OK"
    due, came = (text.partition(" ")[0].removesuffix("\\r\\n") for text in (due, came))
    if due in _REFUSALS and came in _TAKEN:
        came = "taken"
    return form(line)[0], due, came


def form(line: bytes | None) -> Form:
    """Return the form of a line; None stands for one that is too long."""
    if line is None:
        return ("too long",)
    if len(line) > LONG:
        return ("long",)
    word, *arguments = line.split(b" ")
    known = word.decode("latin-1")
    if known not in KINDS:
        known = next((verb for verb in KINDS if known.startswith(verb)), "") + _ODD
    return (known, *map(_kind, arguments))


def _kind(argument: bytes) -> str:
    kind = next(name for name, pattern in _KINDS.items() if pattern.fullmatch(argument))
    if kind == "number" and (size := int(argument)) >= _SOME:
        return "31 bits" if size <= U32 else "32 bits"
    return kind


def _is_plain(made: Form) -> bool:
    word, *arguments = made
    return word in KINDS and len(arguments) == len(KINDS[word]) and _PLAIN.issuperset(arguments)
