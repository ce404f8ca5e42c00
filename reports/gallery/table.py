"""The tables of the gallery: the code that was run, and how it fared."""

from __future__ import annotations

from collections.abc import Iterable

from reports.results import Results

_HEAD = ("language", "code", "changes", "verdict", "must broken", "tested", "run")


def table(kind: str, all_results: Iterable[Results]) -> str:
    """Return the table as Markdown, a row a result; ``kind``: what they are of."""
    head = (kind, *_HEAD)
    rows = [head, ("---",) * len(head), *map(_row, all_results)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def short_table(all_results: Iterable[Results]) -> str:
    """Return a table for the README: the first result of each server, the best server first."""
    first: dict[str, Results] = {}
    for results in all_results:
        first.setdefault(results.target.label, results)
    found = sorted(first.values(), key=lambda one: _met(one) / one.verdict.applicable, reverse=True)
    rows = [("server", "language", "must requirements met", "broken"), ("---",) * 4]
    rows += [_short_row(results) for results in found]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _short_row(results: Results) -> tuple[str, str, str, str]:
    verdict, source = results.verdict, results.labels.get("source", "")
    name = f"{results.target.label} {results.target.version}".removesuffix(" unknown").strip()
    met = f"{_met(results)} of {verdict.applicable}"
    linked = f"[{name}]({source})" if source else name
    return linked, results.labels.get("language", ""), met, str(verdict.must_broken)


def _met(results: Results) -> int:
    return results.verdict.tested - results.verdict.must_broken


def _row(results: Results) -> tuple[str, ...]:
    labels, verdict, target = results.labels, results.verdict, results.target
    # The title of a client library has no version.
    name = f"{target.name} {target.version}" if target.is_client else target.name
    return (
        f"`{name}`",
        labels.get("language", ""),
        _code(labels.get("source", ""), labels.get("commit", "")),
        labels.get("changes", ""),
        verdict.word,
        str(verdict.must_broken),
        f"{verdict.tested} of {verdict.applicable}",
        f"{results.run.seconds:.0f} s, {results.run.date:%Y-%m-%d}",
    )


def _code(source: str, commit: str) -> str:
    if source and not commit:
        return f"[{source.partition('github.com/')[2]}]({source})"
    return f"[{commit[:12]}]({source}/tree/{commit})" if source else "here"
