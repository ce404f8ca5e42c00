"""Conversations without times, such as pasted sessions.

Any time may have passed before each message. All that matters is whether a timer of the
conversation has ended by then. So a violation is looked for where no time has passed; then time is
let pass, of a length that ends some timer, one pause after the other, where that explains more of
the conversation. What is left is a violation: only two pauses that explain nothing one by one might
explain it together.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from conformance.oracle.judged_entries import JudgedMessages
from conformance.oracle.reply_comparison import NOTHING
from conformance.transcript import Entry
from conformance.verdict import Inconclusive

MOST = 200_000
"""Messages that are judged at most, those of all tried times together."""
UNTIMED = NOTHING._replace(is_timed=False)
_TIMERS = re.compile(
    rb"put +[0-9]+ +([0-9]+) +([0-9]+) |(?:release +[0-9]+ +[0-9]+|pause-tube +[^ ]+"
    rb"|reserve-with-timeout) +([0-9]+)"
)
_BEYOND, _MARGIN = 0.1, 0.5
"""Seconds after the end of a timer, and before the end of a job's time to run."""


def are_unknown(entries: Sequence[Entry]) -> bool:
    """Tell whether nobody knows when these messages were sent and received."""
    return bool(entries) and math.isnan(entries[0].time)


def at_any_times(
    entries: Sequence[Entry], judge: Callable[[Sequence[Entry]], JudgedMessages]
) -> tuple[Sequence[Entry], JudgedMessages]:
    """Return the messages at the times that explain most of them, and how they are judged then.

    ``judge`` judges them at some times. Raises Inconclusive if there are too many
    of them.
    """
    pauses = [0.0] * len(entries)
    timed = list(_timed(entries, pauses))
    judged = judge(timed)
    lengths, left = sorted(_lengths(entries)), MOST
    while (violation := judged.violation) is not None:
        for place, seconds in itertools.product(range(violation.mark, -1, -1), lengths):
            if (left := left - violation.mark - 1) < 0:
                raise Inconclusive("no times are known, and too many are possible")
            tried = [*pauses[:place], pauses[place] + seconds, *pauses[place + 1 :]]
            later = list(_timed(entries, tried))
            found = judge(later)
            if found.violation is None or found.violation.mark > violation.mark:
                pauses, timed, judged = tried, later, found
                break
        else:
            break
    return timed, judged


def _timed(entries: Sequence[Entry], pauses: Sequence[float]) -> Iterator[Entry]:
    """Yield the messages, each so many seconds after the one before."""
    now = itertools.accumulate(pauses)
    return (replace(entry, time=time) for entry, time in zip(entries, now, strict=True))


def _lengths(entries: Sequence[Entry]) -> set[float]:
    """Return lengths of time, in seconds, after which something ends."""
    found: set[float] = set()
    for entry in entries:
        for delay, ttr, other in _TIMERS.findall(entry.data) if entry.direction == ">" else ():
            found |= {float(seconds) + _BEYOND for seconds in (delay, ttr, other) if seconds}
            found |= {max(float(ttr) - _MARGIN, _BEYOND)} if ttr else set()
    return found
