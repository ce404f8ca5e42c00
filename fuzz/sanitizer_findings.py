"""Sanitizer reports of a fuzzed target: each stack once, with a small program."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

from conformance.random_testing.delta_debugging import OutOfTime, without_steps
from conformance.random_testing.shrink_budget import ShrinkBudget
from conformance.random_testing.steps import Program
from conformance.run.sanitizer_reports import remarks
from conformance.target.sanitizers import SanitizerReport
from conformance.target.target import Target
from fuzz.coverage import NoCoverage
from fuzz.scout import Scout, TargetFellSilent
from fuzz.undefined_input import transcript_of

_TRIES = 150
"""Times that a program is played, on a new server, to make it small."""


class Reports:
    """The reports of a target's sanitizers; ``remark_of`` has a sentence for each kind.

    Each is kept in ``folder``, if there is one, with the smallest program found that makes a new
    server print it.
    """

    def __init__(self, target: Target, folder: Path | None, effort: ShrinkBudget) -> None:
        self.remark_of: dict[str, str] = {}
        self._target = target
        self._folder = folder
        self._effort = effort
        self._done: Program = ()

    def hear(self, reports: Sequence[SanitizerReport], program: Program) -> None:
        """Take in what was printed while a program was played."""
        for report in reports:
            if report.kind not in self.remark_of:
                with self._effort.spent(self._target.cpu_time):
                    self.remark_of[report.kind] = self._remark(report, program)

    def _remark(self, report: SanitizerReport, program: Program) -> str:
        if self._folder is None:
            return f"the target has printed: {report.head}"
        again = report.kind in self._printed(self._smallest(report.kind, program))
        (remark,) = remarks([report], transcript_of(self._done), self._folder)
        return remark if again else f"{remark}; a new server did not print it again"

    def _smallest(self, kind: str, program: Program) -> Program:
        """Shrink a program that makes a new server print it; it may become empty, or stay whole."""
        left = iter(range(_TRIES))

        def shows(fewer: Program) -> bool:
            if next(left, None) is None or not self._effort.remaining:
                raise OutOfTime
            return kind in self._printed(fewer)

        # Nothing after it is needed: the report is printed soon.
        ends = range(len(program))
        with contextlib.suppress(OutOfTime):
            program = program[: bisect_left(ends, True, key=lambda end: shows(program[:end]))]
        return without_steps(program, shows) if program else program

    def _printed(self, program: Program) -> set[str]:
        """Return the kinds of reports that a new server prints for a program, and at its end."""
        target = self._target.fresh()
        target.reported_kinds = set()
        player = Scout(target, NoCoverage())
        # Its reports say why it was lost.
        with contextlib.suppress(TargetFellSilent):
            player.play(program)
        self._done = player.done
        player.close()
        target.close()
        return {report.kind for report in target.reported()}
