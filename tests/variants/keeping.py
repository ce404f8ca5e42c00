"""Servers that keep, count and give up other things than beanstalkd: tubes, jobs, memory."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from typing import Any

from reference_server import wire
from reference_server.commands import VERBS
from reference_server.events import Event, Output
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.state import SECOND, Client, Job, Tube
from reference_server.wire import Body, Command, Malformed, Put, Reply, Request, RequestReader
from tests.variants.variant import Variant, non_strict


class _LeavesHeld(Model):
    # There is a fault like it; but with that, all faults would be loaded at each start.
    def _close(self, conn: Client) -> None:
        held, conn.reserved = conn.reserved, {}
        super()._close(conn)
        conn.reserved = held


class _LateTubes(Model):
    """A tube that nothing keeps goes a tenth of a second later; until then it is as it was."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._left: dict[str, int] = {}

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        for name, since in list(self._left.items()):
            if now - since >= SECOND // 10:
                del self._left[name]
                tube = self._by_name[name]
                if not tube.refs:
                    tube.refs = 1
                    super()._deref(tube)
        return super().step(event, now, conn)

    def _deref(self, tube: Tube) -> None:
        if tube.refs > 1:
            super()._deref(tube)
            return
        tube.refs = 0
        self._left[tube.name] = self.now


class _DefaultGoes(Model):
    """The tube default is deleted as any other when nobody refers to it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._deref(self._default)

    def _connect(self, number: int) -> None:
        self._default = self._tube("default")
        super()._connect(number)


class _CountsSuccess(Model):
    """Commands that fail are not counted."""

    def _command(self, conn: Client, command: Command) -> None:
        before = len(self._outputs)
        super()._command(conn, command)
        failed = (wire.NOT_FOUND, wire.NOT_IGNORED)
        if any(number == conn.id and r in failed for number, r in self._outputs[before:]):
            self.commands[command.verb] -= 1


class _CountsJobs(Model):
    """A put is counted when its job is there."""

    def _put(self, conn: Client, put: Put) -> None:
        super()._put(conn, put)
        self.commands["put"] -= 1

    def _body(self, conn: Client, data: bytes | None) -> Reply:
        reply = super()._body(conn, data)
        self.commands["put"] += reply.word in ("INSERTED", "BURIED")
        return reply


class _CountsMalformed(RequestReader):
    """Commands that are malformed are counted by their word."""

    def parse(self, line: bytes) -> Request:
        request = super().parse(line)
        verb = line.partition(b" ")[0].decode("latin-1")
        if isinstance(request, Malformed) and verb in VERBS:
            return request._replace(counts=verb)
        return request


class _DrainsEarly(Model):
    """In drain mode, put is refused when its line comes; its body is skipped."""

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        outputs = super().step(event, now, conn)
        if not self.draining:
            return outputs
        if isinstance(event, Put) and event.size <= self.max_job_size:
            self._refused = conn
            return [*outputs, (conn, wire.DRAINING)]
        if isinstance(event, Body) and self._refused == conn:
            self._refused = None
            return [output for output in outputs if output[0] != conn]
        return outputs

    _refused: int | None = None


class _DrainsBeforeAll(Model):
    """In drain mode, put is refused, whatever else is wrong with it."""

    def _body(self, conn: Client, data: bytes | None) -> Reply:
        reply = super()._body(conn, data)
        return wire.DRAINING if self.draining else reply


class _KeepsMemory(Model):
    """What was once a body is never given back."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._bodies: list[bytearray] = []

    def _body(self, conn: Client, data: bytes | None) -> Reply:
        self._bodies.append(bytearray(data or b""))
        return super()._body(conn, data)


class _Preloaded(Model):
    """It begins with jobs of its own, in tubes of their own, unless it has those of a binlog."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if not self.binlog:
            self._begin()

    def _begin(self) -> None:
        for number in range(3):
            self._begin_with(f"leftover-{number}")
        self._make_buried(self._begin_with("leftover-0", put=False))
        self._make_delayed(self._begin_with("leftover-1", put=False), self.now + 10**6 * SECOND)

    def _begin_with(self, name: str, put: bool = True) -> Job:
        tube = self._tube(name)
        tube.refs += 1
        tube.total_jobs += 1
        self.total_jobs += 1
        job = Job(self.next_id, 0, 0, 60, tube, self.now, b"left over")
        self.jobs[job.id] = job
        self.next_id += 1
        if put:
            self._make_ready(job)
        return job


class _TellsUuid(Model):
    """The id of the process is a UUID."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        host, id = self.host, uuid.uuid4()
        self.host = lambda: {**host(), "id": id}


class _PreloadedDefault(_Preloaded):
    """It begins with jobs of its own, one of them in default."""

    def _begin(self) -> None:
        super()._begin()
        self._begin_with("default")


def _says(summary: str, pattern: bytes, new: bytes) -> Variant:
    """Return a variant that tells something else of itself in stats."""

    class Says(Model):
        def _stats(self, conn: Client) -> Reply:
            reply = super()._stats(conn)
            return wire.OK(re.sub(b"(?m)^" + pattern + b"$", new, reply.body or b""))

    return Variant(summary, Says)


def _other_version(profile: Profile) -> Profile:
    return replace(profile, version="dev+g1")


class _IndifferentToTubes(Model):
    """To ignore a tube that nobody knows makes it, for a moment."""

    def _ignore(self, conn: Client, name: str) -> Reply:
        tube = self._tube(name)
        tube.refs += 1
        reply = super()._ignore(conn, name)
        self._deref(tube)
        return reply


class _FarewellFirst(Model):
    """When a client goes, its jobs are ready again in the order of their deadlines."""

    def _close(self, conn: Client) -> None:
        conn.reserved = dict(
            sorted(conn.reserved.items(), key=lambda item: (item[1].deadline, -item[0]))
        )
        super()._close(conn)


KEEPING = (
    Variant("tubes are deleted a tenth of a second late", _LateTubes),
    Variant(
        "default goes when nobody needs it",
        _DefaultGoes,
        non_strict=non_strict("lifecycle.default-stays"),
    ),
    Variant(
        "failed commands are not counted",
        _CountsSuccess,
        non_strict=non_strict("stats.failed-commands-count"),
    ),
    Variant(
        "puts are counted by their jobs",
        _CountsJobs,
        non_strict=non_strict("stats.failed-commands-count"),
    ),
    Variant(
        "malformed commands are counted",
        reader=_CountsMalformed,
        non_strict=non_strict("stats.malformed-commands-do-not-count"),
    ),
    Variant("says at once that it is draining", _DrainsEarly),
    Variant("draining comes before other errors", _DrainsBeforeAll),
    Variant("memory is never given back", _KeepsMemory),
    Variant("begins with jobs of its own", _Preloaded),
    Variant("begins with a job in default", _PreloadedDefault),
    Variant("a name of no tube may be ignored", _IndifferentToTubes),
    Variant("jobs come back by their deadlines", _FarewellFirst),
    Variant(
        "jobs of a client that leaves stay reserved until their TTR",
        _LeavesHeld,
        non_strict=non_strict(
            *("lifecycle.close-releases-jobs", "lifecycle.close-keeps-place"),
            *("quit.lets-jobs-go", "protocol.any-overlap"),
        ),
    ),
    Variant("another version", profile=_other_version),
    Variant("an id like a UUID", _TellsUuid),
    _says("a version that is a number", b"version: .*", b"version: 1.13"),
    _says("times of CPU in two digits", rb"(rusage-.time: [0-9]+\.[0-9]{2})[0-9]*", rb"\1"),
    _says("no system that could be told", b"(os|platform|hostname): .*", rb"\1: unknown"),
)
