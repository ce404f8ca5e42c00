"""Writes all files of a report from results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reports.badge import endpoint, svg
from reports.comparison import ResultsComparison, ResultsDifference
from reports.files import replace
from reports.html import comparison_page, overview_image, report_page
from reports.junit import junit
from reports.markdown import comparison_text, difference_text, report_text
from reports.results import Results


def write_report(results: Results, folder: Path, origin: Path | None = None) -> None:
    """Write results.json and what is made from it; raises OSError.

    Whole transcripts are taken from ``origin``, if they are not there already.
    """
    names = {test.evidence.kept for test in results.tests if test.evidence} - {""}
    for name in sorted(names):
        if origin is not None and (origin / name).is_file() and not (folder / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            replace(folder / name, (origin / name).read_bytes())
    kept = {name for name in names if (folder / name).is_file()}
    files = {
        "results.json": results.encode(),
        "report.html": report_page(results, kept),
        "report.md": report_text(results),
        "summary.md": report_text(results, linked=False),
        "junit.xml": junit(results),
        "overview.svg": overview_image(results),
        "badge.svg": svg(results),
        "badge.json": endpoint(results),
    }
    _write(folder, {results.file(name): text for name, text in files.items()})


def write_comparison(all_results: Sequence[Results], folder: Path) -> None:
    """Write a matrix of several results, and what has changed between them if there are two.

    Raises OSError.
    """
    comparison = ResultsComparison.of(all_results)
    files = {
        "comparison.html": comparison_page(comparison),
        "comparison.md": comparison_text(comparison),
    }
    if len(all_results) == 2:
        before, after = all_results
        files["difference.md"] = difference_text(ResultsDifference.between(before, after))
    _write(folder, files)


def _write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        replace(folder / name, text.encode())
