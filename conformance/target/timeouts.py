"""The timeouts of replies: one rule, without any state.

A reply that is missing after the full timeout is missing. The full timeout is never shorter than
twice the slowest reply to the same command in the survey. A shorter timeout serves only searches
whose result is confirmed with the full one: shrinking, and the replay of candidates.
"""

from __future__ import annotations

from conformance.target.limits import Limits
from conformance.target.traits import Traits

SLOWER = 2.0
"""Times the slowest reply of the survey that a target gets for any other."""
SHORT = 0.5
"""Seconds of a short timeout, unless the target has shown that it is slower."""


def full_timeout(command: str, limits: Limits, traits: Traits) -> float:
    """Return the timeout of a reply to this command, in seconds."""
    return max(limits.reply, SLOWER * traits.slowest(command))


def short_timeout(limits: Limits, traits: Traits) -> float:
    """Return the timeout of any reply in a search whose result is confirmed, in seconds."""
    return min(max(SHORT, SLOWER * traits.slowest()), limits.reply)


def end_timeout(seconds: float, traits: Traits) -> float:
    """Return for how many of so many seconds the end of a connection is awaited.

    Hardly any if the target does not end a connection when its client half-closes it.
    """
    return seconds if traits.ends_connections else min(BRIEF, seconds)


BRIEF = 0.01
"""Seconds for the end of a connection where the target is known not to end any."""
