"""Results in folders: found, read, and shortened to fit on pages."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reports.results import Evidence, Results, ResultsError, Test, content_of, read_results
from reports.scale import Scale, read_scale
from reports.slugs import shortened

LONGEST_TEXT = 5_000
"""Characters of a text that are shown."""
LONGEST_TRANSCRIPT = 400
"""Lines of a transcript that are shown: the last ones."""
_OURS, _SCALE = (kind.model_fields["format"].default for kind in (Results, Scale))
"""The formats that files of results, and of measurements of growth, name."""


@dataclass(slots=True)
class Collection:
    """The files in folders, one after the other: results, measurements of growth, and others.

    ``others`` are JSON of other formats.
    """

    folders: Sequence[Path]
    measurements: list[Scale] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)

    def read(self) -> Iterator[Results]:
        """Yield the results, and keep the rest.

        Raises :class:`ResultsError` for the first results or measurements that cannot be read.
        """
        found = 0
        for path in self._files():
            try:
                results = read_results(path)
            except ResultsError:
                found_format = _format(path)
                if found_format in (None, _OURS):
                    raise
                if found_format == _SCALE:
                    self.measurements.append(read_scale(path))
                else:
                    self.others.append(path)
            else:
                found += 1
                yield _cut(results)
        if not found:
            where = ", ".join(map(str, self.folders))
            but = f", but {self.others[0]} is none" if self.others else ""
            raise ResultsError(f"there is no results.json in {where}{but}")

    def _files(self) -> Iterator[Path]:
        """Yield each file once, as links may lead to it again."""
        known = set()
        for folder in self.folders:
            for path in _below(folder):
                if path.is_file() and path.resolve() not in known:
                    known.add(path.resolve())
                    yield path


def _below(folder: Path) -> Iterator[Path]:
    """Yield the JSON files in a folder and below, compressed or not, by name; none is hidden."""

    def refuse(error: OSError) -> None:
        raise ResultsError(f"cannot read {error.filename}: {error.strerror}") from None

    for here, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith((".json", ".json.gz")) and not name.startswith("."):
                yield Path(here, name)


def _format(path: Path) -> str | None:
    """Return the format that a JSON file names, empty if it names none; None if it is no JSON."""
    try:
        content = json.loads(content_of(path))
    except (ResultsError, ValueError, RecursionError):
        return None
    return str(content.get("format", "")) if isinstance(content, dict) else ""


def _cut(results: Results) -> Results:
    """Return results whose longest texts are cut; these are in the file."""
    tests = [_cut_test(test) for test in results.tests]
    requirements = [
        requirement.model_copy(
            update={
                "clause": shortened(requirement.clause, LONGEST_TEXT),
                "reason": shortened(requirement.reason, LONGEST_TEXT),
            }
        )
        for requirement in results.requirements
    ]
    return results.model_copy(update={"tests": tests, "requirements": requirements})


def _cut_test(test: Test) -> Test:
    return test.model_copy(
        update={
            "id": shortened(test.id, LONGEST_TEXT),
            "reason": shortened(test.reason, LONGEST_TEXT),
            "evidence": _cut_evidence(test.evidence) if test.evidence else None,
        }
    )


def _cut_evidence(evidence: Evidence) -> Evidence:
    texts = ("expected", "observed", "said", "reproduce")
    changes: dict[str, object] = {
        name: shortened(getattr(evidence, name), LONGEST_TEXT) for name in texts
    }
    lines = [shortened(line, LONGEST_TEXT) for line in evidence.transcript[-LONGEST_TRANSCRIPT:]]
    if left := len(evidence.transcript) - len(lines):
        lines.insert(0, f"… {left:,} lines before")
    return evidence.model_copy(update=changes | {"transcript": lines})
