"""A grey box: judged programs, and scouts that run ahead and fill the corpus.

After the manner of AFL: a program that reaches what none has reached before is done again, made
small, kept, and varied. Variations are played unjudged, as that is faster; those that reach
something new are handed on, to be judged. So are those to which the target replies otherwise than
the reference model, a few times for each kind of difference: that is feedback from the replies, as
in AFLNet, but by what they should be.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random

from conformance.random_testing.delta_debugging import OutOfTime, without_steps
from conformance.random_testing.session import Session
from conformance.random_testing.steps import Ask, Program, Step
from conformance.target.sanitizers import SanitizerReport
from fuzz.campaign import MakesUp
from fuzz.coverage import Coverage
from fuzz.entries import SharedEntries
from fuzz.guidance import CorpusEntry, Guidance
from fuzz.judgeable_steps import judgeable
from fuzz.player import COMMANDS, ProgramAuthor
from fuzz.program import BRISK, MOVED
from fuzz.scout import Scout, ScoutTurn, TargetFellSilent, begins_turn
from fuzz.suppression import Signature, Suppression, lines_of, signature
from fuzz.variation import MOST, Variation
from reference_server.wire import CRLF

RESTART = 500
"""Programs after which the scouts' server is started anew."""
_PARTS = 8
"""Parts of a program that are kept, before it is kept as a whole for all else that is new in it."""
_EFFORT = 1000
"""Steps that are played to make a part smaller."""
_STOCK = 3000
"""Commands of judged programs that are put into others."""
_BEHIND = 0.5
"""The chance that a judged program begins like one that is kept."""
_VOLLEYS = 0.15
"""The share of volleys of hostile lines in the turns of scouts; more as long as they find much."""
_FRUITLESS = 10
"""Volleys in a row that show nothing new, after which they are no longer the first thing to do."""
_ALIKE = 2
"""Programs that are handed on for differences of one kind, or for crashes at one command."""
_SHOWN = 10
"""Differences that are not seen again, which count as much as one that is."""
_WAITING = 20
"""Programs that are still to be played again, to see whether they reach it each time."""


class GreyBox:
    """Scouts for programs that reach new code of a target.

    ``coverage`` looks at the target on which programs are judged; ``shelf`` is shared with others.
    """

    def __init__(
        self, scout: Scout, coverage: Coverage, chance: Random, shelf: SharedEntries | None = None
    ) -> None:
        self.guidance = Guidance()
        self.lost: list[Program] = []
        """The messages that the target did not survive."""
        self.reported: list[tuple[Sequence[SanitizerReport], Program]] = []
        """The reports of sanitizers, and the programs that were played then."""
        self.programs = 0
        """The number of programs that were played by scouts."""
        self._played = self._volleys = 0
        """The number of turns that scouts have played, and those of volleys among them."""
        self._fruitless = 0
        """Volleys since one was answered otherwise than by the model, in a new way."""
        self._scout = scout
        self._profile = scout.target.profile
        self._coverage = coverage
        self._shelf = shelf
        self._found_new = False
        self._judged = 0
        """The edges that judged programs have reached."""
        self._chance = chance
        self._stock: deque[Ask] = deque(maxlen=_STOCK)
        self._candidates: deque[Program] = deque(maxlen=_WAITING)
        self._foreign: list[Program] = []
        self._vary = Variation(chance, self._stock)
        self._alike: Counter[Signature] = Counter()
        self._shown = 0
        """The number of programs that were answered otherwise, and at once."""
        self._silent: list[Program] = []
        """Programs with a reply that did not come, or that should not have come."""
        self.known = Suppression()
        """Lines that are left out, as their bugs are known."""

    def watch(self, makes_up: MakesUp) -> MakesUp:
        """Wrap ``makes_up``: it yields the same programs, and records the edges they reach."""

        def watched(session: Session, chance: Random) -> Iterator[Step]:
            done: list[Step] = []
            coverage = self._coverage
            coverage.take()
            for step in makes_up(session, chance):
                if done and begins_turn(step, done[-1]):
                    self._look(coverage.take(), done)
                done.append(step)
                yield step
            session.flush()
            self._look(coverage.take(), done)
            self._stock.extend(step for step in done if isinstance(step, Ask))

        return watched

    def _look(self, reached: int, done: Sequence[Step]) -> None:
        self.guidance.meet(reached)
        if new := self.guidance.new_edges(reached):
            self._candidates.append(done[-MOST:])
            # Until scouts have confirmed it, it is new only once.
            self._found_new |= bool(new & ~self._judged)
        self._judged |= reached

    def second_gear(self, session: Session, chance: Random) -> Iterator[Step]:
        """Yield a program of the second gear, perhaps after one that is kept."""
        if self.guidance.entries and chance.random() < _BEHIND:
            one, other = (self.guidance.pick(chance) for _ in range(2))
            varied = self._vary(one.program, other.program)
            yield from judgeable(varied, session.model.profile)
        times = MOVED if session.target.clock.movable else BRISK
        yield from ProgramAuthor(session, chance, times).steps(COMMANDS)

    def has_found_new(self) -> bool:
        """Return whether judged programs have reached something new since the last call."""
        found, self._found_new = self._found_new, False
        return found

    def exchange(self) -> None:
        """Take in what others have found."""
        if self._shelf is not None:
            self.begin_with(entry.program for entry in self._shelf.new_entries())

    def begin_with(self, programs: Iterable[Program]) -> None:
        """Take in programs that reach something, perhaps."""
        self._foreign += programs

    def explore(self, seconds: float) -> Iterator[Program]:
        """Yield programs that reach something new, for some seconds.

        Those with a line that gets no answer come when nothing else is answered otherwise.
        """
        end, shown = time.monotonic() + seconds, self._shown
        while time.monotonic() < end:
            is_due = self._volleys < _VOLLEYS * self._played
            is_due |= self._fruitless < _FRUITLESS
            program = None if is_due else self._next()
            yield from self._volley() if program is None else self._kept(program)
        if self._shown == shown:
            silent, self._silent = self._silent, []
            yield from silent

    def _volley(self) -> Iterator[Program]:
        """Play hostile lines; yield those that are answered otherwise than by the model."""
        program = self.without_known(judgeable(self._vary.volley(), self._profile))
        turns = self._play(program)
        self._volleys += len(turns)
        self._fruitless += 1
        for handed_on in self._answered_otherwise(program, turns):
            self._fruitless = 0
            yield handed_on
        if self.guidance.new_edges(_together(turns)):
            self._candidates.append(program)

    def _next(self) -> Program | None:
        if self._candidates:
            return self._candidates.popleft()
        if self._foreign:
            return self._foreign.pop()
        if not self.guidance.entries:
            return None
        one, other = (self.guidance.pick(self._chance) for _ in range(2))
        return self.without_known(self._vary(one.program, other.program))

    def without_known(self, program: Program) -> Program:
        """Return the steps whose lines are not known to be answered wrongly."""
        if not self.known:
            return program
        return [
            step
            for step in program
            if not isinstance(step, Ask) or not self.known.has(lines_of([step], self._profile))
        ]

    def _kept(self, program: Program) -> Iterator[Program]:
        """Yield parts of a program that together reach what is new in it, and keep them."""
        turns = self._play(program)
        yield from self._answered_otherwise(program, turns)
        self.guidance.note(_together(turns))
        new = self.guidance.new_edges(_together(turns))
        if not new:
            return
        last = max(turn.end for turn in turns if turn.reached & new)
        turns = self._play(program[:last])
        self.guidance.note_missing(new & ~_together(turns))
        for entry in self._parts(program[:last], turns, new & _together(turns)):
            has_new_edge = self.guidance.has_new_edge(entry.reached)
            self.guidance.keep(entry)
            if self._shelf is not None:
                self._shelf.put(entry)
            if has_new_edge:
                yield entry.program

    def _parts(
        self, program: Program, turns: Sequence[ScoutTurn], new: int
    ) -> Iterator[CorpusEntry]:
        for _ in range(_PARTS):
            if not new:
                return
            entry = self._part(program, turns, new)
            new &= ~entry.reached
            yield entry
        if new:
            yield CorpusEntry(program, _together(turns))

    def _part(self, program: Program, turns: Sequence[ScoutTurn], new: int) -> CorpusEntry:
        """Return a part that ends with the last turn of a program in which something is new."""
        last = max(number for number, turn in enumerate(turns) if turn.reached & new)
        wanted = turns[last].reached & new

        def reaches(part: Program) -> bool:
            return not wanted & ~_together(self._play(part))

        effort = _EFFORT if self.guidance.has_new_edge(wanted) else 0
        small = self._smallest(program, turns[: last + 1], reaches, effort)
        return CorpusEntry(small, _together(self._play(small)) | wanted)

    def _answered_otherwise(
        self, program: Program, turns: Sequence[ScoutTurn]
    ) -> Iterator[Program]:
        """Yield a part of a program to which the target replies otherwise than the model."""
        if not turns:
            return
        found = {
            discrepancy.kind: discrepancy for discrepancy in reversed(self._scout.discrepancies)
        }
        for end, kind, is_silent in sorted(found.values()):
            until = program[:end]
            is_new = self._alike[kind] < _ALIKE * _SHOWN
            if is_new and len(judgeable(until, self._profile)) == len(until):
                before = [turn for turn in turns if turn.end <= end]
                part = self._showing(until, before, kind)
                if part is None:
                    continue
                if is_silent or kind[0] == "put":
                    # To judge them takes long: the line of a put alone gets no answer, either.
                    self._silent.append(part)
                else:
                    self._shown += 1
                    yield part

    def _showing(
        self, program: Program, turns: Sequence[ScoutTurn], kind: Signature
    ) -> Program | None:
        """Return a small part of a program that shows a difference again; None if it does not."""

        def shows(part: Program) -> bool:
            self._play(part)
            return any(discrepancy.kind == kind for discrepancy in self._scout.discrepancies)

        alone = program[turns[-2].end if len(turns) > 1 else 0 :]
        part: Program | None = None
        if len(alone) == 1 and shows(alone):
            part = alone
        else:
            # Something may have been left there by the programs before.
            self._scout.restart()
            if shows(program):
                part = self._smallest(program, turns, shows, _EFFORT)
        self._alike[kind] += 1 if part is None else _SHOWN
        return part

    def _smallest(
        self,
        program: Program,
        turns: Sequence[ScoutTurn],
        shows: Callable[[Program], bool],
        effort: int,
    ) -> Program:
        """Return a small part of a program that ends with its last turn and still shows it.

        ``effort``: the steps that may be played to leave out some from its midst.
        """
        starts = [0, *(turn.end for turn in turns[:-1])]
        count = 1
        while True:
            # Most of the time, little of what came before matters.
            start = starts[-min(count, len(starts))]
            part = program[start : turns[-1].end]
            if start == 0 or shows(part):
                break
            count *= 2

        def in_time(fewer: Program) -> bool:
            nonlocal effort
            effort -= len(fewer)
            if effort < 0:
                raise OutOfTime
            return shows(fewer)

        return without_steps(part, in_time)

    def _play(self, program: Program) -> list[ScoutTurn]:
        self.programs += 1
        if self.programs % RESTART == 0:
            self._scout.restart()
        try:
            turns = self._scout.play(program)
            self._played += len(turns)
            return turns
        except TargetFellSilent as lost:
            self._lose(program, lost.done)
            return []
        finally:
            if reports := self._scout.target.reported():
                self.reported.append((reports, program))

    def _lose(self, program: Program, done: Program) -> None:
        """Record the messages that ended a target, replayed on a new one with the same ids."""
        self._scout.restart()
        line = done[-1].text.partition(CRLF)[0] if done and isinstance(done[-1], Ask) else b""
        kind = signature(line, "", "crash")
        self._alike[kind] += _SHOWN
        if self._alike[kind] > _ALIKE * _SHOWN:
            return
        try:
            self._scout.play(program)
            self.lost.append(done)
        except TargetFellSilent as again:
            self.lost.append(again.done)
            self._scout.restart()

    def close(self) -> None:
        """End the scouts' server."""
        self._scout.close()
        self._scout.target.close()


def _together(turns: Sequence[ScoutTurn]) -> int:
    reached = 0
    for turn in turns:
        reached |= turn.reached
    return reached
