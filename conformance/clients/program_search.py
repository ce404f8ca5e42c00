"""The search for a random program that shows what no directed case explains.

A finding is shrunk by delta debugging, and must show again with a new driver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from conformance.clients.cases import ClientCase
from conformance.clients.checks import Mismatch, nothing
from conformance.clients.driver import Channel
from conformance.clients.judging import ANSWER_TIMEOUT, OPTIONAL, CaseOutcome, flaky
from conformance.clients.program_features import explanations, features_of_program
from conformance.clients.program_player import ProgramRun
from conformance.clients.programs import (
    DISCONNECTS,
    FEATURES,
    VERBS,
    ClientProgram,
    limited,
    plainer_calls,
    write_program,
)
from conformance.clients.protocol import DriverError
from conformance.random_testing.delta_debugging import OutOfTime, needed, with_plainer
from reports.verdicts import Verdict

ANY_PROGRAM = ClientCase("client.any-program", "put", nothing, name="random programs")
ANY_RECONNECT = ClientCase("client.any-reconnect", "put", nothing, name="… with disconnects")
PROGRAM_CASES = (ANY_PROGRAM, ANY_RECONNECT)
SEED = 1
PROGRAMS = 50
"""Programs of each requirement, so that a run on a slow machine finds the same."""
SEARCH_SECONDS, SHRINK_SECONDS = 8.0, 3.0
"""The longest time for all programs of a requirement, and for shrinking a finding."""


class ProgramPlayer:
    """Plays programs with one driver, which is started again when it hangs or ends."""

    def __init__(self, start: Callable[[], Channel]) -> None:
        self._start = start
        self._driver: Channel | None = None

    def play(self, program: ClientProgram, timeout: float) -> tuple[Mismatch | None, ProgramRun]:
        """Return the first mismatch, and the run; raises DriverError and DriverEnded."""
        if self._driver is None:
            self._driver = self._start()
        run = ProgramRun(self._driver, timeout)
        found = run.play(program)
        if run.is_hung:
            self.close()
        return found, run

    def close(self) -> None:
        """End the driver."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None


@dataclass
class ProgramSearch:
    """The search: program number N is made from the seed N, and cut down to the features left.

    ``directed``: the outcomes of directed cases. ``seed``: the number of the first program,
    ``limit``: how many are played at most for each requirement, and ``seconds`` the longest time
    for that; ``shrink_seconds``: that for shrinking a finding.
    """

    start: Callable[[], Channel]
    supported: Collection[str]
    directed: Sequence[CaseOutcome] = ()
    timeout: float = ANSWER_TIMEOUT
    seed: int = SEED
    seconds: float = SEARCH_SECONDS
    shrink_seconds: float = SHRINK_SECONDS
    limit: int = PROGRAMS
    count: int = field(default=0, init=False)
    """The number of programs that were played, without those of shrinking."""

    def run(self, cases: Sequence[ClientCase] = PROGRAM_CASES) -> list[CaseOutcome]:
        """Return the outcomes of some of :data:`PROGRAM_CASES`; raises :class:`DriverEnded`."""
        outcomes: list[CaseOutcome] = []
        for case in cases:
            begun, player = time.monotonic(), ProgramPlayer(self.start)
            try:
                outcome = self._search(case, player, outcomes)
            except DriverError as error:
                outcome = CaseOutcome(case, Verdict.ERROR, f"an error of the driver: {error}")
            finally:
                player.close()
            outcomes.append(replace(outcome, seconds=time.monotonic() - begun))
        return outcomes

    def _search(
        self, case: ClientCase, player: ProgramPlayer, earlier: Sequence[CaseOutcome]
    ) -> CaseOutcome:
        for outcome in earlier:
            # It would show the same once more.
            if outcome.verdict in (Verdict.FAIL, Verdict.BLOCKED):
                slug = outcome.blocked_by or outcome.case.slug
                return CaseOutcome(case, Verdict.BLOCKED, outcome.reason, blocked_by=slug)
        features = {one for one in FEATURES if one in self.supported or one not in VERBS}
        if case is not ANY_RECONNECT:
            features.remove(DISCONNECTS)
        left_out: list[str] = []
        unknown = 0
        number, end = self.seed, time.monotonic() + self.seconds
        while number < self.seed + self.limit and time.monotonic() < end:
            program = limited(write_program(Random(number)), features)
            self.count += 1
            found, run = player.play(program, self.timeout)
            if found is None or run.excuse:
                unknown += found is not None
                number += 1
                continue
            shrinking = time.monotonic()
            small, words = self._shrunk(program, player)
            end += time.monotonic() - shrinking
            cause = self._explanation(features_of_program(small, words))
            if cause is None:
                return self._confirmed(case, number, (small, program), found, player)
            slug, shown = cause
            removed = _removable(shown) & features
            if not removed or (case is ANY_RECONNECT and DISCONNECTS in removed):
                return CaseOutcome(case, Verdict.BLOCKED, f"explained by {slug}", blocked_by=slug)
            features -= removed
            left_out += (f"{feature} ({slug})" for feature in sorted(removed))
        if unknown:
            left_out.append(f"{unknown} programs, as the machine was busy")
        reason = f"left out: {', '.join(left_out)}" if left_out else ""
        return CaseOutcome(case, Verdict.PASS, reason)

    def _shrunk(
        self, program: ClientProgram, player: ProgramPlayer
    ) -> tuple[ClientProgram, frozenset[str]]:
        """Return the calls that are needed, and the words of the replies to them."""
        end = time.monotonic() + self.shrink_seconds
        words: frozenset[str] = frozenset()

        def shows(calls: ClientProgram) -> bool:
            nonlocal words
            if time.monotonic() > end:
                raise OutOfTime
            found, run = player.play(calls, self.timeout * OPTIONAL)
            if found is not None:
                words = frozenset(run.words)
            return found is not None

        small = needed(program, shows)
        return with_plainer(small, plainer_calls, shows), words

    def _explanation(self, features: frozenset[str]) -> tuple[str, frozenset[str]] | None:
        """Return a broken requirement that explains what a program with these features shows."""
        broken = (one.case for one in self.directed if one.verdict is Verdict.FAIL)
        return next(
            (
                (case.slug, shown)
                for case in broken
                for shown in explanations(case)
                if shown <= features
            ),
            None,
        )

    def _confirmed(
        self,
        case: ClientCase,
        seed: int,
        programs: tuple[ClientProgram, ClientProgram],
        seen: Mismatch,
        player: ProgramPlayer,
    ) -> CaseOutcome:
        """Return the failure that one of these programs shows again with a new driver.

        ``seen``: the mismatch that one of them has shown before.
        """
        starved = ""
        for program in programs * 2:
            player.close()
            found, run = player.play(program, self.timeout)
            starved = run.excuse or starved
            if found is not None and not run.excuse:
                asked = replace(case, ask=run.asked)
                said, transcript = run.said, run.transcript
                return CaseOutcome(asked, Verdict.FAIL, "", found, transcript, said, seed=seed)
        if starved:
            return CaseOutcome(case, Verdict.INCONCLUSIVE, starved, seed=seed)
        return flaky(CaseOutcome(case, Verdict.FAIL, mismatch=seen, seed=seed))


def _removable(shown: frozenset[str]) -> frozenset[str]:
    """Return the features to do without, so that a known deviation is not found again."""
    rare = shown & FEATURES - {*VERBS}
    verbs = shown & {*VERBS} - {"put"}
    if "reserve" in verbs:
        verbs |= {"reserve-with-timeout"}
    return rare or verbs
