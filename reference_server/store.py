"""The memory of a server: its jobs, tubes and connections, and the queues and timers of its jobs.

It keeps them consistent, and knows no command, no reply and no choice: those are for the model.
"""

from __future__ import annotations

from sortedcontainers import SortedList

from reference_server.state import (
    SECOND,
    URGENT,
    Alarm,
    Bag,
    Client,
    Job,
    JobState,
    Timer,
    Tube,
)


class Store:
    """All that a server remembers; ``now`` is in nanoseconds."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.jobs: dict[int, Job] = {}
        self.tubes: Bag[Tube] = Bag()
        self.connections: dict[int, Client] = {}
        self.producers = self.workers = self.waiting = 0
        """The connections that have put, those that have reserved, and those that wait."""
        self.next_id = 1
        self._by_name: dict[str, Tube] = {}
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

    def is_waiting(self, conn: int) -> bool:
        """Tell whether a connection waits for a job; its next command must wait as well."""
        return self.connections[conn].waiting

    def is_paused(self, tube: str) -> bool:
        """Tell whether a tube, if there is one of this name, is paused."""
        return tube in self._by_name and bool(self._by_name[tube].pause)

    # ------------------------------------------------------------ tubes

    def _tube(self, name: str) -> Tube:
        """Return the tube of this name, made if there is none."""
        tube = self._by_name.get(name)
        if tube is None:
            tube = self._by_name[name] = Tube(name)
            self.tubes.add(tube)
        return tube

    def _deref(self, tube: Tube) -> None:
        """Note that one job or client less keeps a tube; delete it if that was the last."""
        tube.refs -= 1
        if not tube.refs:
            self._end_pause(tube)
            self.tubes.remove(tube)
            del self._by_name[tube.name]

    def _add_watch(self, conn: Client, tube: Tube) -> None:
        conn.watch.add(tube)
        tube.watching += 1
        tube.refs += 1

    def _remove_watch(self, conn: Client, tube: Tube) -> None:
        conn.watch.remove(tube)
        tube.watching -= 1
        self._deref(tube)

    def _pause(self, tube: Tube, length: int, end: int) -> None:
        tube.pause = length
        tube.unpause_at = end
        self._timers.add((end, Timer.PAUSE, tube.name))

    def _end_pause(self, tube: Tube) -> None:
        if tube.pause:
            self._timers.remove((tube.unpause_at, Timer.PAUSE, tube.name))
            tube.pause = 0

    # ------------------------------------------------------------ queues

    def _head(self, queue: SortedList[tuple[int, int]]) -> Job | None:
        """Return the first job of a queue; None if it is empty."""
        return self.jobs[queue[0][1]] if queue else None

    def _held(self, conn: Client, id: int) -> Job | None:
        """Return the job with this id, if this client has reserved it."""
        return conn.reserved.get(id)

    def _queue(self, job: Job) -> None:
        """Put a job into the ready queue of its tube."""
        job.state = JobState.READY
        job.tube.ready.add((job.pri, job.id))
        job.tube.urgent += job.pri < URGENT

    def _make_delayed(self, job: Job, deadline: int) -> None:
        """Put a job into the delay queue of its tube until ``deadline``."""
        job.state = JobState.DELAYED
        job.deadline = deadline
        job.tube.delayed.add((deadline, job.id))
        self._timers.add((deadline, Timer.DELAY, job.id))

    def _make_buried(self, job: Job) -> None:
        """Put a job at the end of the buried jobs of its tube."""
        job.state = JobState.BURIED
        job.buries += 1
        job.tube.buried[job.id] = job

    def _make_reserved(self, job: Job, conn: Client) -> None:
        """Let a client hold a job, until its TTR ends."""
        job.state = JobState.RESERVED
        job.reserver = conn
        job.reserves += 1
        job.tube.reserved += 1
        conn.reserved[job.id] = job
        self._set_deadline(job, conn)

    def _unreserve(self, job: Job) -> None:
        """Take a job away from the client that holds it."""
        conn = job.reserver
        assert conn is not None
        self._clear_deadline(job, conn)
        del conn.reserved[job.id]
        job.reserver = None
        job.tube.reserved -= 1

    def _set_deadline(self, job: Job, conn: Client) -> None:
        job.deadline = self.now + job.ttr * SECOND
        conn.deadlines.add((job.deadline, job.id))
        self._timers.add((job.deadline, Timer.TTR, job.id))

    def _clear_deadline(self, job: Job, conn: Client) -> None:
        conn.deadlines.remove((job.deadline, job.id))
        self._timers.remove((job.deadline, Timer.TTR, job.id))

    def _dequeue(self, job: Job) -> None:
        """Take a job out of the queue that it is in, or from its holder."""
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

    # ------------------------------------------------------------ clients that wait

    def _start_waiting(self, conn: Client, timeout_at: int | None) -> None:
        """Let a client wait for a job of its tubes until ``timeout_at``; None: for ever."""
        conn.waiting = True
        self.waiting += 1
        for tube in conn.watch:
            tube.waiting.add(conn)
        conn.timeout_at = timeout_at

    def _stop_waiting(self, conn: Client) -> None:
        conn.waiting = False
        self.waiting -= 1
        for tube in conn.watch:
            tube.waiting.remove(conn)
        if conn.wakes_at is not None:
            self._timers.remove((conn.wakes_at, Timer.WAIT, conn.id))
            conn.wakes_at = conn.timeout_at = None
