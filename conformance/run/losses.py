"""Losses of the target: the test that finds it gone is not always the one that ended it.

A process may end after its last reply, when the next test has begun already, or while many tests
go on at the same time. A server that we can start again is given to the test once more, alone. One
that somebody else runs stays away: one test is blamed, the others are not tested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest

from conformance.run.blame_for_losses import owner_after
from conformance.run.runner import Outcome
from conformance.target.footprint import NAMES
from conformance.target.target import Target
from conformance.transcript import Transcript
from conformance.usual_answers import OVERLAP, SERIALLY
from conformance.verdict import (
    GOES_ON,
    Inconclusive,
    NotApplicable,
    NotTestable,
    Outage,
    OutcomeKind,
    TargetLost,
)

_SET_UP = tuple(f"{verb} {NAMES}".encode() for verb in ("use", "watch"))
MOST = {True: 30, False: 3}
"""Tests in a row that lose the target before the run is given up; True: we can restart it."""


class Loss(NamedTuple):
    """A finished test that turned out later to have ended the target."""

    item: pytest.Function
    outcome: Outcome


def _has_begun(transcript: Transcript) -> bool:
    """Return whether a test has got a reply, or said more than every test says first."""
    return any(
        entry.direction == "<" or (entry.direction == ">" and not entry.data.startswith(_SET_UP))
        for entry in transcript.entries
    )


def _explained(outcome: Outcome, owner: str, why: str) -> Outcome:
    """Return the loss of a target with a reason appended; ``owner`` is the broken requirement."""
    error = outcome.error
    assert isinstance(error, TargetLost)
    outage = replace(error.outage, more=f"; {why}")
    lost = TargetLost(error.expected, outage, error.marked, error.step.command)
    lost.owner, lost.de_facto = owner, error.de_facto
    return replace(outcome, error=lost)


class Losses:
    """The losses of a target in tests that follow one another."""

    def __init__(self) -> None:
        self.in_a_row = 0
        self._died = ""
        self._last: Loss | None = None
        self._late: list[Loss] = []
        self._dismissed: list[Loss] = []
        self._is_explained = False

    def before(self, target: Target, others: int) -> str:
        """Return why a test cannot run if the target is gone before it; empty if it is there.

        ``others``: how many tests go on already.
        """
        if outage := target.ended():
            if not others:
                self._blame_last(outage, target)
            target.restore()
        if self._died and target.outage() is None:
            self._died = ""
        return self._died

    def after(
        self,
        item: pytest.Function,
        outcome: Outcome,
        target: Target,
        others: int,
        again: Callable[[], Outcome],
    ) -> Outcome:
        """Return the outcome to report for a test that ended with ``outcome``.

        ``others``: how many went on at the same time; ``again`` runs it alone.
        """
        error = outcome.error
        if isinstance(error, TargetLost) and target.exclusive:
            outcome = self._once_more(Loss(item, outcome), target, others, again)
        elif isinstance(error, TargetLost) and error.outage.kind is not OutcomeKind.HANGS:
            outcome = self._dies(Loss(item, outcome), error, target, others)
        lost = isinstance(outcome.error, TargetLost)
        self.in_a_row = self.in_a_row + 1 if lost else 0
        self._is_explained |= lost
        if not isinstance(outcome.error, NotTestable | NotApplicable):
            self._last = Loss(item, outcome)
        return outcome

    def _once_more(
        self, loss: Loss, target: Target, others: int, again: Callable[[], Outcome]
    ) -> Outcome:
        """Return the outcome of a test run alone: another one may have caused its failure."""
        error = loss.outcome.error
        assert isinstance(error, TargetLost)
        answered = any(entry.direction == "<" for entry in loss.outcome.transcript.entries)
        is_sure = answered and not others
        if error.is_own or (is_sure and "exploration" in loss.item.fixturenames):
            return loss.outcome
        outcome = again()
        outcome.reported = [*loss.outcome.reported, *outcome.reported]
        if isinstance(outcome.error, TargetLost):
            if outcome.is_lost_unused:
                reason = f"the target was lost before anything was sent: {outcome.error.outage}"
                return Outcome(Inconclusive(reason))
            return loss.outcome if is_sure else outcome
        if is_sure:
            why = "the test alone does not do it: see what went before"
            return _explained(loss.outcome, SERIALLY, why)
        if not others:
            self._blame_last(error.outage, target)
        elif error.outage.kind is OutcomeKind.CRASHED:
            # It may be gone for a moment as another test has started it again.
            self._dismissed.append(loss)
        return outcome

    def _dies(self, loss: Loss, error: TargetLost, target: Target, others: int) -> Outcome:
        """Return the outcome of a test after which the target could not be restored."""
        if self._died:
            return Outcome(NotTestable(self._died))
        blamed = loss
        if self._last is not None and not _has_begun(loss.outcome.transcript):
            blamed = self._last
            self._blame_last(error.outage, target)
        self._died = f"the target died during {blamed.item.name}"
        if blamed is not loss:
            return Outcome(NotTestable(self._died))
        if others:
            why = f"{others} other tests went on at the same time"
            return _explained(loss.outcome, error.owner, why)
        return loss.outcome

    def _blame_last(self, outage: Outage, target: Target) -> None:
        """Note that the test before has ended the target, if that is not known yet."""
        if self._last is None or isinstance(self._last.outcome.error, TargetLost):
            return
        item, seen = self._last
        error = TargetLost(GOES_ON, replace(outage, more=", as was seen when the test was over"))
        error.owner = owner_after(seen.error, seen.transcript.entries, seen.exhausts)
        # The text does not say that a server outlives exhaustion.
        error.de_facto = seen.exhausts
        self._late.append(Loss(item, Outcome(error, seen.transcript, said=target.said())))
        self._is_explained = True

    def late(self, is_over: bool) -> list[Loss]:
        """Return tests whose reported outcome is wrong by now.

        ``is_over``: no test goes on at the same time as others any more. If no test has ended the
        target alone, the first shows that it was lost, and their company is blamed.
        """
        if is_over and self._dismissed and not self._is_explained:
            item, outcome = self._dismissed[0]
            why = "other tests went on at the same time, and none of them does it alone"
            self._late.append(Loss(item, _explained(outcome, OVERLAP, why)))
            self._is_explained = True
        late, self._late = self._late, []
        return late

    def are_too_many(self, target: Target) -> bool:
        """Return whether a target is lost again and again."""
        return self.in_a_row >= MOST[target.exclusive]
