"""The summary at the end of a run, and its exit status."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.catalogue import catalogue
from conformance.run.aggregation import Result, Tally
from conformance.run.baseline import BaselineError, Known, is_known, write_baseline
from conformance.run.blocking import Outcome, blockers
from conformance.run.step import Step
from conformance.run.suite import named
from reference_server.profiles import NEWEST
from reports.verdicts import Verdict

_SHORT = {Verdict.NON_STRICT: "n", Verdict.INCONCLUSIVE: "i", Verdict.NOT_TESTABLE: "u"}


def properties(report: pytest.TestReport) -> dict[str, Any]:
    """Return the properties that our tests give to their reports."""
    return dict(report.user_properties)


def _outcome(report: pytest.TestReport) -> Outcome:
    said = properties(report)
    step = Step.decode(said["step"]) if "step" in said else None
    return Outcome(said["requirements"], Verdict(said["verdict"]), step)


class Summary:
    """Collects the reports of all tests, of all processes, in ``reports``.

    ``baseline`` is by slug; what was found is written to ``update``, if that is given.
    """

    def __init__(self, baseline: Mapping[str, Known], update: Path | None = None) -> None:
        self._baseline = baseline
        self._update = update
        self.reports: list[pytest.TestReport] = []
        self._blocked: list[dict[str, str]] = []
        self._has_stopped = False
        self.not_kept = ""
        """Why the baseline could not be written, empty if it was."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and "verdict" in properties(report):
            self.reports.append(report)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        """Gives deviations that do not fail the run names of their own."""
        said = properties(report) if report.when == "call" else {}
        verdict = said.get("verdict")
        if verdict is None or not report.skipped:
            return None
        if said.get("known"):
            return "known", "k", ("KNOWN", {"yellow": True})
        return verdict, _SHORT.get(verdict, "s"), (verdict.upper(), {"yellow": True})

    def tally(self) -> Tally:
        """The verdicts of all requirements."""
        said = [properties(report) for report in self.reports]
        target = said[0]["target"] if said else {}
        name = named(target) if said else "nothing"
        profile = target.get("profile", NEWEST.name)
        selected = self._has_stopped or any(one["selected"] for one in said)
        tally = Tally(catalogue(), self._baseline, name, profile, selected)
        results = zip(said, self.blocked(), strict=True)
        tally.add(
            Result(s["requirements"], Verdict(s["verdict"]), s["reason"], b) for s, b in results
        )
        return tally

    def blocked(self) -> list[dict[str, str]]:
        """Return for each report which of its requirements are blocked, and by which others."""
        if len(self._blocked) < len(self.reports):
            self._blocked = [{} for _ in self.reports]
            for (number, slug), other in blockers([_outcome(r) for r in self.reports]).items():
                self._blocked[number][slug] = other
        return self._blocked

    def is_excused(self, number: int) -> bool:
        """Whether all that a test is about is known to be wrong, or blocked."""
        said, blocked = properties(self.reports[number]), self.blocked()[number]
        return all(
            slug in blocked or is_known(self._baseline, slug, said["verdict"])
            for slug in said["requirements"]
        )

    def is_blocked(self, number: int) -> bool:
        """Whether all that a test is about is blocked."""
        return set(self.blocked()[number]) == set(properties(self.reports[number])["requirements"])

    def health(self) -> list[str]:
        """Return the remarks on the target's health, which change no verdict."""
        said = (line for report in self.reports for line in properties(report)["health"])
        return list(dict.fromkeys(said))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        ended = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        stops = session.shouldstop or session.shouldfail
        self._has_stopped = bool(stops) or session.exitstatus not in ended
        if self._update is not None:
            tally = self.tally()
            try:
                write_baseline(self._update, tally.updated_baseline())
            except BaselineError as error:
                self.not_kept = str(error)
                if session.exitstatus == pytest.ExitCode.OK:
                    session.exitstatus = pytest.ExitCode.USAGE_ERROR
                return
            if session.exitstatus == pytest.ExitCode.TESTS_FAILED and tally.is_complete():
                session.exitstatus = pytest.ExitCode.OK
            return
        if session.exitstatus == pytest.ExitCode.TESTS_FAILED and self._all_excused(session):
            session.exitstatus = pytest.ExitCode.OK
        if self.reports and self.tally().gone() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _all_excused(self, session: pytest.Session) -> bool:
        """Whether nothing has failed but tests that are blocked by what is known."""
        failed = [number for number, report in enumerate(self.reports) if report.failed]
        return 0 < len(failed) == session.testsfailed and all(map(self.is_excused, failed))
