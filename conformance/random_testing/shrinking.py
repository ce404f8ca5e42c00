"""Shrinks findings by delta debugging, first with short timeouts, then with longer ones."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

from conformance.oracle.underspecification import Lines
from conformance.random_testing.delta_debugging import OutOfTime, Shows, minimise, without_steps
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.levels import diagnosis_of
from conformance.random_testing.replay import Counterexample
from conformance.random_testing.steps import Ask, Leave, Program
from conformance.target.target import Target
from reference_server.commands import U64
from reference_server.profiles import Profile

SHORT_TIMEOUT = 0.03
"""Seconds after which a reply is missing, while a program is shrunk, at first."""
TRY, LONG_TRY = 0.15, 0.6
"""Seconds after which a smaller program is given up, if no time passes in it, and the whole."""
_TRIES = 2
"""Times a program must be tried at least, or it becomes no smaller."""
WHOLE = 10.0
"""Seconds after which the whole program is given up; a busy machine needs long for it."""


class _Pace(NamedTuple):
    """The way in which a finding is shrunk.

    ``timeout``: the seconds that a reply may take, and ``limit`` those of a whole conversation.
    ``keeps_must``: what breaks the text goes on breaking it. ``anew``: on a target that is started
    for each.
    """

    smaller: Callable[[Program, Shows], Program]
    timeout: float
    limit: float
    keeps_must: bool
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Reducer:
    """Shrinks a violation; ``looks``: statistics are checked at the end, too."""

    exploration: Exploration
    target: Target
    looks: bool = True

    def smallest(self, found: Counterexample) -> Counterexample:
        """Return the smallest form of a finding; itself, if it is not seen again."""
        with self.exploration.effort.spent(self.target.cpu_time):
            small = self._confirmed(self._shrunk(found), found)
            conclusive = self.exploration.most_severe(small, self.target, self.looks)
            if diagnosis_of(conclusive, self.exploration.profile).is_loosened:
                return conclusive
            # Without its open lines, less of the rest may be needed.
            if conclusive is small:
                return small
            return self._confirmed(self._shrunk(conclusive, keeps_must=True), conclusive)

    def _confirmed(self, small: Counterexample, found: Counterexample) -> Counterexample:
        """Return the smaller finding if it does not come from a short timeout, else the other."""
        if small is found or not small.violation.is_silence:
            return small
        return self._replayed(small.program, self.target.limits.reply, math.inf) or found

    def _shrunk(self, found: Counterexample, keeps_must: bool = False) -> Counterexample:
        """Shrink a finding; ``keeps_must``: it stays one that breaks the text."""
        # With short timeouts most of the way; on a busy machine, these may hide what is shown.
        timeout = self.target.short_timeout(SHORT_TIMEOUT)
        quickly = _Pace(minimise, timeout, max(TRY, 2 * timeout), keeps_must)
        smaller = self._reduced(found, quickly)
        if smaller is None:
            # It may depend on all that was sent to the target before.
            smaller = self._reduced(found, quickly._replace(anew=True)) or found
        return (
            self._reduced(smaller, _Pace(without_steps, self._short, LONG_TRY, keeps_must))
            or smaller
        )

    def _reduced(self, found: Counterexample, pace: _Pace) -> Counterexample | None:
        """Return what becomes of a finding at a pace; None if it is not seen again."""
        effort = self.exploration.effort
        # The work on the result gets its share of the time, too.
        left, start = effort.remaining, time.monotonic()
        if left < _TRIES * pace.limit:
            return None
        first = self._replayed(found.program, pace.timeout, min(WHOLE, left))
        pace = pace._replace(limit=max(pace.limit, time.monotonic() - start))

        def shows(program: Program) -> bool:
            if effort.remaining < left / 2:
                raise OutOfTime
            if has_quirk(program, self.exploration.profile):
                return False
            shown = self._replayed(program, pace.timeout, pace.limit, pace.anew)
            return self._is_good(shown, pace.keeps_must)

        program = pace.smaller(found.program, shows)
        if first is None and [*program] == [*found.program]:
            # Nor was anything smaller seen: the whole takes too long to look for it once more.
            return None
        shown = self._replayed(program, self._short, math.inf)
        return shown if self._is_good(shown, pace.keeps_must) else None

    @property
    def _short(self) -> float:
        return self.target.short_timeout()

    def _is_good(self, shown: Counterexample | None, keeps_must: bool) -> TypeGuard[Counterexample]:
        profile = self.exploration.profile
        return shown is not None and not (keeps_must and diagnosis_of(shown, profile).de_facto)

    def _replayed(
        self, program: Program, timeout: float, limit: float, anew: bool = True
    ) -> Counterexample | None:
        return self.exploration.replayed(self.target, program, timeout, limit, self.looks, anew)


def has_quirk(program: Program, profile: Profile) -> bool:
    """Return whether any client sends what no text and no decision covers."""
    readers: dict[int, Lines] = {}
    for step in program:
        if isinstance(step, Leave):
            readers.pop(step.client, None)
        elif isinstance(step, Ask):
            reader = readers.setdefault(step.client, Lines(profile))
            # Ids have up to 20 digits: what is too long with one may not be so with another.
            reader.read(step.text if step.job is None else step.text % U64)
            if reader.is_quirk or (step.job is not None and None in reader.lines):
                return True
    return False
