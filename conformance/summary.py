"""What a run says at its end, and whether its gate opens."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import pytest

from conformance.baseline import Known


def _properties(report: pytest.TestReport) -> dict[str, Any]:
    return dict(report.user_properties)


class Summary:
    """Collects the reports of all tests, of all processes; ``baseline`` is by slug."""

    def __init__(self, baseline: Mapping[str, Known]) -> None:
        self._baseline = baseline
        self._reports: list[pytest.TestReport] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self._reports.append(report)

    def _gone(self) -> list[str]:
        """The known deviations that were looked for and not found."""
        outcomes: defaultdict[str, set[str]] = defaultdict(set)
        for report in self._reports:
            for slug in _properties(report).get("requirements", []):
                outcomes[slug].add(report.outcome)
        return [
            slug
            for slug, known in self._baseline.items()
            if outcomes[slug] == {"passed"} and not known.flaky
        ]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._gone() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for line in (*self._not_tested(), *self._waited(), *self._known()):
            terminalreporter.write_line(line)

    def _not_tested(self) -> list[str]:
        reasons = Counter(
            report.longrepr[2].removeprefix("Skipped: ")
            for report in self._reports
            if report.skipped and isinstance(report.longrepr, tuple)
        )
        return [f"{count} tests {reason}" for reason, count in sorted(reasons.items())]

    def _waited(self) -> list[str]:
        waits = [_properties(report) for report in self._reports]
        longest = max((wait.get("longest_wait", 0.0) for wait in waits), default=0.0)
        if not longest:
            return []
        waited = sum(wait["waited"] for wait in waits if wait.get("longest_wait"))
        return [
            f"real clock: the longest single wait was {longest:g} s,"
            f" {waited:g} s of waiting were overlapped"
        ]

    def _known(self) -> list[str]:
        return [
            f"known deviation not found any more, take it out of the baseline: {slug}"
            for slug in self._gone()
        ]
