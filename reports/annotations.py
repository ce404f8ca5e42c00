"""Annotations of a GitHub job: the deviations of a run, where people look at the job.

``python -m reports.annotations RESULTS [BASELINE]`` prints them; a job shows ten of a kind.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from reports.grouping import Group, grouped
from reports.results import Results, ResultsError, read_results
from reports.verdicts import Verdict

MOST = 10
"""Annotations of a kind; what a job has more of is not shown."""
_Annotation = tuple[Mapping[str, str], str]
"""Properties and text."""
_ESCAPED = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTIES = {**_ESCAPED, ":": "%3A", ",": "%2C"}


def annotated(results: Results, baseline: Path | None = None) -> Iterator[str]:
    """Yield a line for each cause that is not known, and for what is known and gone.

    Of these, ``baseline`` is annotated, at the line that is to be taken out.
    """
    new = [g for g in grouped(results.requirements, results.tests) if not g.known]
    fails = [g for g in new if results.run.strict or g.verdict is not Verdict.NON_STRICT]
    loose = [g for g in new if g not in fails]
    gone = [_of_gone(slug, baseline) for slug in results.gone]
    yield from _listed("error", [*gone, *map(_of, fails)])
    yield from _listed("warning", [_of(group) for group in loose])


def _of(group: Group) -> _Annotation:
    text = f"{group.broken[0].clause}\n{group.tests[0].reason}"
    return {"title": f"{group.verdict.words}: {group.title}"}, text


def _of_gone(slug: str, baseline: Path | None) -> _Annotation:
    where = {}
    if baseline is not None:
        lines = baseline.read_text(encoding="utf-8").splitlines()
        begins = re.compile(rf"[\"']?{re.escape(slug)}\b")
        found = [number for number, line in enumerate(lines, 1) if begins.match(line)]
        where = {"file": baseline.as_posix(), "line": str(found[0] if found else 1)}
    text = f"{slug}: known deviation not found any more, take it out of the baseline"
    return {**where, "title": f"gone: {slug}"}, text


def _listed(kind: str, entries: Sequence[_Annotation]) -> Iterator[str]:
    shown = entries if len(entries) <= MOST else entries[: MOST - 1]
    for properties, text in shown:
        where = ",".join(f"{k}={_escaped(v, _IN_PROPERTIES)}" for k, v in properties.items())
        yield f"::{kind} {where}::{_escaped(text, _ESCAPED)}"
    if left := len(entries) - len(shown):
        yield f"::{kind}::and {left} more, see the report"


def _escaped(text: str, table: Mapping[str, str]) -> str:
    """Escape the characters of a table, in its order: the one that escapes is the first."""
    for character, code in table.items():
        text = text.replace(character, code)
    return text


def main(argv: Sequence[str]) -> int:
    """Print the annotations of a file; return the exit code."""
    try:
        results = read_results(Path(argv[0]))
        for line in annotated(results, Path(argv[1]) if argv[1:] else None):
            print(line)
    except (ResultsError, OSError) as error:
        print(f"::error::{_escaped(str(error), _ESCAPED)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
