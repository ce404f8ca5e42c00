"""``--report``: writes results.json and everything that is made from it."""

from __future__ import annotations

import math
import platform
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conformance.run.evidence import SHORT, clean
from conformance.run.labels import labels_of, parsed
from conformance.run.options import Options
from conformance.run.result_records import requirement_record, test_records
from conformance.run.summary import Summary
from conformance.target.traits import Traits, answer_of
from conformance.version import suite_version
from reference_server.commands import COMMANDS
from reports import results as format
from reports.write import write_report

PER_DECADE = 10
"""Buckets of measured durations; the first ends at a microsecond."""


class ReportWriter:
    """Writes the report of a run into a folder when all processes have ended.

    ``is_asked``: the user named the folder, so that a run without a report has failed.
    """

    def __init__(
        self, folder: Path, summary: Summary, options: Options, strict: bool, is_asked: bool
    ) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if is_asked:
                raise pytest.UsageError(
                    f"cannot write a report to {folder}: {error.strerror}"
                ) from None
        self._folder = folder
        self._is_asked = is_asked
        self._summary = summary
        self._options = options
        self._strict = strict
        self._begun = time.monotonic()
        self._said = ""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self._summary.observations:
            return
        try:
            results = self._results(int(session.exitstatus))
            write_report(results, self._folder)
        except OSError as error:
            if self._is_asked and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.USAGE_ERROR
            self._said = f"cannot write the report to {self._folder}: {error.strerror or error}"
        else:
            self._said = f"report: {self._folder / results.file('report.html')}"

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Write where the report is, as the last line of all."""
        if self._said and config.pluginmanager.has_plugin("terminalreporter"):
            config.get_terminal_writer().line(self._said)

    def _results(self, exit_code: int) -> format.Results:
        options, observations = self._options, self._summary.observations
        tally = self._summary.tally()
        return format.Results(
            suite=this_suite(),
            run=format.Run(
                date=now(),
                seconds=round(time.monotonic() - self._begun, 1),
                seed=options.seed,
                examples=options.examples,
                fuzz_time=options.fuzz_time,
                lateness=options.lateness,
                strict=self._strict,
                exit_code=exit_code,
                arguments=options.chosen,
            ),
            target=observations[0].target,
            verdict=tally.conclusion(),
            health=self._summary.health(),
            vitals=_vitals(self._summary),
            worlds=self._summary.worlds(),
            source=self._summary.source(),
            commands=_commands(self._summary.traits),
            labels={
                k: clean(v) for k, v in labels_of(parsed(options.labels), options.command).items()
            },
            gone=tally.gone(),
            requirements=[requirement_record(entry) for entry in tally.entries.values()],
            tests=sorted(test_records(self._summary), key=lambda test: test.id),
            timings=format.Timings(
                latency=measured(time for o in observations for time in o.latencies),
                lateness=measured(time for o in observations for time in o.latenesses),
            ),
        )


def _commands(traits: Traits | None) -> list[format.CommandTrait]:
    """Return what the survey has found out about the commands of the profile."""
    if traits is None or traits.defect is not None:
        return []
    commands = traits.profile.commands
    ordered = [verb for verb in COMMANDS if verb in commands]
    ordered += sorted(commands.difference(ordered))
    failures = {verb: traits.unusable.get(verb) for verb in ordered}
    return [
        format.CommandTrait.model_validate(
            {
                "name": verb,
                "answer": "works" if failure is None else answer_of(failure),
                "observed": "" if failure is None else clean(failure.observed, SHORT),
            }
        )
        for verb, failure in failures.items()
    ]


def _vitals(summary: Summary) -> format.VitalsRecord | None:
    vitals = summary.vitals()
    return format.VitalsRecord.model_validate(vitals._asdict()) if vitals else None


def this_suite() -> format.SuiteRecord:
    """Return the suite that runs, and where."""
    return format.SuiteRecord(
        version=suite_version(),
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
    )


def now() -> datetime:
    """Return the time as results have it."""
    return datetime.now(UTC).replace(microsecond=0)


def measured(durations: Iterable[float]) -> format.Measured | None:
    """Return the distribution of durations in seconds, None if there are none."""
    times = sorted(durations)
    if not times:
        return None
    counts = Counter(_bucket(time) for time in times)
    return format.Measured(
        count=len(times),
        median=_quantile(times, 0.5),
        p90=_quantile(times, 0.9),
        p99=_quantile(times, 0.99),
        longest=_rounded(times[-1]),
        buckets=[
            format.Bucket(upto=_rounded(10 ** (number / PER_DECADE - 6)), count=counts[number])
            for number in sorted(counts)
        ],
    )


def _bucket(seconds: float) -> int:
    return max(0, math.ceil(PER_DECADE * (math.log10(max(seconds, 1e-9)) + 6)))


def _quantile(times: Sequence[float], share: float) -> float:
    return _rounded(times[math.ceil(share * len(times)) - 1])


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.3g}")
