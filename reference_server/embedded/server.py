"""A server for the tests of an application: it runs in a thread, and does what tests ask for."""

from __future__ import annotations

import contextlib
import difflib
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from reference_server.binlog import Binlog
from reference_server.clock import MovableClock
from reference_server.dialect import DialectError
from reference_server.embedded.clock import BeanstalkClock
from reference_server.embedded.conversation import DRAINS
from reference_server.embedded.jobs import STATES, JobSnapshot, snapshot
from reference_server.embedded.misbehaviour import command_of, rate_of, reply_of
from reference_server.embedded.watched import Wire, watched
from reference_server.entries import RESTARTS
from reference_server.fault import NO_FAULT, Fault
from reference_server.finding import find_profile
from reference_server.keeping import Keeper
from reference_server.loop_thread import LoopThread
from reference_server.profiles import NEWEST
from reference_server.serve import LARGEST_JOB, Server

T = TypeVar("T")

HOST = "127.0.0.1"
_LOOK = 0.001
"""Seconds between two looks whether a condition is true."""


class _EmbeddedServer(Server):
    """The reference server, whose replies may be slow; ``wire`` is set before it starts."""

    wire: Wire

    def before_wait(self) -> float | None:
        """Do what is due, and return the seconds until there is more."""
        waits = (super().before_wait(), self.wire.send_on())
        return min((seconds for seconds in waits if seconds is not None), default=None)


class BeanstalkServer:
    """A reference server on a free TCP port of 127.0.0.1, until :meth:`stop`.

    Its methods may be called from any thread. Each of them first lets the server handle all that
    clients have sent. They raise RuntimeError if the server has stopped, and TimeoutError if a
    fault keeps it busy for 30 seconds; :attr:`transcript` can be read in any case.
    """

    def __init__(
        self,
        *,
        profile: str = NEWEST.name,
        max_job_size: int | None = None,
        fault: str | None = None,
    ) -> None:
        """Start the server.

        ``profile``: the version of the protocol, such as ``"1.10"``, or the file of a fork's
        dialect. ``max_job_size``: the limit of a body in bytes, 0 to 2**30; None: the profile's.
        ``fault``: see :meth:`inject_fault`. Raises ValueError if one of them is wrong.
        """
        if max_job_size is not None and not 0 <= max_job_size <= LARGEST_JOB:
            raise ValueError(f"a job has 0 to 2**30 bytes, not {max_job_size!r}")
        try:
            self._profile = find_profile(profile)
        except DialectError as error:
            raise ValueError(str(error)) from None
        self._max_job_size = max_job_size
        self._fault = NO_FAULT if fault is None else _fault(fault)
        self._binlog: tempfile.TemporaryDirectory[str] | None = None
        self._shown = MovableClock(flows=True)
        self._wire = Wire(lambda: self._shown.now)
        self._thread = LoopThread("beanstalk server")
        try:
            self._server = self._thread.call(self._start)
        except BaseException:
            self._thread.close()
            self._forget_kept()
            raise
        self._clock = BeanstalkClock(self._shown, self._run, self._move)

    def __repr__(self) -> str:
        return f"<BeanstalkServer {HOST}:{self._port}>"

    def _start(self, listening: Sequence[socket.socket] = ()) -> _EmbeddedServer:
        fault = watched(self._fault, self._wire)
        clock, binlog = self._shown, None
        if self._binlog is None and (fault.binlog, fault.keeper) != (Binlog, Keeper):
            self._binlog = tempfile.TemporaryDirectory(prefix="beanstalk-server-")
        if self._binlog is not None:
            binlog = fault.binlog(self._binlog.name, None)
        server = _EmbeddedServer(
            self._profile, self._max_job_size, None, clock, fault, binlog, clock
        )
        server.wire = self._wire
        where = server.start(self._thread.loop, HOST, 0, listening)
        self._port = int(where.rpartition(":")[2])
        return server

    def _start_again(self, fault: Fault) -> None:
        """End all connections, and start with a fault; the port is never free for others."""
        listening = self._server.hand_over()
        self._wire.close()
        self._wire.conversation.happened(RESTARTS, self._shown.now)
        if fault is not self._fault:
            self._forget_kept()
            self._fault = fault
        try:
            self._server = self._start(listening)
        except BaseException:
            for sock in listening:
                sock.close()
            raise

    def _run(self, function: Callable[[], T]) -> T:
        """Return the result of a function that is called in the server's thread."""
        if not self._thread.is_running:
            raise RuntimeError("the server has stopped")
        return self._thread.call_when_idle(function)

    def _read(self, function: Callable[[], T]) -> T:
        """Return the result of a function that only reads, whether the server runs or not."""
        try:
            return self._run(function)
        except (RuntimeError, TimeoutError):
            return function()

    def _move(self, nanoseconds: int) -> None:
        """Move the clock from one timer to the next, so that clients are served in between."""
        engine, last = self._server.engine, self._shown.now
        end = last + nanoseconds
        engine.tick()
        # A timer that does not fire, because of a fault, is passed over.
        while (due := engine.model.next_due) is not None and last < due <= end:
            self._move_to(due)
            last = due
        self._move_to(end)
        engine.catch_up()

    def _move_to(self, time: int) -> None:
        before = self._shown.now
        self._shown.forward(max(time - before, 0))
        self._wire.conversation.moved(before, self._shown.now)
        self._server.engine.tick()

    # ------------------------------------------------------------ where it is, and when

    @property
    def host(self) -> str:
        """The address that it listens on: 127.0.0.1."""
        return HOST

    @property
    def port(self) -> int:
        """The TCP port that it listens on; it stays the same over :meth:`restart`."""
        return self._port

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port, as ``greenstalk.Client(server.address)`` takes them."""
        return HOST, self._port

    @property
    def clock(self) -> BeanstalkClock:
        """The server's clock; it flows as real time does, until it is frozen."""
        return self._clock

    # ------------------------------------------------------------ what it has

    def jobs(self, tube: str | None = None, state: str | None = None) -> list[JobSnapshot]:
        """Return its jobs, ordered by id: all, those of a tube, or those in a state.

        ``state``: ready, reserved, delayed or buried (protocol text, "Job Lifecycle"); raises
        ValueError for any other.
        """
        if state is not None and state not in STATES:
            raise ValueError(f"no job is {state!r}: its state is one of {', '.join(STATES)}")

        def select() -> list[JobSnapshot]:
            jobs = self._server.engine.model.jobs
            found = (snapshot(jobs[id], self._shown.now) for id in sorted(jobs))
            return [job for job in found if tube in (None, job.tube) and state in (None, job.state)]

        return self._run(select)

    @property
    def waiting(self) -> int:
        """The number of clients that wait for a job, in ``reserve`` or ``reserve-with-timeout``."""
        return self._run(lambda: self._server.engine.model.waiting)

    @property
    def transcript(self) -> str:
        """All messages so far, a line each: ``A > reserve\\r\\n`` is sent by the first client.

        The format is that of ``beanstalk-conformance check``: ``<`` are replies, ``+ 5s`` is passed
        time, ``+ 5s at once`` a clock that was moved, and ``!`` an event.
        """
        return self._read(self._wire.conversation.text)

    @property
    def transcript_tail(self) -> str:
        """The last 100 messages, long ones cut in the middle, for a reader."""
        return self._read(self._wire.conversation.tail)

    def wait_until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        """Wait until a condition is true, such as ``lambda: server.waiting == 1``.

        An application with threads or tasks works on meanwhile, while the test waits for it.
        ``seconds``: the limit, of real time; raises TimeoutError after it, and ValueError if it is
        negative.
        """
        if not seconds >= 0:
            raise ValueError(f"nobody can wait {seconds!r} seconds")
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"the condition did not become true within {seconds:g} seconds")
            time.sleep(_LOOK)

    # ------------------------------------------------------------ misbehaviour

    def next_reply(self, reply: str, to: str | None = None) -> None:
        """Answer the next command of any client with this reply, and do nothing else for it.

        ``reply``: a word such as ``OUT_OF_MEMORY``, or a whole reply such as ``INSERTED 5`` or
        ``RESERVED 5 2\\r\\nhi``. ``to``: only to a command such as ``put``. Several of them are
        used in turn. Raises ValueError if the protocol has no such reply (protocol text,
        "Protocol" and the section of each command) or command.
        """
        made = reply_of(reply)
        verb = None if to is None else command_of(to)
        self._run(lambda: self._wire.misbehaviour.arm(made, verb))

    def drop_connection(self, after: bytes | None = None) -> None:
        """Close the next connection on which the server sends these bytes, right after them.

        The client gets nothing of the reply that follows ``after``, and its jobs are ready again
        (protocol text, "Worker Commands"). Without ``after``, all connections are closed now.
        Raises ValueError if ``after`` is empty.
        """
        if after is None:
            self._run(self._wire.drop_all)
        elif not after:
            raise ValueError("a connection is dropped after one byte or more, not after none")
        else:
            self._run(lambda: self._wire.misbehaviour.drop_after(after))

    def drain(self) -> None:
        """Answer every ``put`` with ``DRAINING`` from now on (protocol text, "Producer Command").

        All other commands work. This is what SIGUSR1 does to beanstalkd.
        """

        def start() -> None:
            self._wire.conversation.happened(DRAINS, self._shown.now)
            self._server.engine.drain()

        self._run(start)

    def slow(self, bytes_per_second: float | None) -> None:
        """Send each client no more than so many bytes in a second of real time.

        A clock that stands still changes nothing about that. None: as fast as clients read. Raises
        ValueError for 0 and less.
        """
        rate = None if bytes_per_second is None else rate_of(bytes_per_second)
        self._run(lambda: self._wire.set_rate(rate))

    def inject_fault(self, slug: str) -> None:
        """Restart the server with one of the faults of ``python -m reference_server --fault``.

        Each of them breaks a requirement of the suite; :data:`reference_server.faults.FAULTS` has
        them all. Connections end and jobs are lost: inject it before the application connects.
        If the fault is about jobs that are kept, :meth:`restart` keeps them. Raises ValueError if
        there is no such fault.
        """
        fault = _fault(slug)
        self._run(lambda: self._start_again(fault))

    def restart(self) -> None:
        """End all connections, and start again on the same port, without the jobs.

        Raises :class:`reference_server.binlog.BinlogError` if a fault keeps the jobs and has
        damaged them; the server has ended then.
        """

        self._run(lambda: self._start_again(self._fault))

    # ------------------------------------------------------------ the end

    def stop(self) -> None:
        """End all connections and the thread; nothing if it has stopped.

        Raises TimeoutError if a fault keeps the server busy for 30 seconds.
        """
        if not self._thread.is_running:
            return

        def end() -> None:
            self._wire.close()
            self._server.close()

        try:
            self._thread.call(end)
        finally:
            self._thread.close()
            self._forget_kept()

    def _forget_kept(self) -> None:
        if self._binlog is not None:
            self._binlog.cleanup()
            self._binlog = None


def _fault(slug: str) -> Fault:
    # There are hundreds, and a server without a fault starts sooner without them.
    from reference_server.faults import FAULTS

    if slug not in FAULTS:
        near = difflib.get_close_matches(slug, FAULTS, 1)
        raise ValueError(f"there is no fault {slug!r}{f'; is it {near[0]!r}?' if near else ''}")
    return FAULTS[slug]


@contextlib.contextmanager
def running(
    *,
    profile: str = NEWEST.name,
    max_job_size: int | None = None,
    fault: str | None = None,
) -> Iterator[BeanstalkServer]:
    """Run a server for a ``with`` block: ``with reference_server.running() as server:``.

    The arguments, and the ValueError that they raise, are those of :class:`BeanstalkServer`.
    """
    server = BeanstalkServer(profile=profile, max_job_size=max_job_size, fault=fault)
    try:
        yield server
    finally:
        server.stop()
