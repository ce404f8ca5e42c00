"""Programs, one after the other, until one shows a violation, which is then made small."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from random import Random
from typing import TypeGuard

from conformance.oracle.oracle import Violation
from conformance.oracle.underspecification import Lines
from conformance.random_testing.exploration import PATIENCE, Exploration
from conformance.random_testing.levels import diagnosis_of
from conformance.random_testing.replay import Finding, lost, told
from conformance.random_testing.session import Session
from conformance.random_testing.steps import Ask, Program, Step, take
from conformance.target.target import Target
from conformance.verdict import Inconclusive
from fuzz.minimise import OutOfTime, minimise, without_steps
from fuzz.player import second_gear
from fuzz.program import has_quirk
from reference_server.wire import CRLF

HASTE = 0.03
"""Seconds after which a reply is missing, while a program is made small, at first."""
TRY, LONG_TRY = 0.15, 0.6
"""Seconds after which a smaller program is given up, if no time passes in it, and the whole."""
WHOLE = 10.0
"""Seconds after which the whole program is given up: on a busy machine, it takes long."""
SHRINKING = 20.0
"""Seconds in which a program must be made small."""
REPLAYS = 3
"""The number of times that a finding is looked for again."""
MakesUp = Callable[[Session, Random], Iterator[Step]]
"""Makes up a program, each step when the one before has been taken."""


class Campaign:
    """Plays programs on a target, those of the second gear if nothing else is said."""

    def __init__(
        self, exploration: Exploration, target: Target, makes_up: MakesUp = second_gear
    ) -> None:
        self._exploration = exploration
        self._target = target
        self._makes_up = makes_up
        self._session: Session | None = None
        self.looks = True
        """Set if statistics are compared at the end of each program."""

    def run(self, programs: int) -> Finding | None:
        """Plays so many programs; gives what the first violation comes down to."""
        chance = Random(self._exploration.seed)
        for _ in self._exploration.budget.turns(programs):
            found = self.play(Random(chance.randrange(2**32)))
            if found is not None:
                return self.smallest(found)
        self.close()
        return None

    def play(self, chance: Random) -> Finding | None:
        """Plays one program; gives it if it shows a violation."""
        steps: list[Step] = []
        try:
            self._play(chance, steps)
        except Violation as violation:
            return Finding(steps, told(violation, self._target), self._end().transcript)
        except OSError as error:
            # The target does not accept connections any more.
            if self._session is None:
                raise
            gone = lost(error, self._session)
            return Finding(steps, gone, self._end().transcript)
        except Inconclusive:
            self._exploration.undecided += 1
            self._end()
        return None

    def _play(self, chance: Random, steps: list[Step]) -> None:
        if self._session is None:
            self._session = self._exploration.session(self._target)
        session = self._session
        session.begin()
        for step in self._makes_up(session, chance):
            steps.append(step)
            take(session, step)
        session.finish(self.looks)
        if session.is_spent or not session.judge.oracle.is_settled:
            # What is still open would only slow down what follows.
            self._end()

    def _end(self) -> Session:
        session, self._session = self._session, None
        assert session is not None
        self._exploration.start_anew(session)
        return session

    def close(self) -> None:
        """Ends what is open."""
        if self._session is not None:
            self._session.abandon()
            self._session = None

    # ------------------------------------------------------------ making it small

    def smallest(self, found: Finding) -> Finding:
        """Return the smallest form of a finding; itself, if it is not seen again."""
        small = self._made_small(found)
        firm = self._exploration.firmest(small, self._target, self.looks)
        if diagnosis_of(firm, self._exploration.profile).is_loosened:
            return firm
        # Without its open lines, less of the rest may be needed.
        return small if firm is small else self._made_small(firm, firmly=True)

    def _made_small(self, found: Finding, firmly: bool = False) -> Finding:
        """``firmly``: it stays one that breaks the text."""
        smallest = found
        # In haste most of the way; but on a busy machine, what is shown may have been missed.
        for patience, limit, smaller in (
            (HASTE, TRY, minimise),
            (PATIENCE, LONG_TRY, without_steps),
        ):
            start = time.monotonic()
            self._replayed(smallest.program, patience, WHOLE)
            limit = max(limit, time.monotonic() - start)
            shows = partial(self._shows, patience, limit, start + SHRINKING, firmly)
            program = smaller(smallest.program, shows)
            shown = self._replayed(program, PATIENCE, math.inf)
            smallest = shown if self._is_good(shown, firmly) else smallest
        return smallest

    def _is_good(self, shown: Finding | None, firmly: bool) -> TypeGuard[Finding]:
        profile = self._exploration.profile
        return shown is not None and not (firmly and diagnosis_of(shown, profile).de_facto)

    def alone(self, client: int, lines: Iterable[bytes]) -> Iterator[Finding]:
        """Yield the findings of single lines that are complete commands."""
        session: Session | None = None
        for line in lines:
            reader = Lines(self._exploration.profile)
            reader.read(line + CRLF)
            if not reader.is_complete or reader.is_quirk:
                continue
            if session is None:
                session = self._exploration.session(self._target)
                session.patience = HASTE
            program = [Ask(client, line + CRLF, apart=True)]
            try:
                take(session, program[0])
                session.flush()
            except (Violation, OSError, Inconclusive):
                self._exploration.start_anew(session)
                session = None
                found = self._replayed(program, PATIENCE, math.inf)
                if found is not None:
                    yield found
        if session is not None:
            self._exploration.start_anew(session)

    def seen(self, program: Program) -> int:
        """In how many of :data:`REPLAYS` replays a program shows a violation."""
        return sum(self._replayed(program, PATIENCE, math.inf) is not None for _ in range(REPLAYS))

    def _shows(
        self, patience: float, limit: float, end: float, firmly: bool, program: Program
    ) -> bool:
        """Return whether a program shows a violation; raises OutOfTime after ``end``."""
        if time.monotonic() > end:
            raise OutOfTime
        if has_quirk(program, self._exploration.profile):
            return False
        return self._is_good(self._replayed(program, patience, limit), firmly)

    def _replayed(self, program: Program, patience: float, limit: float) -> Finding | None:
        return self._exploration.replayed(self._target, program, patience, limit, self.looks)
