"""What only looks: the commands peek and list, and what an oracle asks of a state."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sortedcontainers import SortedList

from reference_server import stats, wire
from reference_server.commands import U64
from reference_server.profiles import Profile
from reference_server.state import Alarm, Bag, Connection, Job, Timer, Tube
from reference_server.wire import Reply


def _most_urgent(tube: Tube, pri: int) -> Iterator[int]:
    """The ids of a tube's ready jobs with this priority."""
    return (id for _, id in tube.ready.irange((pri, 0), (pri, U64)))


class Queries:
    """The part of the model that only looks."""

    profile: Profile
    jobs: dict[int, Job]
    tubes: Bag[Tube]
    connections: dict[int, Connection]
    choose: Callable[[Sequence[Any]], Any]
    tie = 0
    """Nanoseconds by which the ends of two delays must differ to be told apart."""
    _by_name: dict[str, Tube]
    _timers: SortedList[Alarm]

    def is_waiting(self, conn: int) -> bool:
        """Whether a connection waits for a job; its next command must wait as well."""
        return self.connections[conn].waiting

    def is_paused(self, tube: str) -> bool:
        """Whether a tube, if there is one of this name, is paused."""
        return tube in self._by_name and bool(self._by_name[tube].pause)

    def next_ready(self, conn: int) -> Job | None:
        """Return a job that a connection may get if it reserves one now; None if there is none."""
        ids = self._next_ids(self.connections[conn])
        return self.jobs[ids[0]] if ids else None

    def due(self, now: int) -> list[Alarm]:
        """The timers that have fallen due by ``now``, in order."""
        return list(itertools.takewhile(lambda alarm: alarm[0] <= now, self._timers))

    def holder(self, alarm: Alarm) -> int | None:
        """The connection whose job's TTR a timer is; None if it is another timer."""
        _, kind, subject = alarm
        if kind is not Timer.TTR:
            return None
        assert isinstance(subject, int)
        job = self.jobs[subject]
        assert job.reserver is not None
        return job.reserver.id

    def _next_ready(self, conn: Connection) -> Job | None:
        """Return the job that a reserve gets; None if there is none."""
        ids = self._next_ids(conn)
        if not ids:
            return None
        return self.jobs[ids[0] if len(ids) == 1 else self.choose(ids)]

    def _next_ids(self, conn: Connection) -> list[int]:
        """Return the ids of the jobs, the smallest in priority in all watched, unpaused tubes, of
        which a reserve gets one: the oldest with beanstalkd."""
        best = None
        for tube in conn.watch:
            if tube.ready and not tube.pause and (best is None or tube.ready[0] < best):
                best = tube.ready[0]
        if best is None:
            return []
        if self.profile.first_in_first_out:
            return [best[1]]
        # Within a priority the text names no order.
        unpaused = (tube for tube in conn.watch if not tube.pause)
        return sorted(id for tube in unpaused for id in _most_urgent(tube, best[0]))

    def _next_of(self, tube: Tube) -> Job | None:
        """The ready job of a tube that is next, whoever comes."""
        head = self._head(tube.ready)
        if head is None or self.profile.first_in_first_out:
            return head
        equal = list(_most_urgent(tube, head.pri))
        return head if len(equal) == 1 else self.jobs[self.choose(equal)]

    def _head(self, queue: SortedList[tuple[int, int]]) -> Job | None:
        return self.jobs[queue[0][1]] if queue else None

    def _soonest(self, tube: Tube, taken: int = 0) -> Job | None:
        """The delayed job whose delay ends first; ``taken`` are taken at once, in any order."""
        head = self._head(tube.delayed)
        if head is None or not self.tie:
            return head
        end = head.deadline + self.tie
        near = itertools.takewhile(lambda entry: entry[0] <= end, tube.delayed)
        jobs = [self.jobs[id] for _, id in near]
        # It is among those that are taken whichever of the others comes before it.
        return head if len(jobs) <= max(taken, 1) else self.choose(jobs)

    def _found(self, job: Job | None) -> Reply:
        return wire.NOT_FOUND if job is None else wire.FOUND(job.id, job.body, *self._told(job))

    def _told(self, job: Job) -> tuple[int, ...]:
        """What RESERVED and FOUND tell of a job besides its id and its body."""
        return (job.pri,) if self.profile.tells_priority else ()

    def _peek(self, _: Connection, id: int) -> Reply:
        return self._found(self.jobs.get(id))

    def _peek_ready(self, conn: Connection) -> Reply:
        return self._found(self._next_of(conn.use))

    def _peek_delayed(self, conn: Connection) -> Reply:
        return self._found(self._soonest(conn.use))

    def _peek_buried(self, conn: Connection) -> Reply:
        return self._found(next(iter(conn.use.buried.values()), None))

    def _list_tube_used(self, conn: Connection) -> Reply:
        return wire.USING(conn.use.name)

    def _list_tubes_watched(self, conn: Connection) -> Reply:
        return wire.OK(stats.names(conn.watch))
