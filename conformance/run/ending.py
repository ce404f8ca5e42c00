"""The end of a run: our summary in place of pytest's."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from conformance.run.summary import Summary
from reports.verdicts import Verdict


class Ending:
    """Replaces pytest's report of each failure by one report of each cause."""

    def __init__(self, summary: Summary) -> None:
        self._summary = summary

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, object, object]:
        summary, stats = self._summary, terminalreporter.stats
        ours = {id(report): number for number, report in enumerate(summary.reports)}
        failed = stats.get("failed", [])
        stats["failed"] = [report for report in failed if id(report) not in ours]
        try:
            return (yield)
        finally:
            # Now pytest counts them, which is all that it does.
            for name in ("failed", Verdict.NON_STRICT):
                reports = failed if name == "failed" else stats.pop(name, [])
                stats[name] = []
                for report in reports:
                    stats.setdefault(self._category(name, ours.get(id(report))), []).append(report)
            for name in [name for name, reports in stats.items() if not reports]:
                del stats[name]
            if summary.reports:
                # It takes long to import, and any pytest on this machine loads us.
                from conformance.run.terminal import print_summary

                print_summary(summary, terminalreporter)

    def _category(self, name: str, number: int | None) -> str:
        """Return the final category of a report: ``name``, or blocked or known if it is excused."""
        if number is None or not self._summary.is_excused(number):
            return name
        return "blocked" if self._summary.is_blocked(number) else "known"
