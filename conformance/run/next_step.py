"""The next step for the author of an unfinished server: the commands that unblock most."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from conformance.run.aggregation import RequirementVerdict
from conformance.target.traits import TUBE_COMMANDS
from conformance.usual_answers import usual_answer
from reference_server.profiles import Profile
from reports.words import counted


def next_step(
    unusable: Collection[str], profile: Profile, judgements: Iterable[RequirementVerdict]
) -> str:
    """Return which of the ``unusable`` commands to implement first; empty if none blocks any.

    Commands of tubes count as one: no test can do with some of them.
    """
    steps = [tuple(verb for verb in TUBE_COMMANDS if verb in unusable)]
    steps += [(verb,) for verb in unusable if verb not in TUBE_COMMANDS]
    blockers = [set(entry.blocked_by) for entry in judgements if entry.blocked_by]
    counts = {}
    for step in filter(None, steps):
        owners = {usual_answer(verb, profile) for verb in step}
        counts[step] = sum(found <= owners for found in blockers)
    best = max(counts, key=counts.__getitem__, default=())
    if not best or not counts[best]:
        return ""
    *others, last = (f"`{verb}`" for verb in best)
    names = f"{', '.join(others)} and {last}" if others else last
    waiting = counted(counts[best], "requirement")
    return f"next step: make {names} work; {waiting} can then be tested"
