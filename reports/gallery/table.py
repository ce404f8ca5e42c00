"""The table of all servers of the gallery: the code that was run, and how it fared."""

from __future__ import annotations

from collections.abc import Iterable

from reports.results import Results

_HEAD = ("server", "language", "code", "changes", "verdict", "must broken", "tested", "run")


def server_table(all_results: Iterable[Results]) -> str:
    """Return the table as Markdown, a row a result."""
    rows = [_HEAD, ("---",) * len(_HEAD), *map(_row, all_results)]
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
    labels, verdict = results.labels, results.verdict
    return (
        f"`{results.target.name}`",
        labels.get("language", ""),
        _code(labels.get("source", ""), labels.get("commit", "")),
        labels.get("changes", ""),
        verdict.word,
        str(verdict.must_broken),
        f"{verdict.tested} of {verdict.applicable}",
        f"{results.run.seconds:.0f} s, {results.run.date:%Y-%m-%d}",
    )


def _code(source: str, commit: str) -> str:
    return f"[{commit[:12]}]({source}/tree/{commit})" if source and commit else "here"
