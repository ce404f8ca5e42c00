"""All cases, with several drivers at a time, so that the waits for what never comes overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue

from conformance.clients.cases import OR, ClientCase, all_cases, for_self_test
from conformance.clients.driver import Channel
from conformance.clients.judging import ANSWER_TIMEOUT, OPTIONAL, CaseOutcome, CasePlayer
from conformance.clients.protocol import (
    UNSUPPORTED,
    DriverError,
    require_translation,
    require_values,
)
from conformance.clients.server import ScriptedServer
from reports.verdicts import Verdict

WORKERS = 8
"""Drivers at a time: most of them wait."""
MINIMUM = ("connect", "put", "delete")
"""Operations that every driver has."""


@dataclass(frozen=True, slots=True)
class ClientCampaign:
    """The cases, and how a driver is started."""

    start: Callable[[], Channel]
    timeout: float = ANSWER_TIMEOUT
    workers: int = WORKERS

    def self_test(self) -> list[str]:
        """Try each operation against a well-behaved server; return what the driver supports.

        Raises :class:`DriverError` for a bug of the driver, :class:`DriverEnded` for its end.
        """
        supported = []
        driver = self.start()
        try:
            for questions in for_self_test():
                server = ScriptedServer(jobs=(b"work",))
                try:
                    verb = questions[-1].split()[0]
                    if self._tried(driver, server, questions):
                        supported.append(verb)
                except TimeoutError:
                    # It may be the library that hangs, which its cases judge.
                    supported.append(verb)
                    driver.close()
                    driver = self.start()
                finally:
                    server.close()
        finally:
            driver.close()
        return supported

    def _tried(self, driver: Channel, server: ScriptedServer, questions: Sequence[str]) -> bool:
        """Return whether the last question is supported; raise TimeoutError without an answer."""
        for choices in (f"connect 127.0.0.1 {server.port}", *questions):
            if not any(self._supports(driver, server, one) for one in choices.split(OR)):
                return False
        return True

    def _supports(self, driver: Channel, server: ScriptedServer, question: str) -> bool:
        """Return whether a question is supported; raise TimeoutError without an answer."""
        verb = question.split()[0]
        is_needed = verb in MINIMUM
        seconds = self.timeout if is_needed else self.timeout * OPTIONAL
        server.mark()
        answer = server.await_answer(driver, question, seconds)
        if answer is None and not is_needed:
            raise TimeoutError
        if answer is None:
            said = driver.said()
            raise DriverError(
                f"no answer to {question!r} within {self.timeout:g} s from a well-behaved"
                f" server; does the driver flush its output?"
                + (f" It said: {said}" if said else "")
            )
        if answer.word == UNSUPPORTED:
            if is_needed:
                raise DriverError(f"every driver supports {verb}, this one answers unsupported")
            return False
        require_values(verb, answer)
        require_translation(question, answer, server.commands)
        if verb in MINIMUM[:2] and not answer.is_ok:
            raise DriverError(f"{question!r} failed on a well-behaved server: {answer}")
        return True

    def run(
        self,
        cases: Sequence[ClientCase] | None = None,
        report: Callable[[CaseOutcome], None] = lambda outcome: None,
    ) -> list[CaseOutcome]:
        """Return the outcomes of the cases, in their order; raise :class:`DriverEnded`."""
        chosen = all_cases() if cases is None else cases
        if self.workers == 1:
            return attributed(self._one_by_one(chosen, report))
        players: SimpleQueue[CasePlayer] = SimpleQueue()
        made = [CasePlayer(self.start, self.timeout) for _ in range(self.workers)]
        for player in made:
            players.put(player)

        def play(case: ClientCase) -> CaseOutcome:
            player = players.get()
            try:
                outcome = player.play(case)
            finally:
                players.put(player)
            if outcome.verdict is not Verdict.INCONCLUSIVE:
                report(outcome)
            return outcome

        pool = ThreadPoolExecutor(self.workers)
        try:
            outcomes = list(pool.map(play, chosen))
        finally:
            pool.shutdown(cancel_futures=True)
            for player in made:
                player.close()
        return attributed(self._decided_alone(outcomes, report))

    def _decided_alone(
        self, outcomes: Sequence[CaseOutcome], report: Callable[[CaseOutcome], None]
    ) -> list[CaseOutcome]:
        """Play undecided cases again: the other drivers may have kept theirs from a CPU.

        If there are many, somebody else has.
        """
        undecided = [one for one in outcomes if one.verdict is Verdict.INCONCLUSIVE]
        if len(undecided) > self.workers:
            for one in undecided:
                report(one)
            return list(outcomes)
        again = iter(self._one_by_one([one.case for one in undecided], report))
        return [next(again) if one.verdict is Verdict.INCONCLUSIVE else one for one in outcomes]

    def _one_by_one(
        self, cases: Sequence[ClientCase], report: Callable[[CaseOutcome], None]
    ) -> list[CaseOutcome]:
        """Play the cases in this thread, which an interrupt ends at once."""
        player, outcomes = CasePlayer(self.start, self.timeout), []
        try:
            for case in cases:
                outcomes.append(player.play(case))
                report(outcomes[-1])
        finally:
            player.close()
        return outcomes


def attributed(outcomes: Sequence[CaseOutcome]) -> list[CaseOutcome]:
    """Return the outcomes, with those as blocked that the failure of a simpler case explains."""
    unmet = {
        one.case.slug: one.blocked_by or one.case.slug
        for one in outcomes
        if one.verdict in (Verdict.FAIL, Verdict.BLOCKED)
    }
    found = []
    for one in outcomes:
        if one.verdict is Verdict.FAIL and (owner := unmet.get(one.case.simpler)):
            reason = f"explained by {owner}"
            one = replace(
                one, verdict=Verdict.BLOCKED, reason=reason, blocked_by=owner, mismatch=None
            )
        found.append(one)
    return found
