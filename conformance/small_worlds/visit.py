"""A visit to a small world: its tour at wire speed, judged again where a reply differs.

A comparison with the recording makes no verdict. Where a reply is different, the shortest way to
the same transition is judged by the oracle, then all that was done since the walk began. If that
is allowed, the target makes other choices than beanstalkd, as it may: the rest of the tour is
judged while it goes on.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Collection, Iterable, Iterator, Sequence

from conformance.oracle.violation import Violation
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.replay import Counterexample, as_observed, program_of
from conformance.random_testing.shrinking import Reducer
from conformance.random_testing.steps import Ask, Program, Step
from conformance.small_worlds.comparison import DifferentReply, ReplyComparison
from conformance.small_worlds.judged_tour import JudgedStage
from conformance.small_worlds.player import TourPlayer
from conformance.small_worlds.recorded_tour import STEPS
from conformance.small_worlds.recording import TourRecorder, Turn
from conformance.small_worlds.route import Route
from conformance.small_worlds.tour import Tour
from conformance.small_worlds.tour_time import TourTime
from conformance.small_worlds.tours import WorldTour
from conformance.small_worlds.world import HOME, World, at_home
from conformance.target.clock import pause
from conformance.target.command_rate import COMMAND_RATE
from conformance.target.footprint import FOOTPRINT
from conformance.target.target import Target
from conformance.transcript import Transcript
from conformance.verdict import Deviation, Inconclusive, NotTestable
from reports.results import WorldRecord as WorldSeen

DEVIATES, NOT_TAKEN, TAKEN = "!01"
"""The marks of the transitions of a command in a state; the worst is the least."""
FORKS = 2
"""Times that a target may choose otherwise before all that is left is judged."""
_NEAR = 5
"""Transitions of which one may have been answered differently."""


class Visit:
    """The tour of a world on a target, as long as there is time.

    ``left``: the transitions that were not taken yet.
    """

    def __init__(
        self, tour: WorldTour, target: Target, exploration: Exploration, tour_time: TourTime
    ) -> None:
        self.left = set(range(tour.graph.transitions))
        self._broken: int | None = None
        self._tour = tour
        self._world = tour.world.at(FOOTPRINT.new_name()) if tour.world.home else tour.world
        self._target = target
        self._exploration = exploration
        self._time = tour_time

    def run(self) -> Counterexample | None:
        """Take the tour; return what shows a violation. Raises OSError if the target is gone."""
        try:
            return self._run()
        finally:
            with self._time.uncounted():
                self._tour.keep()

    def _run(self) -> Counterexample | None:
        forks, player, segments = 0, self._player(), self._tour.segments()
        self._time.watch(self._target.cpu_time)
        while forks < FORKS and not self._time.is_over:
            with self._time.uncounted():
                segment = next(segments, None)
                COMMAND_RATE.begin()
            if segment is None:
                break
            turns, whole = itertools.tee(segment)
            done = 0
            begun = time.monotonic()
            try:
                for turn in player.play(turns):
                    self._reach(turn.reached)
                    done += 1
                    if self._time.is_over:
                        break
                    begun = time.monotonic()
            except (DifferentReply, OSError):
                player.close()
                if found := self._judge(list(whole), done):
                    return found
                # With the wait for what was to come instead.
                self._time.compensate(time.monotonic() - begun)
                forks, player = forks + 1, self._player()
        player.close()
        return self._walk_on() if forks and not self._tour.world.timed else None

    def _reach(self, transitions: Collection[int]) -> None:
        before = len(self.left)
        self.left.difference_update(transitions)
        self._time.taken += before - len(self.left)

    def deviation(self, found: Counterexample, transcript: Transcript) -> Deviation:
        """Return the failure for a finding, shrunk; ``transcript`` then shows it."""
        small = Reducer(self._exploration, self._target).smallest(found)
        return self._exploration.deviation(small, transcript)

    def seen(self) -> WorldSeen:
        """Return the coverage of each command in each state."""
        graph, numbers = self._tour.graph, itertools.count()
        rows: dict[str, list[str]] = {}
        for state, edges in enumerate(graph.edges):
            for action, _ in edges:
                row = rows.setdefault(action.verb, [" "] * len(graph.edges))
                row[state] = min(row[state].strip() or TAKEN, self._mark(next(numbers)))
        return WorldSeen(
            name=self._tour.world.name,
            states=len(graph.edges),
            transitions=graph.transitions,
            taken=graph.transitions - len(self.left),
            commands={verb: "".join(row) for verb, row in sorted(rows.items())},
        )

    def _mark(self, transition: int) -> str:
        if transition == self._broken:
            return DEVIATES
        return NOT_TAKEN if transition in self.left else TAKEN

    def _player(self) -> TourPlayer:
        return TourPlayer(self._target, ReplyComparison(self._target.exclusive), self._world.home)

    # ------------------------------------------------------------ judged again

    def _judge(self, turns: Sequence[Turn], done: int) -> Counterexample | None:
        """Return the violation that made a turn different, if it was one."""
        end = self._time.end_of_judging
        for number, program in self._programs(turns, done):
            if time.monotonic() > end:
                break
            if self._exploration.replayed(self._target, program) is not None:
                timeout = self._target.limits.reply
                found = self._exploration.replayed(self._target, program, timeout, math.inf)
                if found is not None:
                    self._broken = number
                    return found
        return None

    def _programs(self, turns: Sequence[Turn], done: int) -> Iterator[tuple[int | None, Program]]:
        """Yield what may show it, the shortest first, and the transition that it ends with."""
        reached = (number for turn in turns[done:] for number in turn.reached)
        near = list(itertools.islice(reached, _NEAR))
        for number in near:
            yield number, self._shortest(number)
        whole = (step for turn in turns[: done + 1] for step in turn.steps)
        yield next(iter(near), None), [self._at_home(step) for step in whole]

    def _at_home(self, step: Step) -> Step:
        if not isinstance(step, Ask):
            return step
        return step._replace(text=at_home(step.text, self._world.home))

    def _shortest(self, number: int) -> Program:
        """Return the shortest program that takes a transition from the beginning."""
        graph, recorder = self._tour.graph, TourRecorder(self._target.profile)
        Tour(self._tour.world, recorder, Route(graph, ())).follow(graph.path_through(number))
        return [self._at_home(step) for turn in recorder.turns for step in turn.steps]

    def _walk_on(self) -> Counterexample | None:
        """Take what is left of the tour, judged meanwhile."""
        route = Route(self._tour.graph, self.left)
        while route.count and not self._time.is_over:
            before = route.count
            session = self._exploration.session(self._target)
            stage = JudgedStage(session)
            try:
                Tour(self._world, stage, route).walk(STEPS)
            except Violation as violation:
                seen = as_observed(violation, self._target)
                found = Counterexample(program_of(session.transcript), seen, session.transcript)
                self._exploration.start_anew(session)
                return found
            except Inconclusive:
                self._exploration.start_anew(session)
            else:
                if session.judge.oracle.may_be_paused(self._world.tubes[0]):
                    # The pause that ends it may take effect a little later.
                    pause(self._target.clock, self._target.limits.lateness)
                session.abandon()
            self._reach(stage.reached)
            if route.count == before:
                break
        return None


def worlds_for(target: Target, worlds: Iterable[World]) -> list[World]:
    """Return those worlds that a target can be visited in: a shared one in tubes of our own.

    Raises NotTestable if jobs of others cannot be left alone.
    """
    if not (target.exclusive or target.profile.has_tubes):
        raise NotTestable("needs --launch: a server of its own, for jobs of its own")
    found = [world for world in worlds if world.is_of(target.profile)]
    if not target.clock.movable:
        found = [world for world in found if not world.timed]
    if target.exclusive:
        return found
    return [world.at(HOME) for world in found if not world.drains]


@contextlib.contextmanager
def untimed(target: Target) -> Iterator[Target]:
    """Yield a server of its own for worlds without time: under a real clock it is faster."""
    try:
        own = target.in_real_time().fresh()
    except NotTestable:
        yield target
        return
    with contextlib.closing(own):
        yield own
