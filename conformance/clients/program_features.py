"""The broken requirements that explain what a random program shows.

A program breaks its own requirement only for what no directed case explains. A case explains it if
the program, once shrunk, has all features of the case: its verb and its reply, for example.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from conformance.clients.cases import OR, RESERVE, ClientCase
from conformance.clients.programs import CONTENTS, DISCONNECTS, SEGMENTS, ClientProgram
from conformance.clients.protocol import data

NEVER = ("refuse", "lies")
"""Sections about what no program does."""
UNUSED = (
    *("largest", "longest", "zeros", "none", "distinct", "maximal", "late", "silence", "busy"),
)
"""Parts of slugs about what no program does, or nothing compares."""


def features_of_program(program: ClientProgram, words: Collection[str]) -> frozenset[str]:
    """Return the features that a program has; ``words`` are those of the replies to it."""
    found = {*map(_common, (call.verb for call in program)), *words}
    for call in program:
        found |= {name for name, body in CONTENTS.items() if data(body) in call.question.split()}
        if call.change.cut is not None:
            found.add(DISCONNECTS)
        if call.change.every:
            found.add(SEGMENTS)
    return frozenset(found)


def explanations(case: ClientCase) -> Iterator[frozenset[str]]:
    """Yield sets of features, each of which a broken case explains."""
    section, _, name = case.slug.partition(".")
    if section in NEVER or any(part in name for part in UNUSED):
        return
    if section == "gone" or name in ("put-once", "use-restored", "watch-restored"):
        yield frozenset({DISCONNECTS})
    elif section == "segments":
        yield frozenset({SEGMENTS})
    elif name.startswith("body-"):
        yield frozenset({name})
    else:
        reply = case.changes[0].says or b""
        words = {reply.split()[0].decode()} if reply and reply != b"\r\n" else set()
        if section == "step":
            if words:
                yield frozenset(words)
            return
        before = () if case.before == RESERVE else case.before
        asked = {_common(question.split()[0]) for question in before}
        for question in case.ask.split(OR):
            yield frozenset({_common(question.split()[0]), *words, *asked})


def _common(verb: str) -> str:
    """Return the verb; both reserves are one, as cases try either."""
    return "reserve" if verb == "reserve-with-timeout" else verb
