"""The progress line on a terminal: the running test, the share done, the time."""

from __future__ import annotations

import math
import os
import shutil
import threading
import time
from collections.abc import Generator, Sequence
from typing import Any, TextIO

import pytest

from conformance.run.observation import observation_of
from conformance.run.suite import slugs
from reports.results import CauseRecord

EVERY = 0.2
"""Seconds between two looks."""

CAUSES = 10
"""Deviations that are shown as they come."""

NAME = "conformance-progress"
"""The plugin that writes a line anew."""

Status = tuple[str, str, object]


class ProgressLine:
    """One line that is written anew, in place of dots; deviations are lines above it.

    Each cause is printed once, up to a limit, as all of them are in the summary.
    ``has_target``: the tests are ours, even if other processes collect them.
    """

    def __init__(self, reporter: Any, has_target: bool) -> None:
        self._has_target = has_target
        self._reporter = reporter
        self._total = 0
        self._done = 0
        self._running: dict[str, None] = {}
        self._causes: set[CauseRecord | str] = set()
        self._begun = time.monotonic()
        self._terminal: TextIO | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items and all(slugs(item) for item in session.items):
            self._begin(len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Sequence[str]) -> None:
        if self._has_target:
            self._begin(len(ids))

    def _begin(self, total: int) -> None:
        if self._terminal is None:
            try:
                # Standard output is captured while tests run.
                self._terminal = open("/dev/tty", "w", encoding="utf-8")
            except OSError:
                return
            self._total = total
            self._reporter.showfspath = False
            threading.Thread(target=self._draw_on, daemon=True).start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> Generator[None, Status, Status]:
        status = yield
        # Without letter and word, the reporter counts it and prints nothing.
        return (status[0], "", "") if self._terminal and status else status

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" or self._terminal is None:
            return
        self._running.pop(report.nodeid, None)
        self._done += 1
        if (observation := observation_of(report)) is None:
            return
        test = observation.test
        cause = test.cause or report.nodeid
        is_news = cause not in self._causes and len(self._causes) < CAUSES
        if is_news and (report.failed or test.evidence is not None):
            self._causes.add(cause)
            with self._lock:
                self._clear()
                known = "known " if test.known else ""
                self._reporter.write_line(
                    f"{known}{test.verdict.words}: {test.requirements[0]}: {test.reason[:200]}"
                )

    def pytest_sessionfinish(self) -> None:
        self._over.set()
        with self._lock:
            if self._terminal is not None:
                self._clear()
                self._terminal.close()
                self._terminal = None

    def _clear(self) -> None:
        if self._terminal is not None:
            self._terminal.write("\r\x1b[K")
            self._terminal.flush()

    def _draw_on(self) -> None:
        while not self._over.wait(EVERY):
            with self._lock:
                if self._terminal is not None:
                    self._terminal.write(f"\r\x1b[K{self._line()}")
                    self._terminal.flush()

    def _line(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._begun), 60)
        running = next(reversed(list(self._running)), "")
        name = running.rpartition("::")[2].removeprefix("test_").replace("_", " ")
        line = f"{self._done}/{self._total}  {minutes}:{seconds:02d}  {name}"
        return line[: shutil.get_terminal_size().columns - 1]


class Dots:
    """The dots of all files in one block, where no line can be written anew."""

    def __init__(self, reporter: Any) -> None:
        self._reporter = reporter

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Leave out the names of files, of which each begins a line."""
        if self._reporter.verbosity == 0 and all(slugs(item) for item in session.items):
            self._reporter.showfspath = False


def dots(reporter: Any, tests: int) -> int:
    """Return how many lines the dots of so many tests have taken."""
    if reporter.config.pluginmanager.has_plugin(NAME):
        return 0
    width: int = reporter.config.get_terminal_writer().fullwidth
    return math.ceil(tests / (width - len(" [100%]") - 1))


def is_wanted(reporter: Any) -> bool:
    """Tell whether a person reads the output, in the usual format."""
    return bool(reporter and reporter.isatty and not os.environ.get("CI")) and (
        reporter.config.option.verbose == 0
    )
