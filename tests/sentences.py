"""The sentences of the documents, and which requirement each of them is tested by.

The documents themselves are not part of the project: ``tests/documents/`` holds the beginning of
each sentence, in order, with the requirements that cite it; of texts that differ little, the
changes from one to the next. What nobody can test is listed in
``conformance/requirements/untestable.yaml``, with the reason.

``python -m tests.sentences NAME=FILE…`` compares that with the documents: every sentence must be
there, and every clause of a requirement must be in the document that it names as its source.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from conformance.catalogue import catalogue
from reference_server import profiles
from reference_server.unique_keys import UniqueKeys
from tests import ROOT

FOLDER = Path(__file__).parent / "documents"
UNTESTABLE = ROOT / "conformance" / "requirements" / "untestable.yaml"
_NAMES = tuple(profiles.PROFILES)
PROFILES: Mapping[str, tuple[str, ...]] = {
    **{f"protocol-{name}": (name,) for name in _NAMES if name not in ("0.6", "1.4")},
    "protocol-1.4.6": ("1.4",),
    "manual-1.12": _NAMES[_NAMES.index("1.12") :],
    "seed-000": ("0.6",),
    "seed-001": _NAMES[_NAMES.index("1.2") :],
    "seed-002": ("1.10",),
    "seed-003": ("1.4",),
    "seed-004": ("1.4",),
}
"""The profiles that each document describes."""
QUOTED = 60
"""Characters of a sentence that are kept."""
_BULLET = re.compile(r"\s*(?:[-*•|#>]|\d+\.\s|```|={3,}|-{3,}|\"[a-z-]+\\r|\"[A-Z])")
_END = re.compile(
    r"(?<=[.!?;:])\s+(?=[A-Z\"<*`_(])|(?<=[。\uff1b])\s*|(?<=[.;])\s*(?=[一-鿿])"
    r"|(?<=\\r\\n\")\s+(?=[A-Z])"
)
_UNFINISHED = re.compile(r"[一-鿿\uff0c]\s*$")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence: where it is at first, how it begins, which requirements cite it."""

    document: str
    number: int
    quote: str
    by: tuple[str, ...]


def split(text: str) -> list[str]:
    """Return the sentences of a document, and its headings, table rows and list items, in order."""
    return [
        sentence
        for block in _blocks(text)
        for sentence in map(_plain, _END.split(block))
        if re.search(r"\w", sentence)
    ]


def of_manual(page: str) -> str:
    """Return a manual page without the macros and escapes of roff."""
    page = re.sub(r"^\.(?:SH|TH) (.*)$", r"\n\1\n", page, flags=re.MULTILINE)
    page = re.sub(r"^\..*$", "", page, flags=re.MULTILINE)
    return re.sub(r"\\(?:f[BIR]|%|([-.]))", r"\1", page)


def _plain(text: str) -> str:
    """Without blanks and marks that only lay it out."""
    return " ".join(text.split()).strip("|*-#= `").removeprefix("text ")


def _blocks(text: str) -> Iterator[str]:
    """Yield paragraphs; list items, headings and rows of tables are paragraphs of their own."""
    block: list[str] = []
    for line in text.replace("\f", "\n").splitlines():
        # A page of a Chinese document may break its lines, and its paragraphs, anywhere.
        goes_on = bool(block) and bool(_UNFINISHED.search(block[-1]))
        if _BULLET.match(line) or not (line.strip() or goes_on):
            yield " ".join(block)
            block = []
        if line.strip():
            block.append(line)
    yield " ".join(block)


@cache
def documents() -> Mapping[str, Sequence[Sentence]]:
    """Return the sentences of all documents."""
    return {path.stem: _read(path) for path in sorted(FOLDER.glob("*.yaml"))}


@cache
def _read(path: Path) -> Sequence[Sentence]:
    entries = yaml.load(path.read_text(encoding="utf-8"), UniqueKeys)
    if isinstance(entries, list):
        return _sentences(path.stem, 1, entries)
    return _changed(path.stem, _read(FOLDER / f"{entries['base']}.yaml"), entries["changes"])


def _sentences(document: str, first: int, entries: Sequence[Mapping[str, Any]]) -> list[Sentence]:
    return [
        Sentence(document, number, quote, tuple(by or ()))
        for number, entry in enumerate(entries, first)
        for quote, by in entry.items()
    ]


def _changed(name: str, base: Sequence[Sentence], changes: Sequence[Any]) -> Sequence[Sentence]:
    """Return the sentences of a document that another does not have; the rest is the other's."""
    made: list[Sentence] = []
    done = 0
    for change in changes:
        made += base[done : change["at"] - 1]
        done = change["at"] - 1 + len(change.get("without", ()))
        left = [sentence.quote for sentence in base[change["at"] - 1 : done]]
        if left != change.get("without", []):
            raise ValueError(f"{name}, change at {change['at']}: the base has {left}")
        made += _sentences(name, len(made) + 1, change.get("with", ()))
    return [*made, *base[done:]]


@cache
def untestable() -> Mapping[tuple[str, int], str]:
    """Why a sentence, by document and number, cannot be tested."""
    found: dict[tuple[str, int], str] = {}
    for entry in yaml.safe_load(UNTESTABLE.read_text(encoding="utf-8")):
        for document, numbers in entry["sentences"].items():
            for part in str(numbers).split(","):
                first, _, last = part.strip().partition("-")
                for number in range(int(first), int(last or first) + 1):
                    found[document, number] = entry["reason"]
    return found


def differences(name: str, text: str) -> Iterator[str]:
    """Where the document and what is kept of it differ."""
    kept, there = documents()[name], split(text)
    if len(kept) != len(there):
        yield f"{name} has {len(there)} sentences, {len(kept)} are kept"
    for number, (sentence, whole) in enumerate(zip(kept, there, strict=False), 1):
        # Texts that are else the same differ in full stops.
        if sentence.quote.rstrip(".") != whole[:QUOTED].rstrip("."):
            yield f"{name}, sentence {number}: {whole[:QUOTED]!r}, kept {sentence.quote!r}"
            break
    plain = _bare(text)
    for slug, requirement in catalogue().items():
        for part in requirement.clause.split("[…]") if requirement.source == name else ():
            if _bare(part) not in plain:
                yield f"{slug} quotes what is not in {name}: {part.strip()!r}"


def _bare(text: str) -> str:
    """Return letters and digits only: line ends, markup and quotation marks may differ."""
    return re.sub(r"[\W_]+", "", text)


def main() -> int:
    """``python -m tests.sentences seed-000=FILE …``: what has changed in these documents."""
    found = 0
    for argument in sys.argv[1:]:
        name, _, path = argument.partition("=")
        for difference in differences(name, Path(path).read_text(encoding="utf-8")):
            print(difference)
            found += 1
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
