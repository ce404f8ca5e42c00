"""``replay``: runs a transcript on a target again, and judges the result."""

from __future__ import annotations

import contextlib

from conformance.oracle.check import Finding, check, found
from conformance.oracle.underspecification import has_taken_open_line
from conformance.oracle.violation import Violation
from conformance.random_testing.confined import Confinement
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.levels import diagnosis_of
from conformance.random_testing.replay import Counterexample, as_observed, lost, program_of
from conformance.random_testing.session import Session
from conformance.random_testing.steps import waits
from conformance.target.target import Target
from conformance.transcript import Transcript
from conformance.verdict import Inconclusive, NotTestable, TargetLost
from reference_server.profiles import Profile

LONGEST = 600.0
"""Seconds that a replay waits in all, where nobody can move the clock of the target."""


def replayed(
    target: Target, profile: Profile, transcript: Transcript, unsafe: bool = False
) -> tuple[Transcript, Finding | None]:
    """Return the new transcript and its violation; raise Inconclusive or NotTestable.

    On a target that others use, it is confined to tubes and jobs of its own, unless it is
    ``unsafe``; raises Unsafe where that is impossible.
    """
    program, home = program_of(transcript), b""
    if not target.clock.movable and (seconds := waits(program)) > LONGEST:
        raise NotTestable(f"it waits for {seconds:,.0f} s, which needs a clock that can be moved")
    if not (target.exclusive or unsafe):
        if not profile.has_tubes:
            raise NotTestable("without tubes, this server has one queue for the jobs of all")
        confinement = Confinement()
        program, home = confinement.confined(program), confinement.home
    try:
        session = Session(target, profile, lenient=True, home=home)
    except TargetLost as error:
        return Transcript(), Finding(-1, error.expected, error.observed, "must")
    try:
        session.play(program)
    except Violation as violation:
        seen = Counterexample(program, as_observed(violation, target), session.transcript)
        return _judged(target, profile, seen)
    except OSError as error:
        seen = Counterexample(program, lost(error, session), session.transcript)
        return _judged(target, profile, seen)
    finally:
        session.abandon()
        if not target.exclusive:
            session.clean_up()
    shown = session.transcript
    with contextlib.suppress(Inconclusive):
        return shown, check(shown, profile)
    return shown, None


def _judged(target: Target, profile: Profile, seen: Counterexample) -> tuple[Transcript, Finding]:
    """Return a violation, without the lines that are open if that is possible."""
    if target.exclusive:
        # Where others are, it is not done again and again.
        seen = Exploration(1, profile=profile).most_severe(seen, target)
    diagnosis = diagnosis_of(seen, profile)
    conclusive = not target.exclusive and not (
        diagnosis.of_failures or has_taken_open_line(seen.shown.entries, profile)
    )
    return seen.transcript, found(seen.violation, diagnosis, conclusive and diagnosis.is_loosened)
