"""Servers that answer everything right, and waste time or memory: as data, for the tests."""

from __future__ import annotations

from typing import Any, NamedTuple

from sortedcontainers import SortedList

from conformance.scale.workloads import Growth
from reference_server.events import Event, Output
from reference_server.model import Model
from reference_server.state import Client, Job, Tube
from reference_server.wire import Command, Put, Reply


class CostFault(NamedTuple):
    """A fault; ``grows`` and ``command`` find it, by this ``exponent``.

    What is measured is a part of the past, too: that lowers an exponent by past jobs.
    """

    summary: str
    model: type[Model]
    grows: Growth
    command: str
    exponent: float = 1.0
    largest: int = 810


def _look(items: Any) -> None:
    """Look at each of these."""
    for _ in items:
        pass


class _Searched(dict[int, Job]):
    def get(self, id: int, default: Any = None) -> Any:
        for other in self:
            if other == id:
                return self[id]
        return default


class JobsAreSearched(Model):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.jobs = _Searched()


class _Scanned(SortedList[tuple[int, int]]):
    def add(self, value: Any) -> None:
        for other in self:
            if other > value:
                break
        super().add(value)


class ReadyIsScanned(Model):
    def _tube(self, name: str) -> Tube:
        tube = super()._tube(name)
        if not isinstance(tube.ready, _Scanned):
            tube.ready = _Scanned()
        return tube


class DelayedIsScanned(Model):
    def _tube(self, name: str) -> Tube:
        tube = super()._tube(name)
        if not isinstance(tube.delayed, _Scanned):
            tube.delayed = _Scanned()
        return tube


class TubesAreSearched(Model):
    def _tube(self, name: str) -> Tube:
        for tube in self.tubes:
            if tube.name == name:
                return tube
        return super()._tube(name)


class AllTubesAreVisited(Model):
    """As beanstalkd does it: each tube might have a pause that ends."""

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        _look(self.tubes)
        return super().step(event, now, conn)


class WaitingClientsAreSearched(Model):
    def _serve(self, job: Job) -> None:
        _look(job.tube.waiting)
        super()._serve(job)


class WatchListsAreQuadratic(Model):
    def _watch(self, conn: Client, name: str) -> Reply:
        for _ in conn.watch:
            _look(conn.watch)
        return super()._watch(conn, name)


class ReservedJobsAreSearched(Model):
    def _held(self, conn: Client, id: int) -> Job | None:
        for job in conn.reserved.values():
            if job.id == id:
                return job
        return None


class BuriedJobsAreCounted(Model):
    def _kick(self, conn: Client, bound: int) -> Reply:
        _look(conn.use.buried)
        return super()._kick(conn, bound)


class ConnectionsAreLookedThrough(Model):
    def _put(self, conn: Client, put: Put) -> None:
        _look(self.connections)
        super()._put(conn, put)


class ConnectionsAreNumberedAnew(Model):
    def _connect(self, number: int) -> None:
        _look(self.connections)
        super()._connect(number)


class JobsAreCounted(Model):
    def _stats(self, conn: Client) -> Reply:
        _look(self.jobs)
        return super()._stats(conn)


class ListTubesIsQuadratic(Model):
    def _list_tubes(self, conn: Client) -> Reply:
        for _ in self.tubes:
            _look(self.tubes)
        return super()._list_tubes(conn)


class CommandsAreKept(Model):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.past: list[object] = []

    def _command(self, conn: Client, command: Command) -> None:
        self.past.append(command)
        super()._command(conn, command)


class CommandsAreLookedUp(CommandsAreKept):
    def _command(self, conn: Client, command: Command) -> None:
        if command.verb == "delete":
            _look(self.past)
        super()._command(conn, command)


class BodiesAreQuadratic(Model):
    def _body(self, conn: Client, data: bytes | None) -> Reply:
        for _ in data or b"":
            _look(data or b"")
        return super()._body(conn, data)


FAULTS = (
    CostFault("jobs are searched one by one", JobsAreSearched, Growth.READY, "peek"),
    CostFault("ready jobs are inserted linearly", ReadyIsScanned, Growth.READY, "put"),
    CostFault(
        "delayed jobs are inserted linearly",
        DelayedIsScanned,
        Growth.DELAYED,
        "put",
    ),
    CostFault("tubes are searched one by one", TubesAreSearched, Growth.TUBES, "use"),
    CostFault("all tubes are looked through", AllTubesAreVisited, Growth.TUBES, "put"),
    CostFault("waiting clients are searched", WaitingClientsAreSearched, Growth.WAITING, "put"),
    CostFault(
        "watch lists are quadratic",
        WatchListsAreQuadratic,
        Growth.WATCHED,
        "watch",
        2.0,
        90,
    ),
    CostFault("reserved jobs are searched", ReservedJobsAreSearched, Growth.RESERVED, "touch"),
    CostFault("a kick counts buried jobs", BuriedJobsAreCounted, Growth.BURIED, "kick"),
    CostFault("a put looks through all clients", ConnectionsAreLookedThrough, Growth.IDLE, "put"),
    CostFault("a new client is numbered anew", ConnectionsAreNumberedAnew, Growth.IDLE, "connect"),
    CostFault("stats count all jobs", JobsAreCounted, Growth.READY, "stats"),
    CostFault("list-tubes is quadratic", ListTubesIsQuadratic, Growth.TUBES, "list-tubes", 2.0, 90),
    CostFault("past commands are looked up", CommandsAreLookedUp, Growth.PAST, "delete", 0.6, 2430),
    CostFault("a body is read in quadratic time", BodiesAreQuadratic, Growth.BODY, "put", 2.0, 90),
)
