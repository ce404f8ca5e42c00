"""Belated reports: of tests that had finished before it was clear that they ended the target."""

from __future__ import annotations

from typing import Any

import pytest

_NAME = "late"
"""The property of the report of a later test that carries such a report."""


def belated_property(config: pytest.Config, report: pytest.TestReport) -> tuple[str, Any]:
    """Return the property that carries a report on an earlier test."""
    data = config.hook.pytest_report_to_serializable(config=config, report=report)
    return _NAME, data


class BelatedReports:
    """Unpacks belated reports from the reports of later tests, in whatever process these ran."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        hook = self._config.hook
        for name, data in report.user_properties:
            if name == _NAME:
                late = hook.pytest_report_from_serializable(config=self._config, data=data)
                hook.pytest_runtest_logreport(report=late)
