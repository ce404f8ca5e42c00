"""Selection: all tests of the suite, or only those that somebody has chosen."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

from conformance.run.suite import Suite, slugs

NOTHING = "no test of the suite is selected: look at -k and -m"


class Selection:
    """Sees that tests are left out; ``is_worker``: another process tells of it."""

    def __init__(self, suite: Suite, is_worker: bool) -> None:
        self._suite = suite
        self._is_worker = is_worker

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
