"""The commands that only look: peek and the lists."""

from __future__ import annotations

from sortedcontainers import SortedList

from reference_server import stats, wire
from reference_server.state import Bag, Connection, Job, Tube
from reference_server.wire import Reply


class Queries:
    """The part of the model that only looks."""

    jobs: dict[int, Job]
    tubes: Bag[Tube]
    _by_name: dict[str, Tube]

    def _head(self, queue: SortedList[tuple[int, int]]) -> Job | None:
        return self.jobs[queue[0][1]] if queue else None

    def _found(self, job: Job | None) -> Reply:
        return wire.NOT_FOUND if job is None else wire.FOUND(job.id, job.body)

    def _peek(self, _: Connection, id: int) -> Reply:
        return self._found(self.jobs.get(id))

    def _peek_ready(self, conn: Connection) -> Reply:
        return self._found(self._head(conn.use.ready))

    def _peek_delayed(self, conn: Connection) -> Reply:
        return self._found(self._head(conn.use.delayed))

    def _peek_buried(self, conn: Connection) -> Reply:
        return self._found(next(iter(conn.use.buried.values()), None))

    def _list_tubes(self, _: Connection) -> Reply:
        return wire.OK(stats.names(self.tubes))

    def _list_tube_used(self, conn: Connection) -> Reply:
        return wire.USING(conn.use.name)

    def _list_tubes_watched(self, conn: Connection) -> Reply:
        return wire.OK(stats.names(conn.watch))
