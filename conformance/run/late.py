"""Reports on tests that were over when it was seen that they had ended the target."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.run.summary import properties


class Late:
    """Takes such reports out of those of later tests, wherever these have run."""

    def __init__(self, config: pytest.Config) -> None:
        self._hook = config.hook

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told: list[dict[str, Any]] = properties(report).get("late", [])
        for late in told if report.when == "call" else ():
            again = pytest.TestReport(**late, keywords={}, when="call")
            self._hook.pytest_runtest_logreport(report=again)
