"""The rules of section "Job Lifecycle": how a job goes from state to state, and who gets it.

``REPLIES``, ``BECOMES`` and ``TRANSITIONS`` are the pictures of that section as tables; ``CLIENTS``
is the same for clients. The model is checked against them, and so is every target; the pictures of
our documentation are drawn from them.

Where the text leaves a choice, ``choose`` is asked; the first option is what beanstalkd does.
Timers are handled in the order in which they fall due, each at its own time, so that the outcome
does not depend on how often the model is stepped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from reference_server import wire
from reference_server.commands import U64
from reference_server.events import Hangup, Output
from reference_server.profiles import Profile
from reference_server.state import SECOND, Alarm, Client, Job, JobState, KeptJob, Timer, Tube
from reference_server.store import Store
from reference_server.wire import Reply

STATES = ("ready", "delayed", "buried", "reserved", "reserved by another")
"""The states of a job, as a client sees them that may have reserved it."""
REPLIES = """
    delete       DELETED    DELETED   DELETED   DELETED    NOT_FOUND
    release      NOT_FOUND  NOT_FOUND NOT_FOUND RELEASED   NOT_FOUND
    bury         NOT_FOUND  NOT_FOUND NOT_FOUND BURIED     NOT_FOUND
    touch        NOT_FOUND  NOT_FOUND NOT_FOUND TOUCHED    NOT_FOUND
    kick-job     NOT_FOUND  KICKED    KICKED    NOT_FOUND  NOT_FOUND
    reserve-job  RESERVED   RESERVED  RESERVED  NOT_FOUND  NOT_FOUND
    peek         FOUND      FOUND     FOUND     FOUND      FOUND
    stats-job    OK         OK        OK        OK         OK
"""
"""The reply to each command that names a job, by the state of that job."""
BECOMES = {
    "RELEASED": "ready",
    "BURIED": "buried",
    "KICKED": "ready",
    "RESERVED": "reserved",
    "DELETED": "gone",
}
"""The state of a job after such a reply; after others it is as before."""
TRANSITIONS = """
    reserve             reserved  -         -         -
    kick                -         ready     ready     -
    release-with-delay  -         -         -         delayed
    the-delay-ends      -         ready     -         -
    the-ttr-ends        -         -         -         ready
    the-client-leaves   -         -         -         ready
"""
"""The state of a job after what does not name it, and after release with a delay; -: as before."""

CLIENTS = """
    put                    idle       in-a-body
    the-body-ends          in-a-body  idle
    reserve                idle       waiting
    a-job-is-ready         waiting    idle
    the-timeout-ends       waiting    idle
    DEADLINE_SOON          waiting    idle
    quit                   idle       gone
    the-client-leaves      idle       gone
    the-client-leaves      in-a-body  gone
    the-client-leaves      waiting    gone
"""
"""The events that change the state of a client, with the states before and after."""

SAFETY_MARGIN = SECOND
"""The last second of a TTR, in which a client is not made to wait for another job."""


class Lifecycle(Store):
    """The jobs of a server, and the clients that wait for them.

    ``max_jobs_ready``: how many jobs fit into the ready queue; None if any number.
    """

    def __init__(
        self,
        profile: Profile,
        max_jobs_ready: int | None,
        now: int,
        choose: Callable[[Sequence[Any]], Any],
    ) -> None:
        super().__init__(now)
        self.profile = profile
        self.max_jobs_ready = max_jobs_ready
        self.choose = choose
        self.timeouts = 0
        self._outputs: list[Output] = []

    # ------------------------------------------------------------ into a state

    def remember(self, kept: Iterable[KeptJob], next_id: int) -> None:
        """Begin with jobs that another server has left; those reserved are ready again."""
        self.next_id = next_id
        for id, name, body, state, pri, delay, ttr, created, deadline, _, *counters in kept:
            tube = self._tube(name)
            tube.refs += 1
            job = Job(id, pri, delay, ttr, tube, created, body, state, 0, None, *counters)
            self.jobs[id] = job
            if state is JobState.DELAYED:
                self._make_delayed(job, deadline)
            elif state is JobState.BURIED:
                tube.buried[id] = job
            else:
                self._make_ready(job)

    def _enqueue(self, job: Job) -> None:
        """Make a job delayed or ready, as its delay says."""
        if job.delay:
            self._make_delayed(job, self.now + job.delay * SECOND)
        else:
            self._make_ready(job)

    def _make_ready(self, job: Job) -> None:
        """Give a job to a client that waits for it, or put it into the ready queue.

        It is buried if that is full.
        """
        tube = job.tube
        if tube.waiting and not tube.pause:
            self._serve(job)
        elif self._is_full(tube):
            self._make_buried(job)
        else:
            self._queue(job)

    def _is_full(self, tube: Tube) -> bool:
        return self.max_jobs_ready is not None and len(tube.ready) >= self.max_jobs_ready

    def _serve(self, job: Job) -> None:
        """Give a job to one of the clients that wait for it."""
        waiting = job.tube.waiting
        turns = waiting.turns()
        conn = turns[0] if len(turns) == 1 else self.choose(turns)
        self._stop_waiting(conn)
        waiting.took_turn()
        self._outputs.append((conn.id, self._give(job, conn)))

    def _give(self, job: Job, conn: Client) -> Reply:
        """Let a client hold a job, and return the reply that tells it."""
        self._make_reserved(job, conn)
        return wire.RESERVED(job.id, job.body, *self._told(job))

    def _told(self, job: Job) -> tuple[int, ...]:
        """Return the numbers that RESERVED and FOUND tell of a job besides its id."""
        return (job.pri,) if self.profile.tells_priority else ()

    # ------------------------------------------------------------ the job that is next

    def _next_ready(self, conn: Client) -> Job | None:
        """Return the job that a reserve gets; None if there is none."""
        ids = self._next_ids(conn)
        if not ids:
            return None
        return self.jobs[ids[0] if len(ids) == 1 else self.choose(ids)]

    def _next_ids(self, conn: Client) -> list[int]:
        """Return the ids of the jobs in all watched, unpaused tubes of which a reserve gets one:
        the oldest of the smallest priority with beanstalkd."""
        tubes = [tube for tube in conn.watch if tube.ready and not tube.pause]
        heads = [tube.ready[0] for tube in tubes]
        if not heads or self.profile.first_in_first_out:
            return [min(heads)[1]] if heads else []
        # The text names no order of tubes, nor one within a priority.
        return [
            id
            for pri, id in sorted(
                (pri, id)
                for tube, (pri, _) in zip(tubes, heads, strict=True)
                for id in most_urgent(tube, pri)
            )
        ]

    def _next_of(self, tube: Tube) -> Job | None:
        """Return the ready job of a tube that is next, whichever client asks."""
        head = self._head(tube.ready)
        if head is None or self.profile.first_in_first_out:
            return head
        equal = list(most_urgent(tube, head.pri))
        return head if len(equal) == 1 else self.jobs[self.choose(equal)]

    def _soonest(self, tube: Tube) -> Job | None:
        """Return the delayed job of a tube whose delay ends first."""
        return self._head(tube.delayed)

    # ------------------------------------------------------------ clients that wait

    def _give_up(self, conn: Client) -> Reply | None:
        """Answer a client that cannot wait any more, or end its connection."""
        if self.profile.has_timeouts:
            return wire.TIMED_OUT
        self._outputs.append((conn.id, Hangup()))
        return None

    def _safe_until(self, conn: Client) -> int | None:
        """Return when a client is not made to wait any more; None if it may be for ever."""
        if not (self.profile.deadline_soon and conn.deadlines):
            return None
        return conn.deadlines[0][0] - SAFETY_MARGIN

    def _set_wake_up(self, conn: Client) -> None:
        due = [at for at in (conn.timeout_at, self._safe_until(conn)) if at is not None]
        if due:
            conn.wakes_at = min(due)
            self._timers.add((conn.wakes_at, Timer.WAIT, conn.id))

    def _wake_up(self, conn: Client) -> None:
        """Tell a client that it has waited to the end of its timeout, or to its safety margin."""
        safe_until = self._safe_until(conn)
        soon = safe_until is not None and safe_until <= self.now
        self._stop_waiting(conn)
        self._outputs.append((conn.id, wire.DEADLINE_SOON if soon else wire.TIMED_OUT))

    # ------------------------------------------------------------ time

    def _fire_timers(self, now: int) -> None:
        """Let all timers fire that are due by ``now``."""
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
        """End the pause of a tube, and serve the clients that wait for its jobs."""
        self._end_pause(tube)
        while tube.waiting and (job := self._next_of(tube)):
            self._dequeue(job)
            self._serve(job)


def most_urgent(tube: Tube, pri: int) -> Iterator[int]:
    """Return the ids of a tube's ready jobs with this priority."""
    return (id for _, id in tube.ready.irange((pri, 0), (pri, U64)))
