"""Corpus entries as files that several fuzzers share: a program, and the edges that it reaches.

A file is JSON, and its name is made of what is in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from conformance.random_testing.steps import Ask, Leave, Step, Wait
from fuzz.guidance import CorpusEntry
from reports.files import replace

FOLDER = "programs"
"""The folder of such entries, in that of the corpus."""
_END = ".json"
_KINDS: dict[str, type[Ask | Leave | Wait]] = {"ask": Ask, "leave": Leave, "wait": Wait}


def dumps(entry: CorpusEntry) -> str:
    """Return an entry as text."""
    return json.dumps({"reached": f"{entry.reached:x}", "steps": [*map(_as_json, entry.program)]})


def loads(text: str) -> CorpusEntry:
    """Return an entry from text; raises ValueError."""
    try:
        content = json.loads(text)
        return CorpusEntry([*map(_step, content["steps"])], int(content["reached"], 16))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("not an entry of a corpus") from error


def _as_json(step: Step) -> dict[str, Any]:
    fields = {
        name: value.decode("latin-1") if isinstance(value, bytes) else value
        for name, value in step._asdict().items()
    }
    return {"kind": type(step).__name__.lower(), **fields}


def _step(fields: dict[str, Any]) -> Step:
    values = dict(fields)
    kind = _KINDS[values.pop("kind")]
    if kind is Ask:
        values["text"] = values["text"].encode("latin-1")
        values["cuts"] = tuple(values["cuts"])
    return kind(**values)


class SharedEntries(Protocol):
    """A place where several fuzzers share entries."""

    def put(self, entry: CorpusEntry) -> None:
        """Share an entry."""

    def new_entries(self) -> Iterator[CorpusEntry]:
        """Yield the entries that others have put there since this was asked last."""


class Shelf:
    """The entries that several fuzzers share in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._known: set[str] = set()

    def put(self, entry: CorpusEntry) -> None:
        """Write an entry, if that is possible: others do without it."""
        data = dumps(entry).encode()
        name = hashlib.sha256(data).hexdigest()[:16] + _END
        if name not in self._known:
            self._known.add(name)
            with contextlib.suppress(OSError):
                replace(self._folder / name, data)

    def new_entries(self) -> Iterator[CorpusEntry]:
        """Yield the entries that others have put there since this was asked last."""
        for path in sorted(self._folder.glob(f"*{_END}")):
            if path.name not in self._known:
                self._known.add(path.name)
                with contextlib.suppress(OSError, ValueError):
                    yield loads(path.read_text(encoding="utf-8"))
