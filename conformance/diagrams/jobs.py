"""The states of jobs during a conversation, deduced by the oracle."""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from conformance.oracle.judge import Judge
from conformance.oracle.judged_entries import first_violation
from conformance.oracle.reply_comparison import NOTHING, Before
from conformance.recorded import RecordedConversation
from conformance.transcript import Entry
from conformance.verdict import Inconclusive
from reference_server.profiles import Profile
from reference_server.state import Job, JobState

MOST_JOBS = 64
"""Jobs of a server beyond which their states are not followed any more."""
MOST_SECONDS = 1.0
"""Seconds after which the oracle gives up."""


class _Seen(NamedTuple):
    """A job after a message: its state, its holder, and when a timer ends that (nanoseconds)."""

    state: JobState
    holder: int | None
    until: int | None

    @classmethod
    def of(cls, job: Job) -> _Seen:
        """Return what is to be seen of a job."""
        is_timed = job.state in (JobState.RESERVED, JobState.DELAYED)
        holder = job.reserver.id if job.reserver else None
        return cls(job.state, holder, job.deadline if is_timed else None)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A job in one state; places are positions of messages, 2.5 is halfway to the fourth one."""

    job: int
    state: JobState
    holder: str
    begin: float
    end: float


class _Course:
    """Follows the jobs of a server; :meth:`look` is called after each message."""

    def __init__(self, entries: Sequence[Entry], profile: Profile) -> None:
        self.stretches: list[Stretch] = []
        self.position = -1
        self._entries = entries
        self._times = [entry.time for entry in entries]
        self._places = [n for n, entry in enumerate(entries) if entry.direction != "+"]
        """The messages between which time passes."""
        self._profile = profile
        self._open: dict[int, tuple[_Seen, float]] = {}
        self._names: dict[int, str] = {}
        self._end = time.monotonic() + MOST_SECONDS

    def look(self, position: int, judge: Judge, clients: dict[str, int]) -> None:
        """Note the states after a message. Raises Inconclusive where they take too long."""
        judge.give_up_at(self._end)
        if time.monotonic() > self._end or len(judge.model.jobs) > MOST_JOBS:
            raise Inconclusive("too much to follow")
        self._names |= {number: name for name, number in clients.items()}
        self.position = position
        oracle = judge.oracle
        known = oracle.jobs()
        now = {id: _Seen.of(job) for id, job in oracle.model.jobs.items() if id in known}
        for id in self._open.keys() - now.keys():
            self._close(id, position)
        for id, seen in now.items():
            before, begin = self._open.get(id, (None, float(position)))
            if before is not None and before[:2] != seen[:2]:
                begin = self._close(id, position)
            elif before is None and (born := self._entries[position]).direction == "<":
                begin = self._asked(position, born.connection)
            self._open[id] = seen, begin

    def _asked(self, position: int, connection: str) -> float:
        """Return the place of the last thing that a client has sent."""
        for place in range(position, -1, -1):
            entry = self._entries[place]
            if (entry.connection, entry.direction) == (connection, ">"):
                return float(place)
        return float(position)

    def _close(self, id: int, position: int) -> float:
        """End the stretch of a job, at the end of its timer or at a message; return where."""
        seen, begin = self._open.pop(id)
        place = float(position)
        if seen.until is not None and seen.until / 1e9 <= self._times[position]:
            place = max(begin, self._place(seen.until / 1e9, position))
        name = "" if seen.holder is None else self._names.get(seen.holder, "")
        self.stretches.append(Stretch(id, seen.state, name, begin, place))
        return place

    def _place(self, seconds: float, position: int) -> float:
        after = bisect_right(self._places, seconds, key=self._times.__getitem__)
        if after == 0 or after == len(self._places) or self._places[after] > position:
            return float(position)
        left, right = self._places[after - 1 : after + 1]
        earlier, later = self._times[left], self._times[right]
        return left + (right - left) * (seconds - earlier) / (later - earlier)

    def finish(self) -> None:
        """End all stretches that are still open, at the message that ended the search."""
        following = range(self.position + 1, len(self._entries))
        end = float(
            next((n for n in following if self._entries[n].direction != "+"), self.position)
        )
        for id, (seen, begin) in list(self._open.items()):
            name = "" if seen.holder is None else self._names.get(seen.holder, "")
            self.stretches.append(Stretch(id, seen.state, name, begin, end))
        self._open.clear()


def states_of_jobs(
    recorded: RecordedConversation, profile: Profile, before: Before = NOTHING
) -> list[Stretch]:
    """Return the states of the jobs, up to the first message that the model does not explain.

    Times must be known, and must not decrease.
    """
    entries = recorded.entries
    course = _Course(entries, profile)
    with contextlib.suppress(Inconclusive):
        first_violation(
            entries, recorded.begins, profile, lenient=True, before=before, look=course.look
        )
    course.finish()
    return course.stretches
