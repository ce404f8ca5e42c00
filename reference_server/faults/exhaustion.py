"""Faults of exhaustion: without memory or descriptors, and with peers that misbehave."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
from collections.abc import Iterable
from typing import Any

from reference_server import wire
from reference_server.binlog import Binlog
from reference_server.connection import READ_SIZE, ServedConnection
from reference_server.faults.registry import Fault, Remembered, add, fault
from reference_server.listening import Listeners
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.reserve import RESERVE
from reference_server.state import Alarm, Client, Job, JobState, KeptJob, Timer, Tube
from reference_server.wire import Body, Command, Malformed, Put, Reply, Request, RequestReader

_PATIENCE = 3.0
"""Seconds for which a server stands still that waits for one client."""

# ------------------------------------------------------------ memory


@fault("exhaustion.put-out-of-memory", "a job that is refused for want of memory is kept")
class KeepsRefused(Model):
    def _refuse(self, conn: Client) -> Reply:
        if conn.incoming is not None:
            self._body(conn, b"")
        return wire.OUT_OF_MEMORY


@fault("exhaustion.put-out-of-memory", "a put without memory is not answered")
class AnswersNoPut(Model):
    def _end_put(self, conn: Client, body: Body) -> None:
        super()._end_put(conn, body)
        if body.lacks_memory:
            self._outputs.pop()


class _TakesSmall(RequestReader):
    def _refuse(self) -> None:
        assert self._body is not None
        if self._body > 200:
            super()._refuse()


class _SaysBuried(Model):
    def _body(self, conn: Client, data: bytes | None) -> Reply:
        reply = super()._body(conn, data)
        has_none = reply.word == "INSERTED" and not RESERVE.has_room
        return reply._replace(word="BURIED") if has_none else reply


add(
    Fault(
        "exhaustion.put-buried",
        "a put without memory is answered buried and the job is ready",
        model=_SaysBuried,
        reader=_TakesSmall,
    )
)


@fault("exhaustion.release-buried", "without memory release says buried and the job is ready")
class SaysBuriedOnRelease(Model):
    def _release(self, conn: Client, id: int, pri: int, delay: int) -> Reply:
        reply = super()._release(conn, id, pri, delay)
        return reply if RESERVE.has_room or reply == wire.NOT_FOUND else wire.BURIED


@fault("exhaustion.kick-count", "without memory kick moves no job and says that it has")
class CountsUnkicked(Model):
    def _kick(self, conn: Client, bound: int) -> Reply:
        return super()._kick(conn, bound) if RESERVE.has_room else wire.KICKED_COUNT(bound)


@fault("exhaustion.reserve-waits", "who begins to wait without memory is forgotten")
class ForgetsWaitingWithoutMemory(Model):
    def _reserve(self, conn: Client, timeout: int | None) -> Reply | None:
        reply = super()._reserve(conn, timeout)
        if reply is None and not RESERVE.has_room:
            self._stop_waiting(conn)
        return reply


@fault("exhaustion.new-tube", "a tube that is created without memory is found by nobody else")
class HidesTubes(Model):
    _has_refused = False

    def _body(self, conn: Client, data: bytes | None) -> Reply:
        reply = super()._body(conn, data)
        self._has_refused = reply == wire.OUT_OF_MEMORY
        return reply

    def _refuse(self, conn: Client) -> Reply:
        self._has_refused = True
        return super()._refuse(conn)

    def _tube(self, name: str) -> Tube:
        is_listed = name in self._by_name or not self._has_refused
        return super()._tube(name) if is_listed else Tube(name)

    def _deref(self, tube: Tube) -> None:
        if tube in self.tubes:
            super()._deref(tube)
        else:
            tube.refs -= 1


@fault("exhaustion.in-step", "the body of a put without memory is read as commands")
class ReadsRefused(RequestReader):
    def next_request(self) -> Request | None:
        if self._lacks_memory and self._body is not None:
            self._body, self._skip, self._lacks_memory = None, 0, False
            return Malformed(wire.OUT_OF_MEMORY)
        return super().next_request()


@fault("exhaustion.any-command", "without memory use is answered bad format")
class FindsBadFormat(Model):
    def _command(self, conn: Client, command: Command) -> None:
        if command.verb == "use" and not RESERVE.has_room:
            self._outputs.append((conn.id, wire.BAD_FORMAT))
        else:
            super()._command(conn, command)


@fault("exhaustion.not-found", "without memory peek finds nothing")
class FindsNothing(Model):
    def _command(self, conn: Client, command: Command) -> None:
        if command.verb.startswith("peek") and not RESERVE.has_room:
            self._outputs.append((conn.id, wire.NOT_FOUND))
        else:
            super()._command(conn, command)


@fault("exhaustion.earlier-jobs", "a buried job makes room for a new one")
class ForgetsBuried(Model):
    def _refuse(self, conn: Client) -> Reply:
        for job in [job for job in self.jobs.values() if job.state is JobState.BURIED][:1]:
            self._forget(job)
        return super()._refuse(conn)

    def _forget(self, job: Job) -> None:
        self._dequeue(job)
        del self.jobs[job.id]
        self._deref(job.tube)


@fault("exhaustion.disconnect-keeps-jobs", "jobs that come back without memory are in no queue")
class LosesReturned(Model):
    def _let_go(self, job: Job) -> None:
        if RESERVE.has_room:
            super()._let_go(job)
        else:
            self._unreserve(job)


class _LosesJobs(Model):
    """Without memory, what should become ready is in no queue."""

    def _lose(self, job: Job) -> None:
        self._dequeue(job)
        job.state = JobState.READY


def _loses(kind: Timer) -> type[Model]:
    """Lose the jobs of which such a timer ends without memory."""

    class LosesWithoutMemory(_LosesJobs):
        def _fire(self, alarm: Alarm) -> None:
            if alarm[1] is kind and not RESERVE.has_room:
                self._lose(self.jobs[int(alarm[2])])
            else:
                super()._fire(alarm)

    return LosesWithoutMemory


fault("exhaustion.expiry-keeps-jobs", "a job whose TTR ends without memory is in no queue")(
    _loses(Timer.TTR)
)
fault("exhaustion.delay-keeps-jobs", "a job whose delay ends without memory is in no queue")(
    _loses(Timer.DELAY)
)


@fault("exhaustion.kick-keeps-jobs", "a job that is kicked without memory is in no queue")
class LosesKicked(_LosesJobs):
    def _kick_one(self, job: Job) -> None:
        if RESERVE.has_room:
            super()._kick_one(job)
        else:
            self._lose(job)


@fault("exhaustion.release-keeps-jobs", "a job that is released without memory is in no queue")
class LosesReleased(_LosesJobs):
    def _release(self, conn: Client, id: int, pri: int, delay: int) -> Reply:
        job = self._held(conn, id)
        if job is None or RESERVE.has_room:
            return super()._release(conn, id, pri, delay)
        self._lose(job)
        return wire.RELEASED


@fault("exhaustion.memory-serves-again", "once a put had no memory no other is taken")
class RefusesForEver(RequestReader):
    refused = False

    def _refuse(self) -> None:
        RefusesForEver.refused = True
        super()._refuse()

    def parse(self, line: bytes) -> Request:
        request = super().parse(line)
        if self.refused and type(request) is Put:
            RESERVE.spend()
        return request


# ------------------------------------------------------------ descriptors


class _HangsUp(Listeners):
    def fails(self, listener: socket.socket) -> None:
        super().fails(listener)
        for client in Remembered.all:
            self.loop.call_soon(client._abort)
        Remembered.all.clear()


add(
    Fault(
        "exhaustion.descriptors-connected",
        "for want of a descriptor all clients are hung up on",
        connection=Remembered,
        listeners=_HangsUp,
    )
)


class _OnlyWithoutMemory(Listeners):
    """The fault behind it is there only if accept has failed for want of memory."""

    def fails(self, listener: socket.socket) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            super().fails(listener)
        else:
            Listeners.fails(self, listener)


class _HangsUpWithoutMemory(_OnlyWithoutMemory, _HangsUp):
    pass


add(
    Fault(
        "exhaustion.accept-connected",
        "for want of memory to accept a client all are hung up on",
        connection=Remembered,
        listeners=_HangsUpWithoutMemory,
    )
)


@fault("exhaustion.descriptors-no-spinning", "without a descriptor accept is tried at once again")
class TriesAtOnce(Listeners):
    def fails(self, listener: socket.socket) -> None:
        self.loop.again(listener.fileno())


@fault("exhaustion.descriptors-serves-again", "once accept has failed nobody is accepted any more")
class GivesUp(Listeners):
    gave_up = False

    def fails(self, listener: socket.socket) -> None:
        self.gave_up = True

    def accepts(self, listener: socket.socket, events: int) -> None:
        if not self.gave_up:
            super().accepts(listener, events)


@fault("exhaustion.accept-serves-again", "once accept had no memory nobody is accepted any more")
class GivesUpWithoutMemory(_OnlyWithoutMemory, GivesUp):
    pass


@fault("exhaustion.descriptors-all-given-back", "each failed accept costs a descriptor for ever")
class LosesDescriptors(Listeners):
    lost = 0

    def fails(self, listener: socket.socket) -> None:
        super().fails(listener)
        self.lost += 1

    def accepts(self, listener: socket.socket, events: int) -> None:
        with contextlib.suppress(OSError):
            while self.lost:
                os.dup(listener.fileno())
                self.lost -= 1
        super().accepts(listener, events)


# ------------------------------------------------------------ disk


@fault("exhaustion.disk-put", "a put is answered though its job could not be written")
class TakesUnwritten(Binlog):
    def has_room(self, size: int) -> bool:
        return True

    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        jobs, deleted = [*jobs], [*deleted]
        with contextlib.suppress(*([OSError] if jobs else [])):
            super().write(jobs, deleted, next_id)


@fault("exhaustion.disk-new-file", "a job is not written if the file that it needs cannot be made")
class NeedsFiles(Binlog):
    """There is another file for each job after ten megabytes."""

    size = 0

    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        jobs = [*jobs]
        self.size += sum(len(job.body) for job in jobs)
        if self.size > 10_000_000:
            try:
                (self.folder / f"jobs.{self.size}").touch()
            except OSError:
                jobs = []
        super().write(jobs, deleted, next_id)


@fault("exhaustion.disk-put", "behind a sync that failed no job is written")
class GivesUpUnsynced(Binlog):
    has_failed = False

    def sync(self) -> None:
        try:
            super().sync()
        except OSError:
            self.has_failed = True
            raise

    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        if not self.has_failed:
            super().write(jobs, deleted, next_id)


@fault("exhaustion.disk-delete", "delete is answered though it could not be written")
class ForgetsToDelete(Binlog):
    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        jobs, deleted = [*jobs], [*deleted]
        with contextlib.suppress(*([] if jobs else [OSError])):
            super().write(jobs, deleted, next_id)


@fault("exhaustion.disk-earlier-jobs", "when the disk was full the oldest job is given up")
class GivesUpOldest(Binlog):
    was_full = False

    def has_room(self, size: int) -> bool:
        self.was_full |= not super().has_room(size)
        return super().has_room(size)

    def close(self) -> None:
        if self.was_full and self._checksums:
            self.write((), [min(self._checksums)], self.next_id)
        super().close()

    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        self.next_id = next_id
        super().write(jobs, deleted, next_id)


@fault("exhaustion.disk-serves-again", "when the disk was full nothing is written any more")
class WritesNothing(GivesUpOldest):
    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        if not self.was_full:
            super().write(jobs, deleted, next_id)


# ------------------------------------------------------------ peers


@fault("exhaustion.slow-readers-memory", "whatever a client does not read is kept for it")
class KeepsReplies(ServedConnection):
    unsent_limit = 2**60


@fault("exhaustion.slow-readers-others", "a reply is waited for until it has been sent")
class SendsBlocking(ServedConnection):
    def _send(self, data: bytes | bytearray) -> int:
        self._socket.settimeout(_PATIENCE)
        try:
            self._socket.sendall(data)
        except TimeoutError:
            return 0
        finally:
            self._socket.setblocking(False)
        return len(data)


@fault("exhaustion.half-sent-memory", "a put that has begun takes two megabytes")
class TakesMuch(RequestReader):
    def parse(self, line: bytes) -> Request:
        request = super().parse(line)
        if type(request) is Put:
            self.room = bytearray(2**21)
        return request


@fault("exhaustion.half-sent-others", "a body that has begun is waited for")
class WaitsForBody(ServedConnection):
    def takes(self, data: bytes) -> None:
        super().takes(data)
        reader = self._engine._sessions[self._number].reader
        while reader._body is not None and self._is_open:
            self._socket.settimeout(_PATIENCE)
            try:
                data = self._socket.recv(READ_SIZE)
            except TimeoutError:
                break
            finally:
                self._socket.setblocking(False)
            super().takes(data)


@fault("exhaustion.refused-bodies-memory", "a body that is too big is kept until it has ended")
class KeepsTooBig(RequestReader):
    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self.kept = bytearray()

    def receive(self, data: bytes) -> None:
        if self._skip:
            self.kept += data
        super().receive(data)


@fault("exhaustion.short-connections", "a client that resets the connection leaves a descriptor")
class LosesReset(ServedConnection):
    def _abort(self) -> None:
        if self._is_open:
            os.dup(self._socket.fileno())
        super()._abort()


@fault("exhaustion.vanished-peers", "nobody looks after an idle client")
class LooksAfterNobody(ServedConnection):
    def __init__(self, loop: Any, engine: Any, sock: socket.socket) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0)
        super().__init__(loop, engine, sock)
