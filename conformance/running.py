"""Runs one test as a scenario, as often as it takes to decide; or many at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from conformance.scenario import PARTS, Scenario
from conformance.target import Target
from conformance.timeline import BELIEVABLE
from conformance.transcript import Transcript
from conformance.verdict import Deviation, Inconclusive, NotTestable, TargetLost

ATTEMPTS = 3
"""How often a scenario whose timing proves nothing is run."""


@dataclass(slots=True)
class Outcome:
    """What came of a test: an exception or none, its evidence, and how long it waited."""

    error: BaseException | None
    transcript: Transcript
    longest_wait: float = 0.0
    waited: float = 0.0


Test = Callable[..., object]


def configured(**values: object) -> Callable[[Test], Test]:
    """Says which configuration a test's own server has."""

    def decorate(test: Test) -> Test:
        test.__dict__["configuration"] = values
        return test

    return decorate


def configuration(test: Test) -> Mapping[str, object]:
    """The configuration that a test's own server has."""
    return test.__dict__.get("configuration", {})  # type: ignore[no-any-return]


def run(test: Test, arguments: Mapping[str, object], target: Target, lateness: float) -> Outcome:
    """Runs a test function, its parts taken from a scenario, the rest from ``arguments``."""
    for attempt in range(1, ATTEMPTS + 1):
        outcome, undecided = _attempt(test, arguments, target, lateness)
        if outcome.error is None or not (undecided or _is_late(outcome.error)):
            return outcome
        if attempt == ATTEMPTS and undecided:
            outcome.error = Inconclusive(
                f"the machine was too busy to decide, {ATTEMPTS} times: {outcome.error}"
            )
    return outcome


def _is_late(error: BaseException) -> bool:
    return isinstance(error, Deviation) and error.late


def _attempt(
    test: Test, arguments: Mapping[str, object], target: Target, lateness: float
) -> tuple[Outcome, bool]:
    """One run; the second value tells whether its failure would prove nothing."""
    if "real_clock" in arguments:
        return _play(test, arguments, Scenario(target.in_real_time(), lateness))
    if "own_server" not in arguments:
        return _play(test, arguments, Scenario(target, lateness))
    try:
        own = target.fresh(**configuration(test))
    except NotTestable as error:
        return Outcome(error, Transcript()), False
    try:
        return _play(test, arguments, Scenario(own, lateness))
    finally:
        own.close()


def _play(test: Test, arguments: Mapping[str, object], scenario: Scenario) -> tuple[Outcome, bool]:
    outcome = Outcome(None, scenario.transcript)
    try:
        parts = {
            name: scenario.part(name) if name in PARTS else value
            for name, value in arguments.items()
        }
        test(**parts)
    except Exception as error:
        outcome.error = error
    if isinstance(outcome.error, AssertionError) and scenario.disturbed():
        outcome.error = NotTestable("needs a server of its own: others connected meanwhile")
    outcome.transcript = scenario.transcript.copy()
    undecided = _depends_on_time(outcome.error) and scenario.clock.behind > BELIEVABLE
    outcome.longest_wait, outcome.waited = scenario.clock.longest_wait, scenario.clock.nominal
    scenario.close()
    if outcome.error is None:
        outcome.error = scenario.unasked()
    if isinstance(outcome.error, TargetLost):
        undecided = False
        scenario.target.restore()
    return outcome, undecided


def _depends_on_time(error: BaseException | None) -> bool:
    if isinstance(error, Deviation):
        return not error.conclusive
    return isinstance(error, AssertionError)


class Overlapped:
    """Many tests that wait at the same time, each in a thread, each with its own scenario."""

    def __init__(
        self,
        tests: Sequence[tuple[str, Test, Mapping[str, object]]],
        target: Target,
        lateness: float,
    ) -> None:
        self._outcomes: dict[str, Outcome] = {}
        self._threads: dict[str, threading.Thread] = {}
        for name, test, arguments in tests:

            def work(
                name: str = name, test: Test = test, arguments: Mapping[str, object] = arguments
            ) -> None:
                self._outcomes[name] = run(test, arguments, target, lateness)

            # A daemon, so that an interrupted run need not wait for it.
            self._threads[name] = threading.Thread(target=work, name=name, daemon=True)
        for thread in self._threads.values():
            thread.start()

    def __contains__(self, name: object) -> bool:
        return name in self._threads

    def outcome(self, name: str) -> Outcome:
        """Waits for a test and gives what came of it."""
        self._threads[name].join()
        return self._outcomes[name]
