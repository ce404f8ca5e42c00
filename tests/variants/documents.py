"""Servers whose YAML documents look different: order, quotes, layout, and keys of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from reference_server.events import Event, Output
from reference_server.model import Model
from reference_server.wire import Reply
from tests.variants.variant import Variant, non_strict


def edits(summary: str, edit: Callable[[bytes], bytes], *slugs: str) -> Variant:
    """Return a variant that edits each document it sends."""

    class Edits(Model):
        def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
            return [
                (receiver, reply._replace(body=edit(reply.body)))
                if isinstance(reply, Reply) and reply.word == "OK" and reply.body
                else (receiver, reply)
                for receiver, reply in super().step(event, now, conn)
            ]

    return Variant(summary, Edits, non_strict=non_strict(*slugs))


def _in_order(order: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    """Put all lines but the first into another order."""

    def edit(document: bytes) -> bytes:
        first, *rest = document.splitlines(keepends=True)
        return b"".join([first, *order(rest)])

    return edit


def _shuffled(lines: list[bytes]) -> list[bytes]:
    return _CHANCE.sample(lines, len(lines))


_CHANCE = Random(7)


def _flow(document: bytes) -> bytes:
    """Return the document in one line, as JSON has it but for its strings."""
    _, *lines = document.splitlines()
    if lines[0].startswith(b"- "):
        return b"[" + b", ".join(b'"%b"' % line[2:].strip(b'"') for line in lines) + b"]\n"
    return b"{" + b", ".join(lines) + b"}\n"


def _lines(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Change each line but the first."""
    return _in_order(lambda lines: [change(line) for line in lines])


def _more(*keys: bytes) -> Callable[[bytes], bytes]:
    """Add keys to each dictionary."""

    def edit(document: bytes) -> bytes:
        if b"\n- " in document:
            return document
        return document + b"".join(b"%b: 1\n" % key for key in keys)

    return edit


_QUOTED_NAME = re.compile(rb'(?m): "(.*)"$')
_KEY = re.compile(rb"(?m)^([a-z-]+): ")
_UNNAMED = re.compile(rb"(?m)^cmd-(?:touch|reserve-with-timeout): .*\n")
_ITEM = re.compile(rb'^- "?([^"\n]*)"?$', re.MULTILINE)


FEW_KEYS = edits("only the keys that the text names", lambda yaml: _UNNAMED.sub(b"", yaml))

DOCUMENTS = (
    edits("lists in reverse order", _in_order(lambda lines: lines[::-1])),
    edits("lists in any order, another one each time", _in_order(_shuffled)),
    edits("lists in order of the alphabet", _in_order(sorted)),
    edits("one more key in each dictionary", _more(b"mood")),
    edits("hundred more keys", _more(*(b"counter-%d" % n for n in range(100)))),
    edits("no first line in YAML", lambda yaml: yaml.removeprefix(b"---\n")),
    edits(
        "unquoted strings",
        lambda yaml: _QUOTED_NAME.sub(rb": \1", yaml),
        "stats.yaml-values-parse",
        "stats-job.tube-is-a-string",
        "stats-tube.name-is-a-string",
    ),
    edits("strings in single quotes", lambda yaml: yaml.replace(b'"', b"'")),
    edits("keys in quotes", lambda yaml: _KEY.sub(rb'"\1": ', yaml)),
    edits("items of lists in quotes", lambda yaml: _ITEM.sub(rb'- "\1"', yaml)),
    edits("lines of YAML end with CR LF", lambda yaml: yaml.replace(b"\n", b"\r\n")),
    edits("no end of the last line of YAML", lambda yaml: yaml.removesuffix(b"\n")),
    edits("blank lines in YAML", lambda yaml: yaml.replace(b"\n", b"\n\n")),
    edits("indented YAML", _lines(lambda line: b"  " + line)),
    edits("more blanks in YAML", lambda yaml: yaml.replace(b": ", b":   ")),
    edits("blanks at the end of lines of YAML", lambda yaml: yaml.replace(b"\n", b"  \n")),
    edits("documents of YAML that say where they end", lambda yaml: yaml + b"...\n"),
    edits("a comment in YAML", lambda yaml: yaml.replace(b"---\n", b"---\n# as of now\n")),
    edits("YAML in one line", _flow),
)
