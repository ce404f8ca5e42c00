"""Faults of endurance: what grows with each use of a server, or never ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from reference_server.binlog import Binlog, KeptState
from reference_server.connection import ServedConnection
from reference_server.faults.registry import Answer, answered, fault, with_value
from reference_server.listening import Listeners
from reference_server.model import Model
from reference_server.state import Client, Job, KeptJob, Tube
from reference_server.wire import Command, Reply


@fault("endurance.idle-cpu", "the end of a client that waits for a job is handled for ever")
class HandlesEndForEver(ServedConnection):
    def ends(self) -> None:
        if self._engine.model.is_waiting(self._number):
            self._handle_again()
        super().ends()

    def _handle_again(self) -> None:
        self.loop.call_soon(self._handle_again)


@fault("endurance.idle-cpu-unused", "it looks all the time whether there is something to do")
class NeverWaits(Listeners):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._look()

    def _look(self) -> None:
        self.loop.call_soon(self._look)


class Kept:
    """The bytes that a faulty server keeps for ever."""

    all: ClassVar[list[bytes]] = []

    @classmethod
    def more(cls, size: int) -> None:
        """Keep so many bytes more."""
        cls.all.append(b"a" * size)


def _keeps(_: Model, __: Client, ___: Command, reply: Reply) -> Reply:
    Kept.more(20_000)
    return reply


answered(
    "endurance.commands-memory", "something of each list of tubes is kept", "list-tubes", _keeps
)


@fault("endurance.clients-memory", "something of each client is kept")
class KeepsClients(ServedConnection):
    def lost(self) -> None:
        Kept.more(50_000)
        super().lost()


@fault("endurance.clients-memory", "the end of a client in a line that is too long is not noted")
class KeepsLongLines(ServedConnection):
    """It reads a line that is too long for ever."""

    line = 0

    def takes(self, data: bytes) -> None:
        self.line = len(data.rpartition(b"\n")[2])
        super().takes(data)

    def ends(self) -> None:
        if self.line <= self._engine.model.profile.max_line:
            super().ends()


@fault("endurance.tubes-memory", "something of each deleted tube is kept")
class KeepsTubes(Model):
    def _deref(self, tube: Tube) -> None:
        super()._deref(tube)
        if not tube.refs:
            Kept.more(10_000)


@fault("endurance.jobs-memory", "the body of a deleted job is kept")
class KeepsBodies(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        if (job := self.jobs.get(id)) is not None:
            Kept.more(len(job.body))
        return super()._delete(conn, id)


def _cuts(most: int) -> Answer:
    """Return a change that cuts the end of a list that has more bytes."""

    def change(_: Model, __: Client, ___: Command, reply: Reply) -> Reply:
        body = reply.body or b""
        return reply._replace(body=body[: body.rfind(b"- ", 0, most)] if len(body) > most else body)

    return change


for _verb, _most in (("list-tubes", 2**16), ("list-tubes-watched", 2**14)):
    answered(f"endurance.{_verb}", f"{_verb} has {_most} bytes at most", _verb, _cuts(_most))


@fault("endurance.many-jobs", "the table of jobs loses one when it grows beyond 1700")
class LosesOne(Model):
    def _enqueue(self, job: Job) -> None:
        super()._enqueue(job)
        if len(self.jobs) == 1701:
            self._dequeue(job)
            self._deref(job.tube)
            del self.jobs[job.id]


@fault("endurance.binlog-size", "the file of jobs never shrinks, and has each deleted job")
class NeverCompacts(Binlog):
    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        jobs = [*jobs]
        super().write(jobs, deleted, next_id)
        self._log_for_ever(jobs)

    def _log_for_ever(self, jobs: Iterable[KeptJob]) -> None:
        with (self.folder / "log").open("ab") as log:
            log.write(b"".join(job.body for job in jobs))


@fault("endurance.binlog-size", "after a restart, the file of jobs has each deleted job")
class NeverCompactsAgain(NeverCompacts):
    has_read_jobs = False

    def load(self) -> KeptState:
        kept = super().load()
        self.has_read_jobs = bool(kept.jobs)
        self._log_for_ever(kept.jobs)
        return kept

    def _log_for_ever(self, jobs: Iterable[KeptJob]) -> None:
        if self.has_read_jobs:
            super()._log_for_ever(jobs)


@fault("endurance.binlog-compaction", "each deletion moves a thousand records")
class MovesRecords(Model):
    def _stats(self, conn: Client) -> Reply:
        moved = 1000 * self.commands["delete"] * self.binlog
        return with_value(super()._stats(conn), "binlog-records-migrated", moved)
