"""The protocol as a state machine: the one place where its rules live.

The model is pure. It has no socket, no clock and no randomness: :meth:`Model.step` takes one event
and the time in nanoseconds, and gives the replies that the event causes on any connection. A put
on one connection may answer a reserve on another; time alone may too.

Where the text leaves a choice, the model asks ``choose``; the first option is what beanstalkd does.

Timers are handled in the order in which they fall due, each at its own time, so that the outcome
does not depend on how often the model is stepped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sortedcontainers import SortedList

from reference_server import stats, wire
from reference_server.commands import COMMANDS
from reference_server.events import Close, Connect, Drain, Event, HalfClose, Hangup, Output
from reference_server.profiles import NEWEST, Profile
from reference_server.queries import Queries
from reference_server.state import (
    SECOND,
    URGENT,
    Alarm,
    Bag,
    Connection,
    Job,
    JobState,
    Timer,
    Tube,
)
from reference_server.tubes import COUNTED, NOTHING, Tubes
from reference_server.waiting import Waiting
from reference_server.wire import Body, Command, Malformed, Put, Reply

T = TypeVar("T")

_METHODS = {
    **{verb: f"_{verb.replace('-', '_')}" for verb in COMMANDS},
    "reserve": "_reserve_without_timeout",
    "reserve-with-timeout": "_reserve",
}
"""The methods of the model that handle commands; named, so that a model can be copied."""
LATE = ""
"""What is too big is refused when its body has come."""
_NO_END = frozenset((wire.EXPECTED_CRLF.word,))
_OPTIONAL_ID = {("peek", 0): "_peek_buried", ("stats", 1): "_stats_job"}
"""Those of commands that may name a job, by the number of arguments."""


def first(options: Sequence[T]) -> T:
    """The choice that beanstalkd makes."""
    return options[0]


class Model(Queries, Tubes, Waiting):
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
        self.profile = profile
        self.max_job_size = profile.max_job_size if max_job_size is None else max_job_size
        self.max_jobs_ready = profile.max_jobs_ready if max_jobs_ready is None else max_jobs_ready
        self.binlog = binlog
        self.host = host
        self.choose = choose
        self.started = self.now = now
        self.draining = False
        self.jobs: dict[int, Job] = {}
        self.tubes: Bag[Tube] = Bag()
        self.connections: dict[int, Connection] = {}
        self.commands: Counter[str] = Counter()
        self.total_jobs = self.total_connections = self.timeouts = self.records = 0
        self._by_name: dict[str, Tube] = {}
        self.gone: dict[str, tuple[int, int]] = {}
        self.next_id = 1
        self._outputs: list[Output] = []
        self._timers: SortedList[Alarm] = SortedList()
        self._default = self._tube("default")
        self._default.refs += 1

    @property
    def next_due(self) -> int | None:
        """When time alone will change something next, in nanoseconds; None if never."""
        try:
            return self._timers[0][0]
        except IndexError:
            return None

    def remember(self, old: Model) -> None:
        """Begins with the jobs that ``old``, ended, has left; those reserved are ready again."""
        self.next_id = old.next_id
        for job in old.jobs.values():
            job = self.jobs[job.id] = replace(job, tube=self._tube(job.tube.name), reserver=None)
            job.tube.refs += 1
            if job.state is JobState.DELAYED:
                self._make_delayed(job, job.deadline)
            elif job.state is JobState.BURIED:
                job.tube.buried[job.id] = job
            else:
                self._make_ready(job)

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        """Handles one event at ``now`` (nanoseconds) and gives the replies it causes, in order.

        ``conn`` names the connection that the event is about: any new number for
        :class:`Connect`, that number from then on. A waiting connection must not be given
        commands.
        """
        outputs = self._outputs = []
        if self._timers and self._timers[0][0] <= now:
            self._fire_timers(now)
        self.now = max(self.now, now)
        self._handle(event, conn)
        return outputs

    def handle(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        """As :meth:`step`, but no timer fires, and ``now`` is taken as it is."""
        outputs = self._outputs = []
        self.now = now
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
            if event.counts:
                self.commands[event.counts] += 1
            self._outputs.append((conn, event.reply))
        elif isinstance(event, Connect):
            self._connect(conn)
        elif isinstance(event, HalfClose):
            self._half_close(self.connections[conn])
        elif isinstance(event, Close):
            self._close(self.connections.pop(conn))
        elif isinstance(event, Drain):
            self.draining = True

    def rename(self, old: int, new: int) -> None:
        """Gives a job another id; it keeps its place but where ids make the order."""
        job = self.jobs[old]
        tables: list[dict[int, Job]] = [self.jobs, job.tube.buried]
        queues = [(job.tube.ready, job.pri), (job.tube.delayed, job.deadline)]
        if job.reserver is not None:
            tables.append(job.reserver.reserved)
            queues.append((job.reserver.deadlines, job.deadline))
        for queue, place in queues:
            if (place, old) in queue:
                queue.remove((place, old))
                queue.add((place, new))
        for kind in (Timer.DELAY, Timer.TTR):
            if (job.deadline, kind, old) in self._timers:
                self._timers.remove((job.deadline, kind, old))
                self._timers.add((job.deadline, kind, new))
        for table in tables:
            renamed = [(new if id == old else id, other) for id, other in table.items()]
            if old in table:
                table.clear()
                table.update(renamed)
        job.id = new
        self.next_id = max(self.next_id, new + 1)

    def fire(self, alarm: Alarm, now: int) -> list[Output]:
        """Lets one timer fire at ``now``, whatever others are due."""
        outputs = self._outputs = []
        self.now = max(self.now, now)
        self._fire(alarm)
        return outputs

    def _command(self, conn: Connection, command: Command) -> None:
        self.commands[command.verb] += 1
        method = _METHODS[command.verb]
        if self.profile.id_is_optional:
            method = _OPTIONAL_ID.get((command.verb, len(command.args)), method)
        reply = getattr(self, method)(conn, *command.args)
        if reply is not None:
            self._outputs.append((conn.id, reply))

    # ------------------------------------------------------------ connections

    def _connect(self, number: int) -> None:
        conn = self.connections[number] = Connection(number, self._default)
        self.total_connections += 1
        self._default.using += 1
        self._default.refs += 1
        self._add_watch(conn, self._default)

    def _quit(self, _: Connection) -> Hangup:
        return Hangup()

    def _half_close(self, conn: Connection) -> None:
        conn.half_closed = True
        if conn.waiting:
            self._stop_waiting(conn)
            if reply := self._give_up(conn):
                self._outputs.append((conn.id, reply))

    def _close(self, conn: Connection) -> None:
        if conn.incoming is not None:
            self._deref(conn.incoming.tube)
        if conn.waiting:
            self._stop_waiting(conn)
        while conn.reserved:
            jobs = list(conn.reserved.values())
            awaited = [job for job in jobs if job.tube.waiting and not job.tube.pause]
            job = self.choose(awaited) if len(awaited) > 1 else (awaited or jobs)[0]
            self._unreserve(job)
            self._make_ready(job)
        while conn.watch:
            self._remove_watch(conn, conn.watch.first())
        conn.use.using -= 1
        self._deref(conn.use)

    # ------------------------------------------------------------ the life of a job

    def _put(self, conn: Connection, put: Put) -> None:
        self.commands["put"] += 1
        if put.size > self.max_job_size:
            # The text does not say whether the body must have come before it is refused.
            if self.open_times and self.choose((LATE, wire.JOB_TOO_BIG.word)) != LATE:
                conn.refused = True
                self._outputs.append((conn.id, wire.JOB_TOO_BIG))
            return
        conn.producer = True
        ttr = max(put.ttr, 1)
        conn.incoming = Job(self.next_id, put.pri, put.delay, ttr, conn.use, self.now)
        conn.use.refs += 1
        self.next_id += 1

    def _end_put(self, conn: Connection, body: Body) -> None:
        if not conn.refused:
            reply = self._body(conn, body.data)
            if self.open_times and not body.is_ended:
                # Of two errors, the text does not say which is told.
                reply = self._loose(reply, _NO_END)
            self._outputs.append((conn.id, reply))
        conn.refused = False

    def _body(self, conn: Connection, data: bytes | None) -> Reply:
        job, conn.incoming = conn.incoming, None
        if job is None:
            return wire.JOB_TOO_BIG
        if data is None or self.draining:
            self._deref(job.tube)
            return wire.EXPECTED_CRLF if data is None else wire.DRAINING
        job.body = data
        self.jobs[job.id] = job
        self.records += 1
        self.total_jobs += 1
        job.tube.total_jobs += 1
        self._enqueue(job)
        return wire.BURIED if job.state is JobState.BURIED else wire.INSERTED(job.id)

    def _enqueue(self, job: Job) -> None:
        """Makes a job delayed or ready, as its delay says."""
        if job.delay:
            self._make_delayed(job, self.now + job.delay * SECOND)
        else:
            self._make_ready(job)

    def _make_delayed(self, job: Job, deadline: int) -> None:
        job.state = JobState.DELAYED
        job.deadline = deadline
        job.tube.delayed.add((deadline, job.id))
        self._timers.add((deadline, Timer.DELAY, job.id))

    def _make_ready(self, job: Job) -> None:
        """Gives a job to a client that waits for it, or puts it into the ready queue.

        It is buried if that is full.
        """
        tube = job.tube
        if tube.waiting and not tube.pause:
            self._serve(job)
            return
        if self._is_full(tube):
            self._make_buried(job)
            return
        job.state = JobState.READY
        tube.ready.add((job.pri, job.id))
        tube.urgent += job.pri < URGENT

    def _is_full(self, tube: Tube) -> bool:
        return self.max_jobs_ready is not None and len(tube.ready) >= self.max_jobs_ready

    def _make_buried(self, job: Job) -> None:
        job.state = JobState.BURIED
        job.buries += 1
        job.tube.buried[job.id] = job

    def _serve(self, job: Job) -> None:
        waiting = job.tube.waiting
        turn = waiting.turn()
        conn = turn
        if len(waiting) > 1:
            conn = self.choose([turn, *(other for other in waiting if other is not turn)])
        self._stop_waiting(conn)
        waiting.took_turn()
        self._outputs.append((conn.id, self._give(job, conn)))

    def _give(self, job: Job, conn: Connection) -> Reply:
        job.state = JobState.RESERVED
        job.reserver = conn
        job.reserves += 1
        job.tube.reserved += 1
        conn.reserved[job.id] = job
        self._set_deadline(job, conn)
        return wire.RESERVED(job.id, job.body, *self._told(job))

    def _set_deadline(self, job: Job, conn: Connection) -> None:
        job.deadline = self.now + job.ttr * SECOND
        conn.deadlines.add((job.deadline, job.id))
        self._timers.add((job.deadline, Timer.TTR, job.id))

    def _clear_deadline(self, job: Job, conn: Connection) -> None:
        conn.deadlines.remove((job.deadline, job.id))
        self._timers.remove((job.deadline, Timer.TTR, job.id))

    def _unreserve(self, job: Job) -> None:
        conn = job.reserver
        assert conn is not None
        self._clear_deadline(job, conn)
        del conn.reserved[job.id]
        job.reserver = None
        job.tube.reserved -= 1

    def _dequeue(self, job: Job) -> None:
        """Takes a job out of the queue that it is in."""
        tube = job.tube
        if job.state is JobState.READY:
            tube.ready.remove((job.pri, job.id))
            tube.urgent -= job.pri < URGENT
        elif job.state is JobState.DELAYED:
            tube.delayed.remove((job.deadline, job.id))
            self._timers.remove((job.deadline, Timer.DELAY, job.id))
        elif job.state is JobState.BURIED:
            del tube.buried[job.id]
        else:
            self._unreserve(job)

    def _held(self, conn: Connection, id: int) -> Job | None:
        """The job with this id, if this client has reserved it."""
        return conn.reserved.get(id)

    def _delete(self, conn: Connection, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is None or job.reserver not in (None, conn):
            return wire.NOT_FOUND
        if job.state.value not in self.profile.deletes:
            return wire.NOT_FOUND
        self._dequeue(job)
        del self.jobs[id]
        self.records += 1
        job.tube.deletes += 1
        self._deref(job.tube)
        return wire.DELETED

    def _release(self, conn: Connection, id: int, pri: int, delay: int) -> Reply:
        job = self._held(conn, id)
        if job is None:
            return wire.NOT_FOUND
        self._unreserve(job)
        job.pri = pri
        job.delay = delay
        job.releases += 1
        self.records += delay > 0
        self._enqueue(job)
        return wire.BURIED if job.state is JobState.BURIED else wire.RELEASED

    def _bury(self, conn: Connection, id: int, pri: int) -> Reply:
        job = self._held(conn, id)
        if job is None:
            return wire.NOT_FOUND
        self._unreserve(job)
        job.pri = pri
        self.records += 1
        self._make_buried(job)
        return wire.BURIED

    def _touch(self, conn: Connection, id: int) -> Reply:
        job = self._held(conn, id)
        if job is None:
            return wire.NOT_FOUND
        self._clear_deadline(job, conn)
        self._set_deadline(job, conn)
        return wire.TOUCHED

    # ------------------------------------------------------------ reserve

    def _reserve_job(self, conn: Connection, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is None or job.state is JobState.RESERVED:
            return wire.NOT_FOUND
        conn.worker = True
        self._dequeue(job)
        return self._give(job, conn)

    # ------------------------------------------------------------ time

    def _fire_timers(self, now: int) -> None:
        while self._timers and self._timers[0][0] <= now:
            self.now = max(self.now, self._timers[0][0])
            self._fire(self._timers[0])

    def _fire(self, alarm: Alarm) -> None:
        _, kind, subject = alarm
        if kind is Timer.WAIT:
            self._wake_up(self.connections[subject])  # type: ignore[index]
        elif kind is Timer.PAUSE:
            self._unpause(self._by_name[subject])  # type: ignore[index]
        else:
            job = self.jobs[subject]  # type: ignore[index]
            if kind is Timer.TTR:
                self.timeouts += 1
                job.timeouts += 1
            self._dequeue(job)
            self._make_ready(job)

    def _unpause(self, tube: Tube) -> None:
        self._end_pause(tube)
        while tube.waiting and (job := self._next_of(tube)):
            self._dequeue(job)
            self._serve(job)

    # ------------------------------------------------------------ kick

    def _kick(self, conn: Connection, bound: int) -> Reply:
        tube = conn.use
        count = min(bound, len(tube.buried) or len(tube.delayed))
        for kicked in range(count):
            if self._is_full(tube):
                return wire.KICKED_COUNT(kicked)
            job = next(iter(tube.buried.values()), None)
            if job is None:
                # Where nobody waits, it makes no difference which is kicked first.
                job = self._soonest(tube, taken=0 if tube.waiting else count - kicked)
            assert job is not None
            self._kick_one(job)
        return wire.KICKED_COUNT(count)

    def _kick_job(self, _: Connection, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is None or job.state not in (JobState.BURIED, JobState.DELAYED):
            return wire.NOT_FOUND
        self._kick_one(job)
        return wire.KICKED

    def _kick_one(self, job: Job) -> None:
        self._dequeue(job)
        job.kicks += 1
        self.records += 1
        self._make_ready(job)

    # ------------------------------------------------------------ stats

    def _stats(self, _: Connection) -> Reply:
        free = frozenset({"current-tubes"} if self.gone else ())
        return self._loose(wire.OK(stats.server(self)), free)

    def _stats_job(self, _: Connection, id: int) -> Reply:
        job = self.jobs.get(id)
        return wire.NOT_FOUND if job is None else wire.OK(stats.job(self, job))

    def _stats_tube(self, _: Connection, name: str) -> Reply:
        tube = self._by_name.get(name)
        if tube is None:
            return self._loose(wire.NOT_FOUND, frozenset({"OK"} if name in self.gone else ()))
        return self._loose(wire.OK(stats.tube(self, tube)), COUNTED if tube.reborn else NOTHING)
