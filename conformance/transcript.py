"""Transcripts: the bytes on the wire, by connection, in order, with times.

The format is text, one line a message, bytes escaped so that nothing is lost::

    A > put 0 0 60 5\\r\\nhello\\r\\n
    A < INSERTED 1\\r\\n
    B > reserve\\r\\n
    + 2s
    B < RESERVED 1 5\\r\\nhello\\r\\n
    ! SIGUSR1

Time is written where it has passed: `+ 2s` before the next message, as each of them has its time.
``+ 2s at once`` is a clock that was moved: the target did not see the times in between. A last
line of time says for how long nothing more came.

What happens to the target as a whole, a signal or ``! restarts``, names no connection.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from reference_server.commands import ABOUT_A_JOB, ABOUT_A_TUBE, any_of
from reference_server.entries import AT_ONCE as AT_ONCE
from reference_server.entries import CLIENT_CLOSES as CLIENT_CLOSES
from reference_server.entries import CLIENT_HALF_CLOSES as CLIENT_HALF_CLOSES
from reference_server.entries import CLIENT_RESETS as CLIENT_RESETS
from reference_server.entries import FOLD as FOLD
from reference_server.entries import GRAIN as GRAIN
from reference_server.entries import RESTARTS as RESTARTS
from reference_server.entries import TARGET_CLOSES as TARGET_CLOSES
from reference_server.entries import Direction as Direction
from reference_server.entries import Entry as Entry
from reference_server.entries import letters as letters
from reference_server.entries import written

CLIENT_ENDS = frozenset({CLIENT_CLOSES, CLIENT_HALF_CLOSES, CLIENT_RESETS})
"""The events by which a client leaves."""
HEAD, TAIL = 12, 25
"""Messages that a reader is shown of a long transcript."""
AKIN, OWN = 30, 5
"""Of those in between, messages about the same job or tube, and the client's last commands."""


BEGINS = "# Counted before: "
"""The beginning of the line with the counters of before."""
_NAMES = re.compile(
    rb"(?:^|\n)(?:%b ([0-9]+)|%b ([^ \r\n]+))"
    % (
        any_of("RESERVED", "FOUND", "INSERTED", "stats", "id:", *ABOUT_A_JOB),
        any_of("USING", *ABOUT_A_TUBE),
    )
)
"""Where a message names a job or a tube."""
OWN_TUBES = "conformance-"
"""The beginning of the names of the suite's own tubes, which nobody else has used."""
STOPS, CONTINUES = b"SIGSTOP", b"SIGCONT"
"""The events of a target that does nothing in between."""
LIMITED = b" limited"
"""The end of the event of a target that gets less of something than it needs."""


class NotATranscript(ValueError):
    """A text cannot be read as a transcript; the message names the line and the reason."""


class Counters(NamedTuple):
    """A target's counters, in its stats and in those of default, and the id of its next job."""

    stats: Mapping[str, str]
    of_default: Mapping[str, str]
    next_id: int


class Claim(NamedTuple):
    """The observation of the failure that a transcript was pasted with.

    ``requirement``: the one that the failure is of, empty if it does not name any.
    """

    observed: str
    requirement: str = ""


@dataclass
class Transcript:
    """The entries of one scenario; safe to write from several threads."""

    entries: list[Entry] = field(default_factory=list)
    begins: Counters | None = None
    """The counters of the target before, if nobody else used it."""
    claim: Claim | None = None
    """The observation of the failure that it was read from."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __reduce__(self) -> tuple[type[Transcript], tuple[list[Entry], Counters | None]]:
        """Return how it is made again elsewhere, with a lock of its own."""
        return Transcript, (list(self.entries), self.begins)

    @property
    def last(self) -> int:
        """The position of the last message; -1 if there is none."""
        return len(self.entries) - 1

    @property
    def last_message(self) -> int:
        """The position of the last entry besides those of time; -1 if there is none."""
        places = range(len(self.entries) - 1, -1, -1)
        return next((place for place in places if self.entries[place].direction != "+"), -1)

    def last_of(self, connection: str) -> int:
        """Return the position of the last message of a connection; it must have one."""
        return max(n for n, entry in enumerate(self.entries) if entry.connection == connection)

    def add(self, connection: str, direction: Direction, data: bytes, time: float) -> int:
        """Record a message and give its position."""
        with self._lock:
            self.entries.append(Entry(connection, direction, data, time))
            return self.last

    def add_time(self, time: float, moved_from: float | None = None) -> int:
        """Record that the target was observed up to a time, and give the position.

        ``moved_from``: its clock showed this before it was moved there.
        """
        if moved_from is None:
            return self.add("", "+", b"", time)
        self.add("", "+", b"", moved_from)
        return self.add("", "+", AT_ONCE, time)

    def add_to_reply(self, connection: str, data: bytes, time: float) -> int:
        """Record bytes received, with those of the entry before if these are their rest."""
        with self._lock:
            last = self.entries[-1] if self.entries else None
            if (
                last
                and (last.connection, last.direction) == (connection, "<")
                and not last.data.endswith(b"\n")
            ):
                self.entries[-1] = Entry(connection, "<", last.data + data, last.time)
                return self.last
        return self.add(connection, "<", data, time)

    def copy(self) -> Transcript:
        """Return the transcript as it is now."""
        with self._lock:
            return Transcript(list(self.entries), self.begins)

    def until(self, mark: int) -> Transcript:
        """Return the transcript up to a message."""
        return Transcript(self.entries[: mark + 1], self.begins)

    @property
    def head(self) -> str:
        """Return the target's earlier counters as a line of the format; empty if they are open."""
        return f"{BEGINS}{json.dumps(self.begins)}\n" if self.begins else ""

    def render(self, marked: int | None = None, fold: bool = True) -> str:
        """Return all entries, two columns indented; ``marked`` gets an arrow.

        With ``fold``, a long transcript is cut before what leads to the marked entry.
        """
        return rendered(self.entries, marked, fold)


def rendered(entries: Sequence[Entry], marked: int | None = None, fold: bool = True) -> str:
    """Return entries as :meth:`Transcript.render` does."""
    return written(
        entries, _relevant(entries, marked) if fold else range(len(entries)), marked, fold
    )


def _relevant(entries: Sequence[Entry], marked: int | None) -> Iterable[int]:
    """Return the messages that have to do with the marked one, as far as one can see."""
    end = len(entries) if marked is None else marked + 1
    # A command that was never answered may be long before the end.
    after = _ends(range(end, len(entries)), HEAD, HEAD)
    hidden = range(HEAD, end - TAIL)
    plain = [*_ends(range(end), HEAD, TAIL), *after]
    if not hidden or marked is None:
        return plain
    shown = entries[marked]
    own: deque[int] = deque(maxlen=OWN)
    akin: deque[int] = deque(maxlen=AKIN)
    asked = (shown.connection, ">")
    own.extend(n for n in range(marked) if (entries[n].connection, entries[n].direction) == asked)
    about = _names(shown.data).union(*(_names(entries[n].data) for n in list(own)[-1:]))
    akin.extend(
        number
        for number in hidden
        if not entries[number].connection or not about.isdisjoint(_names(entries[number].data))
    )
    return sorted({*plain, *own, *akin})


def _ends(numbers: range, first: int, last: int) -> list[int]:
    """Return the first and the last of numbers; all of them if none is left out."""
    if len(numbers) <= first + last:
        return [*numbers]
    return [*numbers[:first], *numbers[-last:]]


def _names(data: bytes) -> set[bytes]:
    """Return the jobs and tubes that a message names, apart from default."""
    named = {job or tube for job, tube in _NAMES.findall(data)}
    return named - {b"default"}
