"""Random programs that are recorded before they are played, and compared as a whole.

They are the same each time, so that they are made once and kept. Where a target answers otherwise,
the oracle judges.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from random import Random

import fuzz
from conformance.random_testing.delta_debugging import ends
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.replay import Counterexample
from conformance.random_testing.shrinking import Reducer
from conformance.random_testing.steps import Ask, Leave, Step
from conformance.small_worlds.cache import kept
from conformance.small_worlds.comparison import DifferentReply, ReplyComparison
from conformance.small_worlds.player import TourPlayer
from conformance.small_worlds.recording import Segment, TourRecorder, Turn
from conformance.small_worlds.tour import OBSERVER, synchronise
from conformance.target.target import Target
from fuzz.player import CLIENTS, ProgramAuthor
from fuzz.program import BRISK
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.wire import CRLF

PROGRAMS = 20
COMMANDS = 2000
"""Commands of each program, about."""


def recorded_programs(profile: Profile) -> list[Segment]:
    """Return programs that are the same each time; each ends without clients and jobs."""
    return kept(lambda: record(profile), "programs", profile, by=fuzz)


def record(profile: Profile) -> list[Segment]:
    """Write programs down."""
    chance, recorder, segments = Random(0), TourRecorder(profile), list[Segment]()
    for _ in range(PROGRAMS):
        stage = _Desk(recorder)
        for step in ProgramAuthor(stage, Random(chance.randrange(2**32)), BRISK).steps(COMMANDS):
            stage.take(step)
        stage.finish()
        segments.append(Segment.of(recorder.turns))
        recorder.turns = []
    return segments


class _Desk:
    """The place where a program is written: a model alone. The tag of a job is its id in it."""

    is_open = False

    def __init__(self, recorder: TourRecorder) -> None:
        self._recorder = recorder
        self._neutral = recorder.model.profile.neutral + CRLF
        self._question = Ask(OBSERVER, self._neutral)
        self.conn(OBSERVER)

    @property
    def model(self) -> Model:
        """The model."""
        return self._recorder.model

    def tag(self, id: int) -> int:
        """Return the tag of a job."""
        return id

    def conn(self, number: int) -> int:
        """Return the id of a client in the model; it connects if need be."""
        if number not in self._recorder.clients():
            self._recorder.connect(number)
            # A server counts it, at the latest, when it says something.
            self._recorder.ask([Ask(number, self._neutral)])
            self._recorder.end_turn()
        return self._recorder.clients()[number].id

    def may_ask(self, number: int) -> bool:
        """Return whether a client does not wait for a job."""
        client = self._recorder.clients().get(number)
        return client is None or not client.waiting

    def is_clear(self, number: int) -> bool:
        """Return whether a client has got its replies, and may ask more."""
        return number in self._recorder.clients() and self.may_ask(number)

    def take(self, step: Step) -> None:
        """Write a step down."""
        if isinstance(step, Ask):
            self._ask(step)
        elif isinstance(step, Leave) and step.client in self._recorder.clients():
            self._recorder.leave(step.client, step.half)
            synchronise(self._recorder, self._question)

    def _ask(self, ask: Ask) -> None:
        if ask.apart:
            self._recorder.end_turn()
        self.conn(ask.client)
        tag = None if ask.tag is None else self._recorder.next_tag()
        self._recorder.ask([ask._replace(tag=tag, apart=False)])
        if self._recorder.is_full:
            self._recorder.end_turn()
        if not ask.text.endswith(CRLF) or not self.is_clear(ask.client):
            synchronise(self._recorder, self._question)

    def finish(self) -> None:
        """Let all clients go, and delete all jobs."""
        for number in CLIENTS:
            self.take(Leave(number, half=False))
        if self.model.is_paused("default"):
            # It outlives the program, and so would its pause.
            self._recorder.ask([Ask(OBSERVER, b"pause-tube default 0" + CRLF)])
        for job in sorted(self.model.jobs):
            self._recorder.ask([Ask(OBSERVER, b"delete %d" % job + CRLF)])
        synchronise(self._recorder, self._question)
        self._recorder.ask([Ask(OBSERVER, b"stats" + CRLF)])
        self._recorder.leave(OBSERVER, half=True)


class Recital:
    """Recorded programs on a target, until ``end``, in seconds of the monotonic clock."""

    def __init__(self, target: Target, exploration: Exploration, end: float) -> None:
        self._target = target
        self._exploration = exploration
        self._end = end

    def run(self, programs: Sequence[Segment]) -> Counterexample | None:
        """Play programs; return the smallest form of what shows a violation.

        A target that chooses otherwise, as it may, is not asked for the rest of them.
        """
        differing = self._differing(programs)
        return None if differing is None else self._judge(differing)

    def _differing(self, programs: Sequence[Segment]) -> Sequence[Turn] | None:
        """Return the turns of a program up to one that comes out otherwise; None if none does."""
        with contextlib.closing(TourPlayer(self._target, ReplyComparison(alone=True))) as player:
            for program in programs:
                turns, done = program.turns, 0
                try:
                    for _ in player.play(turns):
                        done += 1
                        if time.monotonic() > self._end:
                            return None
                except (DifferentReply, OSError):
                    return turns[: done + 1]
        return None

    def _judge(self, turns: Sequence[Turn]) -> Counterexample | None:
        exploration, target = self._exploration, self._target
        program = [step for turn in turns for step in turn.steps]
        # The whole may take many seconds.
        for shorter in (*ends(program), program):
            begun = time.monotonic()
            found = exploration.replayed(target, shorter, target.limits.reply, math.inf)
            if found is not None:
                waited = target.limits.reply if found.violation.is_silence else 0.0
                if time.monotonic() - begun - waited > exploration.effort.each:
                    # There is no time to see it again.
                    return found
                return Reducer(exploration, target).smallest(found)
        return None
