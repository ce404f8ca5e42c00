"""A failure that may not be the target's fault: whether we or the target were late.

Only a deviation that may depend on time is suspected, and only in a scenario that fell behind its
schedule or got a late reply. A late target is no excuse, unless it waited for a CPU that others
had, and not only its own idle threads; but nobody knows which of its timers fired meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from conformance.dialogue.scenario import Scenario
from conformance.dialogue.schedule import BELIEVABLE
from conformance.target.profile_detection import answers
from conformance.target.resting import spins
from conformance.target.starvation import SEEN, Starved
from conformance.target.target import Target
from conformance.verdict import Deviation, TargetLost

BUSY = "the machine was too busy to decide"


@dataclass(frozen=True, slots=True)
class SuspectedFlake:
    """The reason to repeat a test; ``reason`` is empty if no lateness was observed.

    ``is_race``: a clock was moved before the target can be known to have read what was sent. That
    is no excuse for an attempt that has given it the longest time for that.
    """

    reason: str = ""
    is_race: bool = False


RACE = SuspectedFlake(
    "a clock was moved before the target can be known to have read what was sent", True
)


def suspect_flake(error: Deviation, scenario: Scenario) -> SuspectedFlake | None:
    """Return why a failure should be looked for again; None if it is believed at once."""
    if error.conclusive or isinstance(error, TargetLost):
        return None
    clock, since, target = scenario.clock, scenario.starvation.since, scenario.target
    if error.late:
        # We were in time if we were so when it was due; a target may have read the command late.
        return _busy(since(error.begun, error.due), error.late, target) or SuspectedFlake()
    behind = clock.behind - error.waited
    if behind > BELIEVABLE:
        return _busy(since(), behind, target) or _slow(clock.latencies, behind)
    if error.waited and (busy := _busy(since(error.begun), error.waited, target)):
        return busy
    return RACE if clock.raced else None


def _busy(starved: Starved, seconds: float, target: Target) -> SuspectedFlake | None:
    """Return the excuse, if starvation explains that something took so much longer."""
    if SEEN * starved.seconds < seconds:
        return None
    if SEEN * starved.own < seconds and _is_busy_with_itself(target):
        return None
    return SuspectedFlake(f"{BUSY} ({starved})")


def _is_busy_with_itself(target: Target) -> bool:
    """Tell whether a target that has answered everything still uses a CPU all the time.

    Others cannot have kept it from what it would have done there.
    """
    is_done = answers(target.address, target.sync_line, target.limits.reply)
    return is_done and spins(target.cpu_time)


def _slow(latencies: list[float], behind: float) -> SuspectedFlake:
    """Return the excuse of a scenario that fell behind though nobody had to wait for a CPU."""
    took = sum(latencies)
    if took < behind / 2:
        what = f"the scenario took {behind:.1f} s longer than planned"
    else:
        what = f"the target took {took:.1f} s for {len(latencies)} replies that were due at once"
    return SuspectedFlake(f"{what}, which is too long to know which timers fired meanwhile")
