"""The dialect of a fork, as data: how its protocol differs from the profile that it extends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from reference_server.commands import ArgumentKind, Grammar

NOBODYS = {ArgumentKind.TUBE: "conformance-nobodys", ArgumentKind.JOB: "0"}
"""The tube and the job that no server has: a command that changes what it names changes nothing."""
_PLACES: dict[str, int | str] = {"<number>": 0, "<tube>": NOBODYS[ArgumentKind.TUBE]}
_NAME = re.compile(rb"[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,199}")
_NUMBER = re.compile(rb"0|[1-9][0-9]{0,19}")


class DialectError(Exception):
    """No profile has this name, or its file is wrong; the text says why, in one sentence."""


class Changes(StrEnum):
    """The changes that a command of a fork may make."""

    NOTHING = "nothing"
    NAMED = "what it names"
    ANYTHING = "anything"


Example = tuple[str, tuple[int | str, ...], bytes | None]
"""The word, the arguments and the data of a reply."""


class Added(NamedTuple):
    """A command that a fork has added; an opaque one has no ``grammar``.

    ``forms`` are its replies, such as ``TRUNCATED <number>``; a last ``<bytes>`` announces data.
    """

    verb: str
    grammar: Grammar | None = None
    forms: tuple[str, ...] = ()
    changes: Changes = Changes.ANYTHING

    @property
    def line(self) -> bytes:
        """A line that names a tube or job of nobody; it is well-formed but for what is opaque."""
        kinds = self.grammar.kinds if self.grammar else ()
        return " ".join((self.verb, *(NOBODYS.get(kind, "0") for kind in kinds))).encode()

    def takes(self, arguments: Sequence[bytes]) -> bool:
        """Return whether these are well-formed arguments; of an opaque command, none are."""
        if self.grammar is None or len(arguments) != len(self.grammar.kinds):
            return False
        return all(map(_is_well_formed, self.grammar.kinds, arguments))

    def is_harmless(self, line: bytes) -> bool:
        """Return whether a line (without CR LF) is well-formed, and changes nothing."""
        word, *arguments = line.split(b" ")
        if word != self.verb.encode() or not self.takes(arguments):
            return False
        if self.grammar is None or self.changes is Changes.ANYTHING:
            return False
        return self.changes is Changes.NOTHING or all(
            argument == NOBODYS.get(kind, argument.decode()).encode()
            for kind, argument in zip(self.grammar.kinds, arguments, strict=True)
        )


def _is_well_formed(kind: ArgumentKind, argument: bytes) -> bool:
    if kind is ArgumentKind.TUBE:
        return bool(_NAME.fullmatch(argument))
    return bool(_NUMBER.fullmatch(argument)) and int(argument) <= kind.limit


class DialectDifference(NamedTuple):
    """One difference to the profile of the protocol, in words, and why the fork has it."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """The differences of a fork's protocol to the one that it ``extends``.

    ``without`` are commands that are left out, ``keys`` those that its statistics have besides,
    as ``stats.cmd-truncate``, with an example of their value. ``texts`` are its words for replies
    that the protocol words otherwise.
    """

    extends: str
    added: tuple[Added, ...] = ()
    without: tuple[str, ...] = ()
    keys: tuple[tuple[str, str], ...] = ()
    texts: tuple[tuple[str, str], ...] = ()
    differences: tuple[DialectDifference, ...] = ()

    @property
    def told(self) -> str:
        """The dialect in a few words, as "1.13 without pause-tube, plus 2 commands"."""
        if not self.extends:
            return ""
        count = len(self.added)
        others = [one.what for one in self.differences[len(self.without) + count :]]
        parts = [self.extends]
        if self.without:
            parts[0] += f" without {_listed(self.without)}"
        if count:
            parts.append(f"plus {_counted(count, 'command')}")
        if others:
            parts.append(f"with {_counted(len(others), 'other difference')}")
        return ", ".join(parts)

    @property
    def harmless(self) -> tuple[Added, ...]:
        """The added commands that can be said so that they change nothing."""
        return tuple(one for one in self.added if one.is_harmless(one.line))

    def examples(self, verb: str) -> list[Example]:
        """Return a reply of each form that a command has which was added."""
        return [_example(form) for one in self.added if one.verb == verb for form in one.forms]

    def keys_of(self, command: str) -> dict[str, str]:
        """Return the keys that the statistics of a command have besides, and their values."""
        prefix = f"{command}."
        own = (pair for pair in self.keys if pair[0].startswith(prefix))
        return {key.removeprefix(prefix): value for key, value in own}


PLAIN = Dialect("")
"""The dialect of a profile of the protocol: none."""


def _example(form: str) -> Example:
    word, *places = form.split(" ")
    data = b"" if places[-1:] == ["<bytes>"] else None
    return word, tuple(_PLACES[place] for place in places if place != "<bytes>"), data


def _listed(names: tuple[str, ...]) -> str:
    """Return names as a sentence lists them."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _counted(count: int, thing: str) -> str:
    """Return a number of things in words."""
    return f"{count} {thing}{'s' * (count != 1)}"
