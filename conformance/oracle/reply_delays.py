"""The delays of a target's replies, as far as a transcript shows them.

A transcript has the times at which bytes were sent and received, and not those at which the target
handled them. So every action of a target may be as late as its slowest immediate reply: a network
or a busy machine delays all of them. What is later than that, and later than a run
allows, is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from conformance.transcript import AT_ONCE, GRAIN, Entry
from reference_server.commands import WAITING, any_of
from reference_server.state import SECOND

ROUNDED = round(2 * GRAIN * SECOND)
"""Nanoseconds by which a written wait may be too short: both its ends are rounded down, and so is
the time for which the clock was moved meanwhile."""
PROMPT = 5 * SECOND - ROUNDED
"""Nanoseconds after which a reply that comes at once is missing, as in a run."""
LATENESS = SECOND // 4 - ROUNDED
"""Nanoseconds by which a timer may be late, as in a run."""
NOISE = SECOND // 50
"""Nanoseconds that any reply may take: a run takes no account of them."""
PUNCTUAL = SECOND
"""Nanoseconds after which the reply to a timer is missing: nobody has measured what else the
machine did."""
_WAITS = re.compile(rb"(?:^|\n)%b" % any_of(*WAITING))
_LACKS_ITS_BODY = re.compile(rb"(?:^|\n)put [^\n]*\n$")


@dataclass(frozen=True, slots=True)
class ReplyDelays:
    """Nanoseconds after which something has happened, or is missing.

    ``lateness``: by which a timer has fired when the next command is handled. ``punctual``: after
    which the reply has come that a timer causes, ``prompt`` that any other causes.
    """

    lateness: int = LATENESS
    punctual: int = PUNCTUAL
    prompt: int = PROMPT

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> ReplyDelays:
        """Return the pace of the target of a transcript."""
        slowest = _slowest(entries)
        return cls(LATENESS + (slowest if slowest > NOISE else 0), PUNCTUAL + slowest)


def _slowest(entries: Iterable[Entry]) -> int:
    """Return the longest time that a reply took which was not missing, but came at once."""
    asked: dict[str, float] = {}
    slowest = before = moved = 0.0
    for entry in entries:
        if entry.direction == "+" and entry.data == AT_ONCE:
            moved += entry.time - before
        before = entry.time
        now = entry.time - moved
        if entry.direction == ">":
            if _WAITS.search(entry.data):
                asked[entry.connection] = -PROMPT
            elif entry.connection not in asked and not _LACKS_ITS_BODY.search(entry.data):
                asked[entry.connection] = now
        elif entry.direction == "<":
            took = now - asked.pop(entry.connection, now)
            if took * SECOND <= PROMPT:
                slowest = max(slowest, took)
    return round(slowest * SECOND)
