"""Runs one test until its outcome is decided; or many tests at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.dialogue.scenario import PARTS, Scenario
from conformance.printable import printable
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.snapshot import Unanswered
from conformance.run.assertions import as_deviation
from conformance.run.blame_for_losses import owner_after, owner_of_loss, suspects_of_loss
from conformance.run.suspected_flake import SuspectedFlake, suspect_flake
from conformance.target.address import TargetError
from conformance.target.command_rate import COMMAND_RATE
from conformance.target.launch import DidNotStart, LaunchError
from conformance.target.sanitizers import SanitizerReport
from conformance.target.target import Target
from conformance.target.traits import Failure, Unusable
from conformance.transcript import TARGET_CLOSES, Transcript
from conformance.usual_answers import COMES_BACK, IN_STEP, usual_answer
from conformance.verdict import (
    GOES_ON,
    Deviation,
    Inconclusive,
    NotTestable,
    Outage,
    OutcomeKind,
    Step,
    TargetLost,
)
from reference_server.wire import CRLF
from reports.results import WorldRecord

MANY = 1000
"""Tests that may wait at the same time."""

Test = Callable[..., object]


@dataclass(slots=True)
class Outcome:
    """The outcome of a test: an exception or none, its evidence, and how long it waited.

    ``suspected`` says why a failure may be a flake, see :func:`suspect_flake`. ``reported``: what
    sanitizers have printed.
    ``said`` is the last that a launched target printed; ``seen`` the variant of a quirk.
    ``exhausts``: the target got less memory, descriptors or room than it needs.
    ``health``: remarks on the target that change no verdict. ``worlds``: the small worlds that
    were visited.
    ``latencies`` and ``latenesses`` of its replies are seconds of real time. ``is_surveyed``: the
    survey has found the failure before, and nothing was sent.
    """

    error: BaseException | None
    transcript: Transcript = field(default_factory=Transcript)
    suspected: SuspectedFlake | None = None
    reported: list[SanitizerReport] = field(default_factory=list)
    said: str = ""
    seen: str = ""
    exhausts: bool = False
    health: list[str] = field(default_factory=list)
    worlds: list[WorldRecord] = field(default_factory=list)
    longest_wait: float = 0.0
    waited: float = 0.0
    latencies: list[float] = field(default_factory=list)
    latenesses: list[float] = field(default_factory=list)
    is_surveyed: bool = False

    @property
    def is_lost_unused(self) -> bool:
        """Tell whether the target has ended before anything was sent to it."""
        return isinstance(self.error, TargetLost) and not self.transcript.entries

    @property
    def deviation(self) -> Deviation | None:
        """The deviation that a test has seen, on a target that was not lost; None without one."""
        if self.is_surveyed or isinstance(self.error, TargetLost):
            return None
        return self.error if isinstance(self.error, Deviation) else None


def run(test: Test, arguments: Mapping[str, object], target: Target) -> Outcome:
    """Run a test function, its parts taken from a scenario, the rest from ``arguments``."""
    if (defect := target.traits.defect) is not None:
        return _surveyed(defect, target.traits.defective)
    outcomes: list[Outcome] = []
    for arrival in target.limits.arrival:
        outcome = _attempt(test, arguments, target, arrival)
        if outcome.suspected is None:
            return outcome
        outcomes.append(outcome)
    for outcome in outcomes:
        if outcome.suspected is not None and not outcome.suspected.reason:
            # Nobody was late, and yet it failed.
            return outcome
    if outcome.suspected is not None and not outcome.suspected.is_race:
        # What keeps this server busy may be what it has been through.
        fresh = _attempt(test, arguments, target, target.limits.arrival[-1], fresh=True)
        is_sure = fresh.suspected is None or not fresh.suspected.reason
        if is_sure and isinstance(fresh.error, Deviation):
            return fresh
        assert isinstance(outcome.error, Deviation)
        reason = f"{outcome.suspected.reason}, {len(outcomes)} times: {outcome.error}"
        outcome.error = Inconclusive(reason, outcome.error)
    return outcome


def _surveyed(failure: Failure, owner: str) -> Outcome:
    """Return the outcome of a test that needs what the survey has shown to be broken."""
    deviation = failure.deviation(owner)
    return Outcome(deviation, failure.transcript, said=failure.said, is_surveyed=True)


def _attempt(
    test: Test,
    arguments: Mapping[str, object],
    target: Target,
    arrival: float,
    *,
    fresh: bool = False,
) -> Outcome:
    COMMAND_RATE.begin()
    try:
        if "real_clock" in arguments:
            target = target.in_real_time()
        if "resources" in arguments:
            # libfaketime opens a file to read what the time is: without memory or descriptors,
            # the clock would jump.
            target = target.in_a_process().in_real_time()
    except NotTestable as error:
        return Outcome(error)
    # Without tubes, nothing else keeps the jobs of tests apart.
    has_jobs = "put" not in target.traits.unusable
    apart = target.exclusive and has_jobs and not target.traits.has_tubes
    if "own_server" not in arguments and not apart and not fresh:
        return _play(test, arguments, Scenario(target, arrival))
    outcome = _on_server_of_its_own(test, arguments, target, arrival)
    if "binlog" in _configuration(test) and outcome.is_lost_unused:
        # Another process may have taken its port.
        outcome = _on_server_of_its_own(test, arguments, target, arrival)
        if outcome.is_lost_unused:
            # Without a binlog, it starts.
            assert isinstance(outcome.error, TargetLost)
            outcome.error = TargetLost("a server that starts with a binlog", outcome.error.outage)
            outcome.error.owner = COMES_BACK
            outcome.error.de_facto = outcome.error.is_own = True
    return outcome


def _configuration(test: Test) -> Mapping[str, object]:
    found: Mapping[str, object] = test.__dict__.get("configuration", {})
    return found


def _on_server_of_its_own(
    test: Test, arguments: Mapping[str, object], target: Target, arrival: float
) -> Outcome:
    """Play a test on a server that is started for it, as the test configures it."""
    try:
        own = target.fresh(**_configuration(test))
    except NotTestable as error:
        return Outcome(error)
    except LaunchError as error:
        with_binlog = "binlog" in _configuration(test)
        # It has ended: a machine that is too busy does not do that.
        if with_binlog and isinstance(error, DidNotStart) and error.status is not None:
            return Outcome(TargetLost(GOES_ON, error.as_outage), said=error.said)
        # It has started before, and what it was sent then is no matter of this test.
        return Outcome(NotTestable(f"needs a second server: {error}"))
    try:
        outcome = _play(test, arguments, Scenario(own, arrival, is_last=True))
    finally:
        own.close()
    outcome.reported += own.reported()
    return outcome


def _play(test: Test, arguments: Mapping[str, object], scenario: Scenario) -> Outcome:
    outcome, is_random = Outcome(None), "exploration" in arguments
    try:
        if is_random:
            # It would only find the same failures again, slowly.
            _needs_all_commands(scenario.target)
        scenario.prepare()
        parts = {
            name: scenario.part(name) if name in PARTS else value
            for name, value in arguments.items()
        }
        seen = test(**parts)
        outcome.seen = printable(seen) if isinstance(seen, str) else ""
    except Unusable as error:
        scenario.close()
        return _surveyed(error.failure, error.owner)
    except Exception as error:
        outcome.error = _failure(error, scenario)
    outcome.exhausts = scenario.exhausts
    _doubt(outcome, scenario)
    _note_loss(outcome, scenario)
    if is_random and isinstance(outcome.error, Deviation) and not scenario.target.traits.pipelines:
        # What is sent after another command may have been dropped.
        outcome.error.suspects = (IN_STEP, *outcome.error.suspects)
    if isinstance(outcome.error, TargetLost):
        if isinstance(exploration := arguments.get("exploration"), Exploration):
            exploration.show_last(scenario.transcript)
        _blame_for_loss(outcome.error, scenario, is_random=is_random)
    if outcome.error is not None:
        outcome.said = scenario.target.said(scenario.printed)
    outcome.reported = scenario.target.reported()
    outcome.transcript = scenario.transcript.copy()
    clock = scenario.clock
    outcome.longest_wait, outcome.waited = clock.longest_wait, clock.nominal
    outcome.latencies, outcome.latenesses = clock.latencies, clock.latenesses
    if isinstance(outcome.error, TargetLost):
        scenario.abandon()
        scenario.target.restore()
        _excuse(scenario, outcome)
        return outcome
    scenario.close()
    if outage := scenario.target.ended():
        lost = TargetLost(GOES_ON, outage)
        lost.owner = owner_after(outcome.error, scenario.transcript.entries, outcome.exhausts)
        lost.de_facto = outcome.exhausts
        outcome.error = lost
        outcome.transcript = scenario.transcript.copy()
        outcome.said = scenario.target.said(scenario.printed)
        scenario.target.restore()
        _excuse(scenario, outcome)
    if outcome.error is None:
        outcome.error = scenario.extra_reply()
        # It may have come while the connections were ended.
        outcome.transcript = scenario.transcript.copy()
    return outcome


def _failure(error: Exception, scenario: Scenario) -> Exception:
    """Return what a test has raised as the failure of a step, where it is the target's."""
    match error:
        case Deviation():
            return error
        case AssertionError():
            return as_deviation(error)
        case Unanswered():
            # It was asked before anything of the test was said.
            scenario.transcript.add("A", ">", error.line + CRLF, scenario.clock.now())
            command = error.line.split()[0].decode()
            step = Step(OutcomeKind.NO_REPLY, command, (error.word,))
            deviation = Deviation(error.expected, str(error), step=step)
            deviation.owner = usual_answer(command, scenario.target.profile)
            return deviation
        case TargetError():
            deviation = Deviation(error.expected, str(error))
            deviation.owner = error.requirement
            return deviation
        case OSError() if outage := scenario.target.outage():
            return TargetLost(GOES_ON, outage)
    return error


def _doubt(outcome: Outcome, scenario: Scenario) -> None:
    """Note what else than the target may be the reason for a deviation."""
    if (deviation := outcome.deviation) is None:
        return
    if scenario.target.generation != scenario.generation:
        # It has not seen what the test had sent before.
        outage = Outage(OutcomeKind.GONE, "it was lost meanwhile")
        outcome.error = TargetLost(deviation.expected, outage)
    elif scenario.disturbed():
        outcome.error = NotTestable("needs a server of its own: others connected meanwhile")
    else:
        outcome.suspected = suspect_flake(deviation, scenario)


def _note_loss(outcome: Outcome, scenario: Scenario) -> None:
    """Note that a target is lost which has closed a connection, or takes no more clients."""
    if outage := _end_of(scenario, outcome):
        seen, lost = outcome.error, TargetLost(GOES_ON, outage)
        if isinstance(seen, Deviation):
            lost = TargetLost(GOES_ON, outage, command=seen.step.command)
            lost.owner = seen.owner
        outcome.error = lost
    if isinstance(outcome.error, TargetLost) and (most := scenario.clients_at_most()) is not None:
        outcome.error = NotTestable(
            f"the target serves no more clients than {most} at the same time"
        )


def _blame_for_loss(lost: TargetLost, scenario: Scenario, *, is_random: bool) -> None:
    """Set the owner or the suspects of a loss, as far as the messages show them."""
    entries = scenario.transcript.entries
    if (owner := owner_of_loss(entries, scenario.tested)) is not None:
        # It was lost before the test observed what it had done.
        lost.owner = owner
    elif not is_random:
        lost.suspects = suspects_of_loss(entries)
    # The text does not say that a server outlives exhaustion.
    lost.de_facto |= scenario.exhausts


def _needs_all_commands(target: Target) -> None:
    """Raise Unusable if the survey has shown that a command does not work."""
    for command in target.traits.unusable:
        target.traits.needs(command)


def _excuse(scenario: Scenario, outcome: Outcome) -> None:
    """Turn a loss into NotTestable if the scenario allows the target to end in this way."""
    assert isinstance(outcome.error, TargetLost)
    if scenario.may_end(outcome.error.outage):
        reason = f"it does not go on when no allocation succeeds: {outcome.error.outage}"
        outcome.error = NotTestable(reason)


def _end_of(scenario: Scenario, outcome: Outcome) -> Outage | None:
    """Return how a target that has closed a connection has ended; not every test minds."""
    if isinstance(outcome.error, TargetLost) or not any(
        entry.data == TARGET_CLOSES for entry in scenario.transcript.entries
    ):
        return None
    outage = scenario.target.outage()
    return None if outage is None or outage.kind is OutcomeKind.HANGS else outage


class Overlapped:
    """Many tests that wait at the same time, each in a thread, each with its own scenario.

    No more than ``at_once`` of them. One that fails is run once more, on a server of its own, if we
    can start one: the other tests may be the reason.
    """

    def __init__(
        self,
        tests: Sequence[tuple[str, Test, Mapping[str, object]]],
        target: Target,
        at_once: int = MANY,
    ) -> None:
        self._tests, self._target, self._at_once = tests, target, at_once
        self._outcomes: dict[str, Outcome] = {}
        self._alone: dict[str, Outcome] = {}
        self._again: Overlapped | None = None
        self._turns = threading.Semaphore(at_once)
        self._threads = {
            # Daemons, so that an interrupted run need not wait for them.
            name: threading.Thread(
                target=self._run, args=(name, test, arguments, target), daemon=True
            )
            for name, test, arguments in tests
        }
        self._left = {*self._threads}
        for thread in self._threads.values():
            thread.start()

    def _run(
        self,
        name: str,
        test: Test,
        arguments: Mapping[str, object],
        target: Target,
    ) -> None:
        try:
            with self._turns:
                self._outcomes[name] = outcome = run(test, arguments, target)
                if target.exclusive and "own_server" not in arguments and outcome.deviation:
                    arrival = target.limits.arrival[-1]
                    self._alone[name] = _attempt(test, arguments, target, arrival, fresh=True)
        except BaseException as error:
            self._outcomes[name] = Outcome(error)

    def __contains__(self, name: object) -> bool:
        return name in self._threads

    @property
    def lost_or_going_on(self) -> int:
        """Return how many uncollected outcomes are a loss of the target, or still pending."""
        outcomes = [self._outcomes.get(name) for name in self._left]
        return sum(one is None or isinstance(one.error, TargetLost) for one in outcomes)

    @property
    def is_over(self) -> bool:
        """Return whether all outcomes have been asked for."""
        return not self._left

    def join(self) -> None:
        """Wait for all tests."""
        for thread in self._threads.values():
            thread.join()

    def outcome(self, name: str) -> Outcome:
        """Wait for a test and return its outcome."""
        self._threads[name].join()
        self._left.discard(name)
        return self._outcomes[name]

    def alone(self, name: str) -> Outcome | None:
        """Return the outcome of a test on a server of its own; None if it had none."""
        return self._alone.get(name)

    def outcome_again(self, name: str) -> Outcome:
        """Run all tests again that have lost the target; return the outcome of one of them.

        They wait together again; those that end the target may be known by now.
        """
        if self._again is None:
            self.join()
            lost = [
                one for one in self._tests if isinstance(self._outcomes[one[0]].error, TargetLost)
            ]
            self._again = Overlapped(lost, self._target, self._at_once)
            self._again.join()
        return self._again.outcome(name)
