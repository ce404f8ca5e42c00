"""The timeouts of a target: one rule, without state.

A reply that is missing after the full timeout is missing. No timeout is shorter than twice the
slowest reply to the same command in the survey. Short ones serve only searches whose result is
confirmed with the full one: shrinking, and the replay of candidates.
"""

from __future__ import annotations

from conformance.target.traits import Traits

SHORT = 0.5
"""Seconds of a short timeout, unless the target has shown that it is slower."""
_SLOWER = 2.0
"""Times the slowest reply of the survey that a target gets for any other."""
_BRIEF = 0.01
"""Seconds for the end of a connection where the target is known not to end any."""


def lengthened(seconds: float, traits: Traits, command: str = "") -> float:
    """Return a timeout of so many seconds, or longer if replies to this command need that.

    Without a command, replies to any.
    """
    return max(seconds, _SLOWER * traits.slowest(command))


def end_timeout(seconds: float, traits: Traits) -> float:
    """Return the timeout for the end of a connection, which is at most ``seconds``.

    Hardly any if the target does not end a connection when its client half-closes it.
    """
    return seconds if traits.ends_connections else min(_BRIEF, seconds)
