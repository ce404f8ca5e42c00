"""The selection of tests: all of the suite, or those that the user chose."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

from conformance.run.suite import Suite, needs, slugs
from reports.grouping import is_rare

LEFT_OUT = "random conversations, exhaustion, endurance, restarts, clock changes and equal timers"
NOTHING = "no test of the suite is selected: look at -k and -m"


class Selection:
    """Selects tests; ``is_worker``: another process prints what was left out.

    ``quick``: what takes long is left out.
    """

    def __init__(self, suite: Suite, is_worker: bool, quick: bool) -> None:
        self._suite = suite
        self._is_worker = is_worker
        self._quick = quick

    def pytest_report_header(self) -> list[str]:
        return [f"quick: {LEFT_OUT} are left out"] if self._quick else []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if not self._quick:
            return
        kept: list[pytest.Item] = []
        long: list[pytest.Item] = []
        for item in items:
            (long if _takes_long(item) else kept).append(item)
        items[:] = kept
        config.hook.pytest_deselected(items=long)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._suite.selected |= any(slugs(item) for item in items)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self, session: pytest.Session) -> Generator[None, object, object]:
        collected = yield
        if self._suite.selected and not session.items and not self._is_worker:
            raise pytest.UsageError(NOTHING)
        return collected

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """End with a message where workers have collected no test: only their number is known."""
        nothing = session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
        if self._suite.options.names_server and nothing and not self._is_worker:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
            sys.stderr.write(f"ERROR: {NOTHING}\n")


def _takes_long(item: pytest.Item) -> bool:
    return needs(item, "exploration") or any(map(is_rare, slugs(item)))
