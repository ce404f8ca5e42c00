"""The model with its unspecified times: a timer may be early here and late elsewhere.

The reference server does everything at once. A target may let a tube linger that nothing keeps, may
refuse what is too big before or after its body, and may end two delays in either order if they end
almost together. Here the model asks ``choose`` about that, or answers with a :class:`Loose` reply.
A target with a thread for each client may wake one that waits a moment after there is a job, which
another may have got by then: if ``serves_late``, that is a timer of the tube.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from conformance.transcript import OWN_TUBES
from reference_server import wire
from reference_server.events import Event, Output
from reference_server.lifecycle import most_urgent
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.state import (
    SECOND,
    Alarm,
    Client,
    Job,
    JobState,
    KeptJob,
    Timer,
    Tube,
)
from reference_server.wire import Body, Put, Reply

LATE = ""
"""The choice to refuse a job that is too big only when its body has come."""
ANY_TUBE = "*"
"""The sign that tubes of others may be listed."""
_EARLIER = -3
"""The number of a client that was there before."""
_NO_END = frozenset((wire.EXPECTED_CRLF.word,))
_COUNTED = frozenset(("total-jobs", "cmd-delete", "cmd-pause-tube"))
"""The keys of stats-tube that count all that a tube has seen."""


class PartialReply(Reply):
    """A reply of which some part is open.

    ``free``: words that may come instead, tubes that may be listed, keys of any value.
    """

    free: frozenset[str]


def _loose(reply: Reply, free: frozenset[str]) -> Reply:
    """Return a reply of which these are free."""
    if not free:
        return reply
    loose = PartialReply(*reply)
    loose.free = free
    return loose


class UnspecifiedModel(Model):
    """A model that asks ``choose`` wherever the text does not specify a time.

    ``tie``: nanoseconds by which the ends of two delays must differ to be distinguishable.
    """

    def __init__(self, profile: Profile, tie: int, choose: Callable[[Sequence[Any]], Any]) -> None:
        self.tie = tie
        self.gone: dict[str, tuple[int, int]] = {}
        """The pause of each tube that may linger though nothing keeps it, and when it ends."""
        self.reborn: set[str] = set()
        """Tubes that may be older ones, which have not gone yet, and have their counters."""
        self.refused: set[int] = set()
        """Clients that got JOB_TOO_BIG before the body arrived."""
        self.keeps_places = profile.keeps_places
        """A job that comes back does so to its old place among those of its priority."""
        self.has_guessed = False
        """Set after a choice that no reply need have revealed since."""
        self.was_used = False
        """Tubes may be older than the conversation; but no tube of the suite's own is."""
        self.serves_late = False
        """A client that waits may be served a while after there is a job, as a timer fires late."""
        self.services: list[Alarm] = []
        """The timers by which these are served."""
        self._kicked = 0
        super().__init__(profile, choose=choose)

    def recall(self, jobs: Iterable[KeptJob]) -> None:
        """Begin with jobs of before, those reserved held by a client of before."""
        self.was_used = True
        held = [job for job in jobs if job.state is JobState.RESERVED]
        self.remember(jobs, max((job.id + 1 for job in jobs), default=1))
        if held:
            self._connect(_EARLIER)
        for job in held:
            self._dequeue(mine := self.jobs[job.id])
            # Its time to run goes on.
            mine.ttr = job.deadline // SECOND
            self._make_reserved(mine, self.connections[_EARLIER])
            mine.ttr, mine.reserves = job.ttr, job.reserves

    def _may_linger(self, name: str) -> bool:
        """Tell whether a tube may be there though nothing that is known keeps it."""
        return name in self.gone or (self.was_used and not name.startswith(OWN_TUBES))

    # ------------------------------------------------------------ one step, as the oracle likes it

    def handle(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        """Handle one event as :meth:`step` does, at ``now`` exactly, and let no timer fire."""
        outputs = self._outputs = []
        self.now = now
        self._handle(event, conn)
        return outputs

    def fire(self, alarm: Alarm, now: int) -> list[Output]:
        """Let one timer fire at ``now``, whatever others are due."""
        outputs = self._outputs = []
        self.now = max(self.now, now)
        self._fire(alarm)
        return outputs

    # ------------------------------------------------------------ questions

    def due(self, now: int) -> list[Alarm]:
        """Return the timers that have fallen due by ``now``, in order."""
        return list(itertools.takewhile(lambda alarm: alarm[0] <= now, self._timers))

    def holder(self, alarm: Alarm) -> int | None:
        """Return the connection that holds the job whose TTR ends; None for another timer."""
        _, kind, subject = alarm
        if kind is not Timer.TTR:
            return None
        assert isinstance(subject, int)
        job = self.jobs[subject]
        assert job.reserver is not None
        return job.reserver.id

    def next_ready(self, conn: int) -> Job | None:
        """Return a job that a connection may get if it reserves one now; None if there is none."""
        ids = self._next_ids(self.connections[conn])
        return self.jobs[ids[0]] if ids else None

    def may_be_paused(self, name: str) -> bool:
        """Tell whether a tube of this name, if it lingers, is paused."""
        return self.gone.get(name, (0, 0))[1] > self.now

    def forget_gone(self) -> None:
        """Let no tube linger any more, nor have lingered."""
        self.gone.clear()
        self.reborn.clear()
        self.has_guessed = False

    # ------------------------------------------------------------ clients that are served late

    def _make_ready(self, job: Job) -> None:
        tube = job.tube
        if not self.serves_late or not tube.waiting or tube.pause or self._is_full(tube):
            super()._make_ready(job)
            return
        self._queue(job)
        service = self.now, Timer.PAUSE, tube.name
        self._timers.add(service)
        self.services.append(service)

    def _fire(self, alarm: Alarm) -> None:
        if alarm not in self.services:
            super()._fire(alarm)
            return
        self._timers.remove(alarm)
        self.services.remove(alarm)
        tube = self._by_name.get(str(alarm[2]))
        if tube and tube.waiting and not tube.pause and (job := self._next_of(tube)):
            self._dequeue(job)
            self._serve(job)

    # ------------------------------------------------------------ jobs that come back

    def _next_ids(self, conn: Client) -> list[int]:
        ids = super()._next_ids(conn)
        if self.keeps_places or not ids:
            return ids
        pri = self.jobs[ids[0]].pri
        tubes = (tube for tube in conn.watch if not tube.pause)
        return self._first_of(id for tube in tubes for id in most_urgent(tube, pri))

    def _next_of(self, tube: Tube) -> Job | None:
        head = super()._next_of(tube)
        if self.keeps_places or head is None:
            return head
        ids = self._first_of(most_urgent(tube, head.pri))
        return self.jobs[ids[0] if len(ids) == 1 else self.choose(ids)]

    def _first_of(self, ids: Iterable[int]) -> list[int]:
        """Return all of these jobs that came back, and of the others the one received first."""
        jobs = [self.jobs[id] for id in sorted(ids)]
        fresh = [job.id for job in jobs if not (job.reserves or job.kicks)]
        return sorted(fresh[:1] + [job.id for job in jobs if job.reserves or job.kicks])

    # ------------------------------------------------------------ tubes that linger

    def _tube(self, name: str) -> Tube:
        is_new = name not in self._by_name
        tube = super()._tube(name)
        if is_new and name in self.gone:
            self.reborn.add(name)
            self._revive(tube)
        return tube

    def _revive(self, tube: Tube) -> None:
        """Let a tube go on with the pause that it had, if it is the one that was there before."""
        if self.may_be_paused(tube.name):
            self.has_guessed = True
            if self.choose(("gone", "there")) == "there":
                self._pause(tube, *self.gone[tube.name])
        del self.gone[tube.name]

    def _deref(self, tube: Tube) -> None:
        pause = tube.pause, tube.unpause_at
        super()._deref(tube)
        if not tube.refs:
            self.gone[tube.name] = pause
            self.reborn.discard(tube.name)

    def _pause_tube(self, conn: Client, name: str, delay: int) -> Reply:
        reply = super()._pause_tube(conn, name, delay)
        if reply != wire.NOT_FOUND or not self._may_linger(name):
            return reply
        if self.choose(("NOT_FOUND", "PAUSED")) == "NOT_FOUND":
            return reply
        length = delay * SECOND or 1
        self.gone[name] = length, self.now + length
        return wire.PAUSED

    def _list_tubes(self, conn: Client) -> Reply:
        others = {ANY_TUBE} if self.was_used else set()
        return _loose(super()._list_tubes(conn), frozenset(self.gone) | others)

    def _stats(self, conn: Client) -> Reply:
        own = frozenset(self.profile.dialect.keys_of("stats"))
        return _loose(super()._stats(conn), own | {"current-tubes"} if self.gone else own)

    def _stats_job(self, conn: Client, id: int) -> Reply:
        own = frozenset(self.profile.dialect.keys_of("stats-job"))
        reply = super()._stats_job(conn, id)
        return reply if reply == wire.NOT_FOUND else _loose(reply, own)

    def _stats_tube(self, conn: Client, name: str) -> Reply:
        reply = super()._stats_tube(conn, name)
        if reply == wire.NOT_FOUND:
            return _loose(reply, frozenset({"OK"} if self._may_linger(name) else ()))
        own = frozenset(self.profile.dialect.keys_of("stats-tube"))
        return _loose(reply, own | _COUNTED if name in self.reborn else own)

    # ------------------------------------------------------------ commands of a fork

    def _answer(self, conn: Client, added: str) -> Reply:
        words = frozenset(word for word, *_ in self.profile.dialect.examples(added))
        return _loose(super()._answer(conn, added), words)

    # ------------------------------------------------------------ bodies that are too big

    def _put(self, conn: Client, put: Put) -> None:
        super()._put(conn, put)
        if put.size <= self.max_job_size:
            return
        # The text does not say whether the body must have come before it is refused.
        if self.choose((LATE, wire.JOB_TOO_BIG.word)) != LATE:
            self.refused.add(conn.id)
            self._outputs.append((conn.id, wire.JOB_TOO_BIG))

    def _end_put(self, conn: Client, body: Body) -> None:
        if conn.id in self.refused:
            self.refused.remove(conn.id)
            return
        super()._end_put(conn, body)
        if not body.is_ended:
            # The text does not say which of two errors is reported.
            id, reply = self._outputs[-1]
            assert isinstance(reply, Reply)
            self._outputs[-1] = id, _loose(reply, _NO_END)

    def _close(self, conn: Client) -> None:
        super()._close(conn)
        self.refused.discard(conn.id)

    # ------------------------------------------------------------ delays that end together

    def _soonest(self, tube: Tube) -> Job | None:
        head, kicked = super()._soonest(tube), self._kicked
        if head is None:
            return head
        self._kicked = max(kicked - 1, 0)
        end = head.deadline + self.tie
        near = itertools.takewhile(lambda entry: entry[0] <= end, tube.delayed)
        jobs = [self.jobs[id] for _, id in near]
        # It is among those that are kicked whichever of the others comes before it.
        return head if len(jobs) <= max(kicked, 1) else self.choose(jobs)

    def _kick(self, conn: Client, bound: int) -> Reply:
        # Where nobody waits, it makes no difference which is kicked first.
        self._kicked = 0 if conn.use.waiting else min(bound, len(conn.use.delayed))
        reply = super()._kick(conn, bound)
        self._kicked = 0
        return reply
