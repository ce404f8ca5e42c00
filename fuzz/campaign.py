"""Plays programs one after another until one shows a violation, and shrinks it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random

from conformance.oracle.underspecification import Lines
from conformance.oracle.violation import Violation
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.replay import Counterexample, as_observed, lost
from conformance.random_testing.session import Session
from conformance.random_testing.shrinking import SHORT_TIMEOUT, Reducer
from conformance.random_testing.steps import Ask, Program, Step
from conformance.target.command_rate import COMMAND_RATE
from conformance.target.starvation import pressure
from conformance.target.target import Target
from conformance.verdict import Inconclusive
from fuzz.hostile import HOSTILE
from fuzz.player import second_gear
from reference_server.wire import CRLF

REPLAYS = 3
"""The number of times that a finding is looked for again."""
MakesUp = Callable[[Session, Random], Iterator[Step]]
"""Makes up a program, each step when the one before has been taken."""


class ProgramCampaign:
    """Plays programs on a target, those of the second gear if nothing else is said."""

    def __init__(
        self, exploration: Exploration, target: Target, makes_up: MakesUp = second_gear
    ) -> None:
        self._exploration = exploration
        self._target = target
        self._makes_up = makes_up
        self._session: Session | None = None
        self.last: Sequence[Step] = ()
        """The program that was played last."""
        self.looks = True
        """Set if statistics are compared at the end of each program."""
        self.starved = 0.0
        """Seconds for which anybody waited for a CPU while the last program was played."""

    def run(self, programs: int) -> Counterexample | None:
        """Play so many programs; return the shrunk form of the first violation."""
        chance = Random(self._exploration.seed)
        for _ in self._exploration.budget.turns(programs):
            found = self.play(Random(chance.randrange(2**32)))
            if found is not None:
                return self.smallest(found)
        self.close()
        return None

    def play(self, chance: Random, makes_up: MakesUp | None = None) -> Counterexample | None:
        """Play one program, of another kind if that is said; return it if it shows a violation."""
        steps: list[Step] = []
        self.last = steps
        before = pressure()
        try:
            self._play(makes_up or self._makes_up, chance, steps)
        except Violation as violation:
            return Counterexample(
                steps, as_observed(violation, self._target), self._end().transcript
            )
        except OSError as error:
            # The target does not accept connections any more.
            if self._session is None:
                raise
            gone = lost(error, self._session)
            return Counterexample(steps, gone, self._end().transcript)
        except Inconclusive:
            self._exploration.undecided += 1
            self._end()
        finally:
            self.starved = pressure() - before
        return None

    def _play(self, makes_up: MakesUp, chance: Random, steps: list[Step]) -> None:
        if self._session is None:
            self._session = self._exploration.restored_session(self._target)
        session = self._session
        COMMAND_RATE.begin()
        session.begin()
        for step in makes_up(session, chance):
            steps.append(step)
            session.take(step)
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
        """End what is open."""
        if self._session is not None:
            self._session.abandon()
            self._session = None

    # ------------------------------------------------------------ making it small

    def smallest(self, found: Counterexample) -> Counterexample:
        """Shrink a finding; return it unchanged if it cannot be reproduced."""
        return Reducer(self._exploration, self._target, self.looks).smallest(found)

    def commands(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield those of these lines that are complete commands."""
        for line in lines:
            reader = Lines(self._exploration.profile)
            reader.read(line + CRLF)
            if reader.is_complete and not reader.is_quirk:
                yield line

    def alone(self, line: bytes) -> Counterexample | None:
        """Play a line on a new target; return the violation that it shows."""
        return self.replayed(_only(line))

    def each_alone(
        self, lines: Iterable[bytes], is_known: Callable[[Counterexample], bool]
    ) -> Iterator[Counterexample]:
        """Yield the findings of single lines that are complete commands.

        Each is seen again first, unless it is known.
        """
        session: Session | None = None
        for line in self.commands(lines):
            if session is None:
                session = self._exploration.restored_session(self._target)
                session.timeout = SHORT_TIMEOUT
            program = _only(line)
            try:
                session.take(program[0])
                session.flush()
            except (Violation, OSError, Inconclusive) as error:
                found = None
                if isinstance(error, Violation):
                    wrong = as_observed(error, self._target)
                    found = Counterexample(program, wrong, session.transcript)
                self._exploration.start_anew(session)
                session = None
                if found is None or not is_known(found):
                    found = self.replayed(program)
                if found is not None:
                    yield found
        if session is not None:
            self._exploration.start_anew(session)

    def seen(self, program: Program) -> int:
        """Count the replays, :data:`REPLAYS` in all, in which a program shows a violation."""
        return sum(self.replayed(program) is not None for _ in range(REPLAYS))

    def replayed(self, program: Program) -> Counterexample | None:
        """Play a program on a new target; return the violation that it shows."""
        return self._exploration.replayed(self._target, program, 0.0, math.inf, self.looks)


def _only(line: bytes) -> Program:
    return [Ask(HOSTILE, line + CRLF, apart=True)]
