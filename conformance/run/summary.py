"""The summary at the end of a run, and its exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.catalogue import catalogue
from conformance.run.aggregation import Result, Tally
from conformance.run.attribution import attribute
from conformance.run.baseline import (
    BaselineError,
    KnownDeviation,
    changes,
    write_baseline,
)
from conformance.run.identity import named, spoken
from conformance.run.observation import Observation, observation_of
from conformance.target.sanitizers import different
from conformance.target.traits import Traits
from conformance.target.vitals import Vitals
from reference_server.profiles import NEWEST
from reports.results import SourceCoverage, Test, WorldRecord
from reports.verdicts import Verdict

REMARKS = "remarks"
"""The key of the remarks that a worker process transfers when it ends."""
_SHORT = {Verdict.NON_STRICT: "n", Verdict.INCONCLUSIVE: "i", Verdict.NOT_TESTABLE: "u"}


class Summary:
    """Collects the reports of all tests, of all processes, and what they carry.

    ``baseline`` is by slug; what was found is written to ``update``, if that is given.
    """

    def __init__(
        self,
        baseline: Mapping[str, KnownDeviation],
        update: Path | None = None,
        source: Callable[[], SourceCoverage | None] = lambda: None,
    ) -> None:
        self._baseline = baseline
        self._update = update
        self.source = source
        """Gives the coverage of the target's source, once all servers have ended."""
        self.traits: Traits | None = None
        """The survey of the target, once that is made."""
        self.reports: list[pytest.TestReport] = []
        self._observations: list[Observation] = []
        self._tests: list[Test] = []
        """The results of the tests before attribution, which compares all of them."""
        self._blocked: list[dict[str, str]] = []
        self._has_stopped = self._was_ended_by_xdist = False
        self.remarks: list[str] = []
        """The reports that servers have printed when they were ended, in words."""
        self.not_kept = ""
        """Why the baseline could not be written, empty if it was."""
        self.kept = ""
        """The changes of the baseline that was written."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if (observation := observation_of(report)) is not None:
            self.reports.append(report)
            self._observations.append(observation)
            self._tests.append(observation.test)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        """Give deviations that do not fail the run names of their own."""
        observation = observation_of(report) if report.skipped else None
        if observation is None:
            return None
        if observation.test.known:
            return "known", "k", ("KNOWN", {"yellow": True})
        verdict = observation.test.verdict
        # pytest puts a number before the word, which must fit one and many.
        word = "de-facto" if verdict is Verdict.NON_STRICT else verdict.value
        return word, _SHORT.get(verdict, "s"), (word.upper(), {"yellow": True})

    def tally(self) -> Tally:
        """Return the verdicts of all requirements."""
        target = self.observations[0].target if self.observations else None
        name = "nothing" if target is None else target.name if target.dialect else named(target)
        profile = target.stage if target else NEWEST.name
        selected = self._has_stopped or any(o.selected for o in self.observations)
        tally = Tally(
            *(catalogue(), self._baseline, name, profile, selected, self.worlds()),
            dialect=spoken(target),
        )
        tally.add(
            Result(observation.test, blocked, observation.kind)
            for observation, blocked in zip(self.observations, self.blocked(), strict=True)
        )
        return tally

    @property
    def version(self) -> str:
        """The version that the target reports."""
        return self.observations[0].target.version if self.observations else ""

    @property
    def observations(self) -> list[Observation]:
        """The findings up to now, in the order of ``reports``."""
        self._settle()
        return self._observations

    def blocked(self) -> list[dict[str, str]]:
        """Return for each test which of its requirements are blocked, and by which others."""
        self._settle()
        return self._blocked

    def _settle(self) -> None:
        """Attribute the failures so far: update the observations and blocked requirements."""
        if len(self._blocked) == len(self._observations):
            return
        stage = self._observations[0].target.stage
        attributed = attribute(
            self._tests,
            [observation.blame for observation in self._observations],
            lambda slug: catalogue()[slug].judged_by(stage).level == "must",
        )
        self._observations = [
            replace(observation, test=found.test)
            for observation, found in zip(self._observations, attributed, strict=True)
        ]
        self._blocked = [dict(found.blocked) for found in attributed]

    def is_excused(self, number: int) -> bool:
        """Tell whether all requirements of a test are known deviations, or blocked."""
        observation, blocked = self.observations[number], self.blocked()[number]
        return observation.is_known(self._baseline, except_for=blocked)

    def is_blocked(self, number: int) -> bool:
        """Tell whether all requirements of a test are blocked."""
        return set(self.blocked()[number]) == set(self.observations[number].test.requirements)

    def worlds(self) -> list[WorldRecord]:
        """Return the small worlds that were visited."""
        return [world for observation in self.observations for world in observation.worlds]

    def health(self) -> list[str]:
        """Return the remarks on the target's health, which change no verdict."""
        said = (line for observation in self.observations for line in observation.health)
        # Each process has servers of its own, which report the same.
        return different([*said, *self.remarks])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a process has to say of the servers that it has ended."""
        self.remarks += getattr(node, "workeroutput", {}).get(REMARKS, [])

    def vitals(self) -> Vitals | None:
        """Return what the servers took that the suite has started, together; None if none."""
        looks = [look for observation in self.observations for look in observation.vitals]
        cpu: dict[int, float] = {}
        for look in looks:
            cpu[look.pid] = max(look.cpu, cpu.get(look.pid, 0.0))
        if not looks:
            return None
        memory = max(look.memory for look in looks)
        descriptors = max(look.descriptors for look in looks)
        return Vitals(looks[0].pid, memory, descriptors, round(sum(cpu.values()), 2))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note whether it is pytest-xdist that has raised this, as ``-x`` and losses have it."""
        self._was_ended_by_xdist = excinfo.type.__module__.startswith("xdist.")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        ended = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        stops = session.shouldstop or session.shouldfail
        self._has_stopped = bool(stops) or session.exitstatus not in ended
        if self._was_ended_by_xdist and session.testsfailed:
            # As without -n: a failure, not the user, has ended the run.
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self._update is not None:
            tally = self.tally()
            updated = tally.updated_baseline()
            try:
                write_baseline(self._update, updated)
            except BaselineError as error:
                self.not_kept = str(error)
                if session.exitstatus == pytest.ExitCode.OK:
                    session.exitstatus = pytest.ExitCode.USAGE_ERROR
                return
            self.kept = f"baseline {self._update}: {changes(self._baseline, updated)}"
            if session.exitstatus == pytest.ExitCode.TESTS_FAILED and tally.is_complete():
                session.exitstatus = pytest.ExitCode.OK
            return
        if session.exitstatus == pytest.ExitCode.TESTS_FAILED and self._all_excused(session):
            session.exitstatus = pytest.ExitCode.OK
        if self.reports and self.tally().gone() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _all_excused(self, session: pytest.Session) -> bool:
        """Return whether every failed test is excused: by known deviations, or as blocked."""
        failed = [number for number, report in enumerate(self.reports) if report.failed]
        return 0 < len(failed) == session.testsfailed and all(map(self.is_excused, failed))
