"""The run of the suite in one process: its target, and the outcomes of its tests."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeGuard

import pytest

from conformance.catalogue import Requirement, catalogue
from conformance.dialogue.scenario import jobs_of_running_tests
from conformance.random_testing.budget import SECONDS, SLOW, WITH_WAITING, Budget, round_trip
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.findings import FOLDER
from conformance.random_testing.shrink_budget import EACH, IN_ALL, ShrinkBudget
from conformance.run.distribution import spread, waits
from conformance.run.identity import identified, named
from conformance.run.losses import Loss, Losses
from conformance.run.options import AUTO, Options
from conformance.run.runner import MANY, Outcome, Overlapped, run
from conformance.run.sanitizer_reports import remarks
from conformance.target.cleanup import leave, may_be_left, remedy, tubes_of_runs
from conformance.target.footprint import FOOTPRINT
from conformance.target.target import Target
from conformance.target.traits import Traits
from conformance.verdict import NotApplicable, NotOffered, NotTestable, TargetLost
from reference_server.profiles import LIST_TUBE_USED, NEWEST, Profile, profile_of_version
from reports import results
from reports.results import WorldRecord
from reports.words import counted

TESTED = ("conformance", "fuzz")
"""The packages with tests of a target."""
AT_ONCE = 8
"""Tests of a slow target that go on at the same time."""


def slugs(item: pytest.Item) -> tuple[str, ...]:
    """Return the requirements that a test names; none if it is not one of ours."""
    return tuple(slug for marker in item.iter_markers("requirement") for slug in marker.args)


def module_of(item: pytest.Item) -> str:
    """Return the module of the suite that a test is in; empty if it is the test of a fork."""
    module = getattr(item, "module", None)
    name = module.__name__ if module else ""
    return name if name.partition(".")[0] in TESTED else ""


def test_id(item: pytest.Item) -> str:
    """Return a test as ``--pyargs`` finds it, that of the suite wherever the run was started."""
    path, here = item.path, item.config.invocation_params.dir
    place = path.relative_to(here) if path.is_relative_to(here) else path
    return f"{module_of(item) or place}::{item.nodeid.partition('::')[2]}"


def requirements(item: pytest.Item, profile: Profile) -> list[Requirement]:
    """Return the requirements that a test tests, at the levels of a profile."""
    return [catalogue()[slug].judged_by(profile.stage) for slug in slugs(item)]


def needs(item: pytest.Item, part: str) -> TypeGuard[pytest.Function]:
    """Return whether a test of ours uses this part of a scenario."""
    return _is_ours(item) and part in item.fixturenames


def _is_ours(item: pytest.Item) -> TypeGuard[pytest.Function]:
    return isinstance(item, pytest.Function) and bool(slugs(item))


def _arguments(item: pytest.Function) -> Mapping[str, object]:
    """Return the test's arguments: values of parameters, and None for parts of the scenario."""
    values = item.callspec.params if hasattr(item, "callspec") else {}
    return {name: values.get(name) for name in inspect.signature(item.function).parameters}


class MeasuredTarget(NamedTuple):
    """The survey of the target, and what goes with it, as one process has measured it for all."""

    traits: Traits
    version: str
    profile_reason: str
    clock_reason: str
    movable: bool
    round_trip: float


class Suite:
    """The state that all tests of this process share.

    ``distributed``: other tests run in other processes. ``selected``: the user has chosen some.
    """

    def __init__(self, options: Options, distributed: bool) -> None:
        self.options = options
        self.losses = Losses()
        self.selected = False
        self.known: MeasuredTarget | None = None
        """The survey of another process, if that has made it."""
        self.effort = ShrinkBudget(EACH, IN_ALL)
        """The time budget for shrinking findings; the processes of a run share it."""
        self._distributed = distributed
        self._target: Target | None = None
        self._left = ""
        self._identity: tuple[Target, results.TargetRecord] | None = None
        self._overlapped: list[Overlapped] | None = None
        self._trials = ShrinkBudget(EACH, IN_ALL)
        """The time budget for repeating alone the tests that failed while others ran."""
        self._round_trip = 0.0

    def start(self) -> Target:
        """Start and probe the target, once, and give it; raises TargetError or LaunchError."""
        if self._target is None:
            if self.known is not None:
                self._target = self._like(self.known)
                return self._target
            self._target = self._probed_anew(self.options)
            self._round_trip = round_trip(self._target)
            clock = self._target.clock
            if self._is_slow and clock.movable and self.options.clock == AUTO:
                self._target.close()
                # There, its tests wait together.
                options = replace(self.options, clock="real")
                self._target = self._probed_anew(options)
                self._target.clock_reason = (
                    f"a round trip takes {1000 * self._round_trip:.0f} milliseconds"
                )
        return self._target

    def _probed_anew(self, options: Options) -> Target:
        """Return a new target that was surveyed; raises TargetError or LaunchError."""
        # Before, so that an interrupted survey leaves nothing there.
        self._target = target = options.target()
        try:
            self.options.recognise(target)
        except Exception:
            self._target = None
            raise
        return target

    def _like(self, known: MeasuredTarget) -> Target:
        """Return a target for this process, with the survey of another process."""
        options = self.options if known.movable else replace(self.options, clock="real")
        target = options.target(known.traits)
        target.version, target.profile_reason = known.version, known.profile_reason
        target.clock_reason = known.clock_reason
        self._round_trip = known.round_trip
        return target

    def measured(self) -> MeasuredTarget:
        """Return what other processes need not measure again."""
        target = self.target
        return MeasuredTarget(
            target.traits,
            target.version,
            target.profile_reason,
            target.clock_reason,
            target.clock.movable,
            self._round_trip,
        )

    @property
    def _seconds_each(self) -> float:
        """Return the budget of a random conversation; a slow target hardly gets to waiting."""
        waits = not (self.target.clock.movable or self._is_slow)
        return WITH_WAITING if waits else SECONDS

    @property
    def _is_slow(self) -> bool:
        return self._round_trip >= SLOW

    @property
    def target(self) -> Target:
        """The target, started on first use."""
        return self.start()

    def identity(self) -> results.TargetRecord:
        """Return the target as results name it, the same for all tests."""
        target = self.target
        if self._identity is None or self._identity[0] is not target:
            self._identity = target, identified(target, self.options)
        return self._identity[1]

    def describe(self) -> str:
        """Return the target, its version and its clock, in a line."""
        target, traits = self.identity(), self.target.traits
        clock = "real clock" if target.clock == "real" else "clock moved by the tests"
        reason = f" ({target.clock_reason})" if target.clock_reason else ""
        profile = target.profile_reason
        if self._is_guessed_older:
            profile += f" (--profile={NEWEST.name} judges it by the newest)"
        unusual = []
        if not traits.pipelines:
            unusual.append("one command at a time, as it drops what follows")
        if not traits.rests:
            unusual.append("tested by one process, as it uses a CPU all the time")
        if (asked := self.target.sync_line) != LIST_TUBE_USED:
            silent = LIST_TUBE_USED.decode()
            unusual.append(f"asked {asked.decode()}, as {silent} does not work")
        return ", ".join([f"target: {named(target)}", profile, f"{clock}{reason}", *unusual])

    @property
    def _is_guessed_older(self) -> bool:
        """Tell whether an older profile was chosen only for what the target lacks."""
        target, is_asked = self.target, self.options.profile != AUTO
        is_older = target.profile.stage != NEWEST.name
        return is_older and not is_asked and profile_of_version(target.version) is None

    def _alone(self, item: pytest.Item) -> bool:
        """Return whether nothing else may go on at the target during a test."""
        return needs(item, "alone") or not (self.target.exclusive or self.target.profile.has_tubes)

    def order(self, items: list[pytest.Item]) -> None:
        """Put tests that need the target for themselves first, while nothing overlaps.

        Random tests come last, after the directed tests have found what breaks the target. See
        :func:`spread`. Of several processes, the first gets those that wait: they come first, too.
        In a single process, the others run while they wait.
        """
        made_up = [item for item in items if needs(item, "exploration")]
        directed = [item for item in items if not needs(item, "exploration")]
        is_shared = self.options.address is not None or self.options.clock == "real"
        if self._distributed and not is_shared:
            directed.sort(key=lambda item: not self._waits(item))
        elif self._target is not None:
            directed.sort(key=self._waits)
        items[:] = directed + spread(made_up)
        if is_shared:
            items.sort(key=lambda item: not needs(item, "alone"))

    def missing(self, item: pytest.Item) -> NotApplicable | None:
        """Return why a test does not apply to the target's profile, None if it does."""
        profile = self.target.profile
        for requirement in requirements(item, profile):
            if missing := requirement.missing_in(profile.stage):
                return NotApplicable(f"{requirement.slug} {missing}")
            if left_out := requirement.left_out_of(profile):
                return NotOffered(left_out)
        return None

    def outcome(self, item: pytest.Function) -> Outcome:
        """Run a test, or wait for it if it has begun already."""
        if self._alone(item):
            self._join()
        elif not self._distributed or self._waits(item):
            for overlapped in self._begin_waiting(item.session.items):
                if item.nodeid in overlapped:
                    return self._settled(item, overlapped.outcome(item.nodeid), overlapped)
        if died := self.losses.before(self.target, self._others()):
            return Outcome(NotTestable(died))
        return self._settled(item, self._run(item))

    def _join(self) -> None:
        """Wait for all tests that go on at the same time."""
        for overlapped in self._overlapped or ():
            overlapped.join()

    def _others(self) -> int:
        """Return how many tests that go on at the same time may be concerned by a loss."""
        return sum(overlapped.lost_or_going_on for overlapped in self._overlapped or ())

    def _settled(
        self, item: pytest.Function, outcome: Outcome, overlapped: Overlapped | None = None
    ) -> Outcome:
        """Return the outcome to report for a test, wherever the target was lost.

        ``overlapped``: the tests that it went on with.
        """

        def again() -> Outcome:
            self._join()
            if overlapped is not None:
                together = overlapped.outcome_again(item.nodeid)
                if not isinstance(together.error, TargetLost):
                    return together
            return self._run(item)

        if outcome.is_surveyed:
            return outcome
        outcome.health += remarks(outcome.reported, outcome.transcript, FOLDER)
        others = max(self._others(), int(overlapped is not None))
        return self.losses.after(item, outcome, self.target, others, again)

    def company(self, item: pytest.Function) -> list[pytest.Item]:
        """Return the overlapping tests, this one included, if it fails only among them; else none.

        On a server that we cannot start again, the test is run once more, alone, as long as there
        is time for that. One that has a server of its own is alone anyway.
        """
        together = next((each for each in self._overlapped or () if item.nodeid in each), None)
        if together is None or "own_server" in _arguments(item):
            return []
        alone = together.alone(item.nodeid)
        if alone is None:
            if not self._trials.left:
                return []
            self._join()
            with self._trials.spent(self.target.cpu_time):
                alone = self._run(item)
        if alone.error is not None:
            return []
        return [other for other in item.session.items if other.nodeid in together]

    def late(self) -> list[Loss]:
        """Return tests that turn out to have ended the target after they were over."""
        over = all(overlapped.is_over for overlapped in self._overlapped or ())
        return self.losses.late(over)

    def _run(self, item: pytest.Function) -> Outcome:
        """Run a test."""
        arguments = dict(_arguments(item))
        health: list[str] = []
        worlds: list[WorldRecord] = []
        if "exploration" in arguments:
            arguments["exploration"] = exploration = self.exploration()
            health, worlds = exploration.health, exploration.worlds
        outcome = run(item.function, arguments, self.target)
        outcome.health, outcome.worlds = health, worlds
        deviation = outcome.deviation
        if deviation is not None and deviation.unanswered is not None and not self._others():
            # Whatever keeps it from answering must not fail the tests that follow.
            with contextlib.suppress(NotTestable, TargetLost):
                self.target.restart()
        return outcome

    def exploration(self) -> Exploration:
        """Return the settings of random tests."""
        asked = self.options
        return Exploration(
            asked.examples,
            asked.seed,
            profile=self.target.profile,
            folder=FOLDER,
            fuzz_time=asked.fuzz_time,
            budget=Budget(self._seconds_each * asked.examples, self._round_trip),
            effort=self.effort,
        )

    def _begin_waiting(self, items: Iterable[pytest.Item]) -> list[Overlapped]:
        """Begin all tests that wait in real time, so that they wait together.

        If the target is slow, others wait together for its replies.
        """
        if self._overlapped is None:
            own = [item for item in items if _is_ours(item) and not self._alone(item)]
            own = [item for item in own if self.missing(item) is None]
            waiting = [item for item in own if self._waits(item)]
            slow = [item for item in own if self._may_overlap(item)]
            self._overlapped = [self._overlap(waiting), self._overlap(slow, AT_ONCE)]
        return self._overlapped

    def _overlap(self, items: Iterable[pytest.Function], at_once: int = MANY) -> Overlapped:
        tests = [(item.nodeid, item.function, _arguments(item)) for item in items]
        return Overlapped(tests, self.target, at_once)

    def _may_overlap(self, item: pytest.Item) -> bool:
        """Return whether a test may go on while another waits for replies of a slow target."""
        overlaps = self._is_slow and not (self.target.clock.movable or self._distributed)
        return overlaps and not (self._waits(item) or needs(item, "exploration"))

    def _waits(self, item: pytest.Item) -> TypeGuard[pytest.Function]:
        # A process without tests need not start a server to know.
        moves = self.known.movable if self.known is not None else self.target.clock.movable
        return _is_ours(item) and waits(item.fixturenames, moves)

    def leftovers(self) -> list[str]:
        """Return lines about tubes that earlier runs have left on a shared server."""
        others = [] if self.target.exclusive else tubes_of_runs(self.target)
        if not others:
            return []
        count = counted(len(others), "tube")
        return [f"{count} of other runs: {others[0]}, …; {remedy(self.target.label)}"]

    def what_may_be_left(self) -> str:
        """Return what is said if nothing more can be removed; empty if nothing can be left."""
        return "" if self.options.address is None else may_be_left(self.options.address)

    def release(self) -> None:
        """End the target if we have started it."""
        if self._target is not None and self._target.exclusive:
            self._target.close()
            self._target = None

    def farewell(self) -> list[str]:
        """End servers that we have started; return what is remarked on what they print then."""
        if self._target is None or not self._target.exclusive:
            return []
        target, self._target = self._target, None
        target.close()
        return remarks(target.reported(), None, FOLDER)

    def close(self) -> str:
        """End our target, or clean up a shared one; return what is left there, in words."""
        target, self._target = self._target, None
        if target is not None and target.exclusive:
            target.close()
        elif target is not None:
            FOOTPRINT.end()
            is_clean = leave(target, jobs_of_running_tests())
            self._left = "" if is_clean else self.what_may_be_left()
        return self._left
