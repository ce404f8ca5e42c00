"""Faults of the sections "Protocol" and "Job Lifecycle"."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from reference_server.events import Event, Output
from reference_server.faults.arguments import BAD, UNKNOWN
from reference_server.faults.registry import fault, parsed, profiled, takes, takes_like
from reference_server.model import Model
from reference_server.state import Client, Job, Tube
from reference_server.wire import (
    NOT_FOUND,
    WATCHING,
    Command,
    Malformed,
    Reply,
    Request,
    RequestReader,
)


@fault("protocol.serial-replies", "error replies are given only with the next reply")
class LateErrors(Model):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._kept: list[Output] = []

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        outputs = super().step(event, now, conn)
        if isinstance(event, Malformed):
            self._kept += outputs
            return []
        if any(receiver == conn for receiver, _ in outputs):
            outputs, self._kept = [*outputs, *self._kept], []
        return outputs


@fault("protocol.any-segmentation", "a line that comes in more than one piece is malformed")
class OnePiece(RequestReader):
    _apart = False

    def receive(self, data: bytes) -> None:
        self._apart = 0 < self.buffered < 9
        super().receive(data)

    def parse(self, line: bytes) -> Request:
        return BAD if self._apart else super().parse(line)


parsed(
    "protocol.name-characters",
    "a parenthesis is no letter of a name",
    lambda line: BAD if b"(" in line else None,
)
parsed(
    "protocol.name-characters",
    "an underscore is no letter of a name",
    lambda line: BAD if b"_" in line else None,
)
parsed(
    "protocol.name-characters",
    "a tilde is a letter of a name",
    lambda line: Command("use", ("tilde",)) if re.fullmatch(b"use .*~.*", line) else None,
)
parsed(
    "protocol.name-characters",
    "8 bit bytes are letters of a name",
    lambda line: Command("use", ("high",)) if re.match(b"use .*[\x80-\xff]", line) else None,
)
parsed(
    "protocol.name-no-leading-hyphen",
    "ignore takes a name that begins with a hyphen",
    lambda line: Command("ignore", ("-",)) if line.startswith(b"ignore -") else None,
)
takes(
    "protocol.name-at-least-one-character",
    "stats-tube without a name is that of default",
    b"stats-tube ",
    Command("stats-tube", ("default",)),
)


@fault("protocol.body-opaque", "the last NUL of a body is cut off")
class CutNul(Model):
    def _body(self, conn: Client, data: bytes | None) -> Reply:
        return super()._body(conn, data.removesuffix(b"\0") if data else data)


@fault("protocol.body-opaque", "CR LF in a body becomes LF")
class UnixLines(Model):
    def _body(self, conn: Client, data: bytes | None) -> Reply:
        return super()._body(conn, data.replace(b"\r\n", b"\n") if data else data)


@fault("protocol.close-ends-connection", "a client that has put a job is not let go")
class Clingy(Model):
    def _half_close(self, conn: Client) -> None:
        super()._half_close(conn)
        conn.waiting = conn.producer

    def _close(self, conn: Client) -> None:
        conn.waiting = False
        super()._close(conn)


profiled(
    "error.bad-format-line-too-long",
    "lines may be as long as they like",
    lambda profile: replace(profile, max_line=2**20),
)
profiled(
    "error.bad-format-line-too-long",
    "a line of 224 bytes is too long",
    lambda profile: replace(profile, max_line=223),
)


@fault("error.long-line-resynchronises", "of a line that is too long the rest is a command")
class RestIsCommand(RequestReader):
    def next_request(self) -> Request | None:
        request = super().next_request()
        if self._overlong:
            self._overlong = False
            return BAD
        return request


profiled(
    "error.bad-format-name-too-long",
    "names may have 201 bytes",
    lambda profile: replace(profile, max_name=201),
)
takes(
    "error.bad-format-non-numeric",
    "kick-job takes a letter for the number 0",
    b"kick-job x",
    Command("kick-job", (0,)),
)
takes_like(
    "error.bad-format-non-numeric",
    "release takes a letter for its delay",
    rb"release ([0-9]+) ([0-9]+) [a-z]",
    lambda id, pri: Command("release", (id, pri, 0)),
)
takes_like(
    "error.bad-format-argument-count",
    "touch ignores what is behind its id",
    rb"touch ([0-9]+) [0-9]+",
    lambda id: Command("touch", (id,)),
)
takes_like(
    "error.bad-format-argument-count",
    "a delay may be missing in release",
    rb"release ([0-9]+) ([0-9]+)",
    lambda id, pri: Command("release", (id, pri, 0)),
)
takes(
    "error.bad-format-or-unknown-without-argument",
    "kick without a bound kicks one",
    b"kick",
    Command("kick", (1,)),
)
takes(
    "error.bad-format-or-unknown-without-argument",
    "delete without an id finds nothing",
    b"delete",
    Command("delete", (0,)),
)


@fault("error.connection-survives", "an unknown command ends the connection")
class Touchy(RequestReader):
    def parse(self, line: bytes) -> Request:
        request = super().parse(line)
        return Command("quit") if request == UNKNOWN and line == b"bogus" else request


@fault("lifecycle.starts-ready", "a new job is delayed for an instant that never ends")
class NeverReady(Model):
    def _enqueue(self, job: Job) -> None:
        if not job.delay and not job.releases and job.pri == 0 and job.body == b"a":
            self._make_delayed(job, 2**62)
        else:
            super()._enqueue(job)


@fault("lifecycle.tube-for-life", "release moves a job into the tube that its client uses")
class Moving(Model):
    def _release(self, conn: Client, id: int, pri: int, delay: int) -> Reply:
        job = self._held(conn, id)
        if job is not None and job.tube is not conn.use:
            job.tube.refs -= 1
            job.tube.reserved -= 1
            job.tube = conn.use
            job.tube.refs += 1
            job.tube.reserved += 1
        return super()._release(conn, id, pri, delay)


@fault("lifecycle.watch-list-default", "a new client watches nothing")
class WatchesNothing(Model):
    def _connect(self, number: int) -> None:
        super()._connect(number)
        self._remove_watch(self.connections[number], self._default)


@fault("lifecycle.use-default", "a new client uses a tube called jobs")
class UsesJobs(Model):
    def _connect(self, number: int) -> None:
        super()._connect(number)
        self._use(self.connections[number], "jobs")


@fault("lifecycle.tube-created-on-demand", "pause-tube creates the tube")
class PauseCreates(Model):
    def _pause_tube(self, conn: Client, name: str, delay: int) -> Reply:
        self._tube(name).refs += 1
        return super()._pause_tube(conn, name, delay)


@fault("lifecycle.tube-deleted", "a tube that has had jobs is never deleted")
class Lasting(Model):
    def _deref(self, tube: Tube) -> None:
        if tube.total_jobs and tube.refs == 1:
            return
        super()._deref(tube)


@fault("lifecycle.tube-deleted", "a tube that was watched is never deleted")
class WatchedLasts(Model):
    def _add_watch(self, conn: Client, tube: Tube) -> None:
        super()._add_watch(conn, tube)
        tube.refs += 1


@fault("lifecycle.tube-deleted", "a tube that a client used is never deleted when it leaves")
class UsedLasts(Model):
    def _close(self, conn: Client) -> None:
        conn.use.refs += 1
        super()._close(conn)


@fault("lifecycle.tube-kept-by-jobs", "delayed jobs do not keep their tube")
class DelayedVanish(Model):
    def _use(self, conn: Client, name: str) -> Reply:
        tube = conn.use
        reply = super()._use(conn, name)
        if tube.refs == 1 and tube.delayed and tube.name in self._by_name:
            self.tubes.remove(tube)
            del self._by_name[tube.name]
            tube.refs = 2**30
        return reply


@fault("lifecycle.close-releases-jobs", "jobs of a client that leaves are buried")
class BuriesAtClose(Model):
    def _close(self, conn: Client) -> None:
        for id in list(conn.reserved):
            self._bury(conn, id, 0)
        super()._close(conn)


@fault("lifecycle.close-releases-jobs", "of a client that leaves only the first job is ready")
class ForgetsTheSecond(Model):
    def _close(self, conn: Client) -> None:
        for id in list(conn.reserved)[1:]:
            self._bury(conn, id, 0)
        super()._close(conn)


@fault(
    "lifecycle.close-releases-jobs", "jobs of a client that leaves stay reserved until their TTR"
)
class KeepsHeld(Model):
    def _close(self, conn: Client) -> None:
        held, conn.reserved = conn.reserved, {}
        super()._close(conn)
        conn.reserved = held


parsed(
    "protocol.any-bytes",
    "a byte beyond ASCII behind a NUL ends the connection",
    lambda line: Command("quit") if re.search(rb"\0.*[\x80-\xff]", line, re.DOTALL) else None,
)


@fault("protocol.any-conversation", "To a client that holds a job watch counts one tube more")
class _OneHand(Model):
    def _watch(self, conn: Client, name: str) -> Reply:
        reply = super()._watch(conn, name)
        return WATCHING(len(conn.watch) + 1) if conn.reserved else reply


@fault("protocol.any-program", "A client that holds three jobs cannot bury the second")
class _ThreeHands(Model):
    def _bury(self, conn: Client, id: int, pri: int) -> Reply:
        if len(conn.reserved) > 2 and id == sorted(conn.reserved)[1]:
            return NOT_FOUND
        return super()._bury(conn, id, pri)


@fault("protocol.any-transition", "a touch while another client waits counts a release of the job")
class TouchCounted(Model):
    def _touch(self, conn: Client, id: int) -> Reply:
        if any(client.waiting for client in self.connections.values()) and id in conn.reserved:
            self.jobs[id].releases += 1
        return super()._touch(conn, id)


@fault("protocol.any-transition", "a kick of nothing ends the pause of the tube")
class KickWakes(Model):
    def _kick(self, conn: Client, bound: int) -> Reply:
        if not bound:
            self._end_pause(conn.use)
        return super()._kick(conn, bound)


@fault("stats.answered-to-a-probe", "what ends with a line feed alone is not read")
class SkipsProbes(RequestReader):
    def receive(self, data: bytes) -> None:
        super().receive(b"" if data.endswith(b"\r\n\n") else data)
