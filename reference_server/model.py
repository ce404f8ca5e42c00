"""The protocol as a state machine: the one place where its rules live.

The model is pure. It has no socket, no clock and no randomness: :meth:`Model.step` takes one event
and the time in nanoseconds, and gives the replies that the event causes on any connection. A put
on one connection may answer a reserve on another; time alone may too.

It reads like the text of the protocol: the rules of "Job Lifecycle" are in `lifecycle`, over the
jobs, tubes and queues of `store`; here is a method for each command, in the order of the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from reference_server import stats, wire
from reference_server.commands import COMMANDS
from reference_server.events import Close, Connected, Drain, Event, HalfClose, Hangup, Output
from reference_server.lifecycle import Lifecycle
from reference_server.profiles import NEWEST, Profile
from reference_server.state import SECOND, Client, Job, JobState
from reference_server.wire import Body, Command, Malformed, Put, Reply

T = TypeVar("T")

_METHODS = {
    **{verb: f"_{verb.replace('-', '_')}" for verb in COMMANDS},
    "reserve": "_reserve_without_timeout",
    "reserve-with-timeout": "_reserve",
}
"""The methods of the model that handle commands; named, so that a model can be copied."""
_OPTIONAL_ID = {("peek", 0): "_peek_buried", ("stats", 1): "_stats_job"}
"""The methods of commands that may name a job, by the number of arguments."""


def first(options: Sequence[T]) -> T:
    """Return the option that beanstalkd takes."""
    return options[0]


class Model(Lifecycle):
    """All state of a server. ``max_job_size`` is in bytes, the profile's default if None.

    ``max_jobs_ready``: how many jobs fit into the ready queue, the profile's default if None.
    ``binlog``: jobs outlive the server, as with beanstalkd's ``-b``. ``host`` gives the values of
    stats that only a running process has.
    """

    def __init__(
        self,
        profile: Profile = NEWEST,
        *,
        max_job_size: int | None = None,
        max_jobs_ready: int | None = None,
        binlog: bool = False,
        now: int = 0,
        host: Callable[[], Mapping[str, object]] = dict,
        choose: Callable[[Sequence[Any]], Any] = first,
    ) -> None:
        room = profile.max_jobs_ready if max_jobs_ready is None else max_jobs_ready
        super().__init__(profile, room, now, choose)
        self.max_job_size = profile.max_job_size if max_job_size is None else max_job_size
        self.binlog = binlog
        self.host = host
        self.started = now
        self.draining = False
        self.commands: Counter[str] = Counter()
        self.total_jobs = self.total_connections = 0

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        """Handle one event at ``now`` (nanoseconds) and return the replies it causes, in order.

        ``conn`` names the connection that the event is about: any new number for
        :class:`Connected`, that number from then on. A waiting connection must not be given
        commands.
        """
        outputs = self._outputs = []
        if self._timers and self._timers[0][0] <= now:
            self._fire_timers(now)
        self.now = max(self.now, now)
        self._handle(event, conn)
        return outputs

    def _handle(self, event: Event, conn: int) -> None:
        if isinstance(event, Command):
            self._command(self.connections[conn], event)
        elif isinstance(event, Put):
            self._put(self.connections[conn], event)
        elif isinstance(event, Body):
            self._end_put(self.connections[conn], event)
        elif isinstance(event, Malformed):
            if event.counts == "put":
                self._count_put(has_failed=True)
            elif event.counts:
                self.commands[event.counts] += 1
            self._outputs.append((conn, event.reply))
        elif isinstance(event, Connected):
            self._connect(conn)
        elif isinstance(event, HalfClose):
            self._half_close(self.connections[conn])
        elif isinstance(event, Close):
            self._close(self.connections.pop(conn))
        elif isinstance(event, Drain):
            self.draining = True

    def _command(self, conn: Client, command: Command) -> None:
        self.commands[command.verb] += 1
        method = _METHODS.get(command.verb, "_answer")
        if self.profile.id_is_optional:
            method = _OPTIONAL_ID.get((command.verb, len(command.args)), method)
        reply = getattr(self, method)(conn, *command.args)
        if reply is not None:
            self._outputs.append((conn.id, reply))

    # ------------------------------------------------------------ "Protocol": connections

    def _connect(self, number: int) -> None:
        """Begin with "default", used and watched ("Job Lifecycle")."""
        conn = self.connections[number] = Client(number, self._default)
        self.total_connections += 1
        self._default.using += 1
        self._default.refs += 1
        self._add_watch(conn, self._default)

    def _half_close(self, conn: Client) -> None:
        conn.half_closed = True
        if conn.waiting:
            self._stop_waiting(conn)
            if reply := self._give_up(conn):
                self._outputs.append((conn.id, reply))

    def _close(self, conn: Client) -> None:
        """Make the jobs of a client that has left ready again ("Worker Commands": reserve)."""
        if conn.incoming is not None:
            self._deref(conn.incoming.tube)
            if not self.profile.counts_failed_puts:
                self._count_put(has_failed=True)
        if conn.waiting:
            self._stop_waiting(conn)
        jobs = conn.reserved
        while awaited := [job for job in jobs.values() if job.tube.waiting and not job.tube.pause]:
            self._let_go(self.choose(awaited) if len(awaited) > 1 else awaited[0])
        for job in list(jobs.values()):
            self._let_go(job)
        while conn.watch:
            self._remove_watch(conn, conn.watch.first())
        conn.use.using -= 1
        self._deref(conn.use)
        self.producers -= conn.producer
        self.workers -= conn.worker

    def _let_go(self, job: Job) -> None:
        self._unreserve(job)
        self._make_ready(job)

    # ------------------------------------------------------------ "Producer Commands"

    def _put(self, conn: Client, put: Put) -> None:
        """Take the line of a put; what is too big is refused later ("Producer Commands": put)."""
        if put.size > self.max_job_size:
            self._count_put(has_failed=True)
            return
        if self.profile.counts_failed_puts:
            self.commands["put"] += 1
        self.producers += not conn.producer
        conn.producer = True
        ttr = max(put.ttr, 1)
        conn.incoming = Job(self.next_id, put.pri, put.delay, ttr, conn.use, self.now)
        conn.use.refs += 1
        self.next_id += 1

    def _end_put(self, conn: Client, body: Body) -> None:
        is_begun = conn.incoming is not None
        reply = self._refuse(conn) if body.lacks_memory else self._body(conn, body.data)
        if is_begun and not self.profile.counts_failed_puts:
            self._count_put(has_failed=reply.word not in ("INSERTED", "BURIED"))
        self._outputs.append((conn.id, reply))

    def _count_put(self, *, has_failed: bool) -> None:
        """Count a put that was not counted before ("Other Commands": stats)."""
        is_open = has_failed and not self.profile.counts_failed_puts
        self.commands["put"] += self.choose((0, 1)) if is_open else 1

    def _refuse(self, conn: Client) -> Reply:
        """Forget a job for which there is no memory ("Protocol": errors)."""
        if conn.incoming is not None:
            self._deref(conn.incoming.tube)
        conn.incoming = None
        return wire.OUT_OF_MEMORY

    def _body(self, conn: Client, data: bytes | None) -> Reply:
        """Insert the job whose body has come ("Producer Commands": put)."""
        job, conn.incoming = conn.incoming, None
        if job is None:
            return wire.JOB_TOO_BIG
        if data is None or self.draining:
            self._deref(job.tube)
            return wire.EXPECTED_CRLF if data is None else wire.DRAINING
        if not self._has_room(len(data)):
            self._deref(job.tube)
            return wire.OUT_OF_MEMORY
        job.body = data
        try:
            self.jobs[job.id] = job
        except MemoryError:
            # The table of all jobs had to grow.
            self._deref(job.tube)
            return wire.OUT_OF_MEMORY
        self.total_jobs += 1
        job.tube.total_jobs += 1
        self._enqueue(job)
        return wire.BURIED if job.state is JobState.BURIED else wire.INSERTED(job.id)

    def _has_room(self, size: int) -> bool:
        """Return whether there is memory for a body; where nothing limits it, there is."""
        return True

    def _use(self, conn: Client, name: str) -> Reply:
        """Let what a client puts go into a tube ("Producer Commands": use)."""
        tube = self._tube(name)
        tube.refs += 1
        conn.use.using -= 1
        self._deref(conn.use)
        conn.use = tube
        tube.using += 1
        return wire.USING(name)

    # ------------------------------------------------------------ "Worker Commands"

    def _reserve_without_timeout(self, conn: Client) -> Reply | None:
        """Give a job, as soon as there is one ("Worker Commands": reserve)."""
        return self._reserve(conn, None)

    def _reserve(self, conn: Client, timeout: int | None) -> Reply | None:
        """Give a job, or let the client wait for one ("Worker Commands": reserve-with-timeout).

        ``timeout`` is in seconds, None for ever.
        """
        self._becomes_worker(conn)
        job = self._next_ready(conn)
        safe_until = self._safe_until(conn)
        soon = safe_until is not None and self.now >= safe_until
        if job and (not soon or self.choose(("RESERVED", "DEADLINE_SOON")) == "RESERVED"):
            self._dequeue(job)
            job.tube.waiting.passed_by()
            return self._give(job, conn)
        if soon:
            return wire.DEADLINE_SOON
        if timeout == 0 or conn.half_closed:
            return self._give_up(conn)
        self._start_waiting(conn, None if timeout is None else self.now + timeout * SECOND)
        self._set_wake_up(conn)
        return None

    def _becomes_worker(self, conn: Client) -> None:
        self.workers += not conn.worker
        conn.worker = True

    def _reserve_job(self, conn: Client, id: int) -> Reply:
        """Give the job that is named, unless it is reserved ("Worker Commands": reserve-job)."""
        job = self.jobs.get(id)
        if job is None or job.state is JobState.RESERVED:
            return wire.NOT_FOUND
        self._becomes_worker(conn)
        self._dequeue(job)
        return self._give(job, conn)

    def _delete(self, conn: Client, id: int) -> Reply:
        """Remove a job, unless another client holds it ("Worker Commands": delete)."""
        job = self.jobs.get(id)
        if job is None or job.reserver not in (None, conn):
            return wire.NOT_FOUND
        if job.state.value not in self.profile.deletes:
            return wire.NOT_FOUND
        self._dequeue(job)
        del self.jobs[id]
        job.tube.deletes += 1
        self._deref(job.tube)
        return wire.DELETED

    def _release(self, conn: Client, id: int, pri: int, delay: int) -> Reply:
        """Put a reserved job back into the ready or delay queue ("Worker Commands": release)."""
        job = self._held(conn, id)
        if job is None:
            return wire.NOT_FOUND
        self._unreserve(job)
        job.pri = pri
        job.delay = delay
        job.releases += 1
        self._enqueue(job)
        return wire.BURIED if job.state is JobState.BURIED else wire.RELEASED

    def _bury(self, conn: Client, id: int, pri: int) -> Reply:
        """Set a reserved job aside until it is kicked ("Worker Commands": bury)."""
        job = self._held(conn, id)
        if job is None:
            return wire.NOT_FOUND
        self._unreserve(job)
        job.pri = pri
        self._make_buried(job)
        return wire.BURIED

    def _touch(self, conn: Client, id: int) -> Reply:
        """Let the TTR of a reserved job begin again ("Worker Commands": touch)."""
        job = self._held(conn, id)
        if job is None:
            return wire.NOT_FOUND
        self._clear_deadline(job, conn)
        self._set_deadline(job, conn)
        return wire.TOUCHED

    def _watch(self, conn: Client, name: str) -> Reply:
        """Add a tube to the watch list ("Worker Commands": watch)."""
        tube = self._tube(name)
        if tube not in conn.watch:
            self._add_watch(conn, tube)
        return wire.WATCHING(len(conn.watch))

    def _ignore(self, conn: Client, name: str) -> Reply:
        """Remove a tube from the watch list, but the last ("Worker Commands": ignore)."""
        tube = self._by_name.get(name)
        if tube is not None and tube in conn.watch:
            if len(conn.watch) == 1:
                return wire.NOT_IGNORED
            self._remove_watch(conn, tube)
        return wire.WATCHING(len(conn.watch))

    # ------------------------------------------------------------ "Other Commands"

    def _peek(self, _: Client, id: int) -> Reply:
        """Show the job that is named ("Other Commands": peek)."""
        return self._found(self.jobs.get(id))

    def _peek_ready(self, conn: Client) -> Reply:
        """Show the next ready job of the used tube ("Other Commands": peek-ready)."""
        return self._found(self._next_of(conn.use))

    def _peek_delayed(self, conn: Client) -> Reply:
        """Show the delayed job with the shortest delay left ("Other Commands": peek-delayed)."""
        return self._found(self._soonest(conn.use))

    def _peek_buried(self, conn: Client) -> Reply:
        """Show the next job in the list of buried jobs ("Other Commands": peek-buried)."""
        return self._found(next(iter(conn.use.buried.values()), None))

    def _found(self, job: Job | None) -> Reply:
        return wire.NOT_FOUND if job is None else wire.FOUND(job.id, job.body, *self._told(job))

    def _kick(self, conn: Client, bound: int) -> Reply:
        """Make buried jobs ready, or delayed ones if none is buried ("Other Commands": kick)."""
        tube = conn.use
        count = min(bound, len(tube.buried) or len(tube.delayed))
        for kicked in range(count):
            if self._is_full(tube):
                return wire.KICKED_COUNT(kicked)
            job = next(iter(tube.buried.values()), None) or self._soonest(tube)
            assert job is not None
            self._kick_one(job)
        return wire.KICKED_COUNT(count)

    def _kick_job(self, _: Client, id: int) -> Reply:
        """Make the job that is named ready ("Other Commands": kick-job)."""
        job = self.jobs.get(id)
        if job is None or job.state not in (JobState.BURIED, JobState.DELAYED):
            return wire.NOT_FOUND
        self._kick_one(job)
        return wire.KICKED

    def _kick_one(self, job: Job) -> None:
        self._dequeue(job)
        job.kicks += 1
        self._make_ready(job)

    def _stats_job(self, _: Client, id: int) -> Reply:
        """Tell all about a job ("Other Commands": stats-job)."""
        job = self.jobs.get(id)
        return wire.NOT_FOUND if job is None else wire.OK(stats.job(self, job))

    def _stats_tube(self, _: Client, name: str) -> Reply:
        """Tell all about a tube ("Other Commands": stats-tube)."""
        tube = self._by_name.get(name)
        return wire.NOT_FOUND if tube is None else wire.OK(stats.tube(self, tube))

    def _stats(self, _: Client) -> Reply:
        """Tell all about the server ("Other Commands": stats)."""
        return wire.OK(stats.server(self))

    def _list_tubes(self, _: Client) -> Reply:
        """List all tubes that exist ("Other Commands": list-tubes)."""
        return wire.OK(stats.names(self.tubes))

    def _list_tube_used(self, conn: Client) -> Reply:
        """Tell the tube that the client uses ("Other Commands": list-tube-used)."""
        return wire.USING(conn.use.name)

    def _list_tubes_watched(self, conn: Client) -> Reply:
        """List the tubes that the client watches ("Other Commands": list-tubes-watched)."""
        return wire.OK(stats.names(conn.watch))

    def _quit(self, _: Client) -> Hangup:
        """End the connection ("Other Commands": quit)."""
        return Hangup()

    def _pause_tube(self, _: Client, name: str, delay: int) -> Reply:
        """Let no job of a tube be reserved for a time ("Other Commands": pause-tube)."""
        tube = self._by_name.get(name)
        if tube is None:
            return wire.NOT_FOUND
        # A pause of 0 ends at the next instant, so that clients who wait are served.
        length = delay * SECOND or 1
        self._end_pause(tube)
        self._pause(tube, length, self.now + length)
        tube.pauses += 1
        return wire.PAUSED

    def _answer(self, _: Client, added: str) -> Reply:
        """Answer a command that a fork has added, and that finds nothing to do."""
        return Reply(*self.profile.dialect.examples(added)[0])
