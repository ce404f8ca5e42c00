"""Decides whether what went over the wire is allowed: the model, with all that it leaves open.

The oracle holds the set of worlds, states of the model, that are consistent with everything seen.
A reply is explained by moves: a request that was sent is handled, or a timer that is due fires. A
world forks where several moves may have come next (commands of several connections that were in
flight together, a timer that may or may not have fired between sending and receiving) and where the
model has a choice; every reply that is observed removes the worlds that would not have given it.
No world left is a violation; too many are given up as inconclusive, never taken for a pass.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.agreement import agrees
from conformance.verdict import Inconclusive
from reference_server.events import Close, Connect, Event, HalfClose, Hangup
from reference_server.model import SAFETY_MARGIN, Model, first
from reference_server.profiles import NEWEST, Profile
from reference_server.state import SECOND, Alarm, Job, State, Timer
from reference_server.wire import Body, Command, Reply, RequestReader

EARLY = SECOND // 100
"""How much the clocks of target and tester may differ, in nanoseconds."""
FOR_EVER = 2**63
_LAST = (HalfClose(), Command("quit"))
"""After these the target ends a connection."""
_RESERVES = ("reserve", "reserve-with-timeout")
MAX_WORLDS = 64
"""Worlds after a reply beyond which the oracle gives up."""
MAX_MOVES = 4000
"""Moves looked at for one reply beyond which the oracle gives up."""


class Violation(Exception):
    """The target did what no world allows; ``expected`` is what the worlds would have given."""

    def __init__(self, expected: Sequence[str], observed: str) -> None:
        super().__init__(f"expected {' or '.join(expected)}, observed {observed}")
        self.expected = tuple(expected)
        self.observed = observed


@dataclass(slots=True)
class _Item:
    """Something that a client did and the target comes to at ``at`` (nanoseconds) or later."""

    event: Event
    at: int


@dataclass(slots=True)
class _Client:
    """What a client has sent, understood once for all worlds."""

    reader: RequestReader
    items: list[_Item] = field(default_factory=list)
    ended: bool = False


class _World:
    """One state that the target may be in: how far each client is handled, and what it is owed."""

    __slots__ = ("done", "model", "owed")

    def __init__(self, model: Model) -> None:
        self.model = model
        self.done: dict[int, int] = {}
        self.owed: dict[int, deque[Reply]] = {}

    def fork(self) -> _World:
        twin = _World(copy.deepcopy(self.model))
        twin.done = dict(self.done)
        twin.owed = {conn: deque(replies) for conn, replies in self.owed.items()}
        return twin

    def key(self) -> object:
        """The same for worlds between which nothing that follows can tell."""
        model = self.model
        jobs = tuple(
            (*_visible(job), job.tube.name, job.reserver and job.reserver.id)
            for _, job in sorted(model.jobs.items())
        )
        tubes = frozenset(
            (tube.name, tube.refs, tube.pause and _about(tube.unpause_at), tuple(tube.buried))
            for tube in model.tubes
        )
        conns = tuple(
            (
                *(conn.id, conn.use.name, frozenset(tube.name for tube in conn.watch)),
                *(conn.waiting, _about(conn.timeout_at), conn.half_closed),
            )
            for conn in model.connections.values()
        )
        owed = tuple((conn, tuple(replies)) for conn, replies in self.owed.items() if replies)
        return jobs, tubes, conns, owed, tuple(self.done.items())


class _Frontier:
    """Worlds that are still to be looked at, each of them once; more may be added meanwhile."""

    def __init__(self, worlds: Iterable[_World]) -> None:
        self.worlds = list(worlds)

    def __iter__(self) -> Iterator[_World]:
        seen: set[object] = set()
        while self.worlds:
            world = self.worlds.pop()
            if self.worlds or seen:
                key = world.key()
                if key in seen:
                    continue
                seen.add(key)
            yield world


def _about(time: int | None) -> int | None:
    """A point in time as exactly as the clocks of target and tester agree."""
    return None if time is None else (time + EARLY // 2) // EARLY


def _visible(job: Job) -> tuple[object, ...]:
    """What can be seen of a job, now or later."""
    timed = job.state in (State.RESERVED, State.DELAYED)
    return (
        *(job.id, job.state, job.pri, job.delay, timed and _about(job.deadline)),
        *(job.reserves, job.timeouts, job.releases, job.buries, job.kicks),
    )


class _Decider:
    """Answers the model's choices from a list, then with the first option, and notes the rest."""

    def __init__(self, decisions: Sequence[int]) -> None:
        self._decisions = decisions
        self.sizes: list[int] = []

    def __call__(self, options: Sequence[Any]) -> Any:
        number = len(self.sizes)
        self.sizes.append(len(options))
        return options[self._decisions[number] if number < len(self._decisions) else 0]

    def others(self) -> Iterator[list[int]]:
        """The decisions that were not taken."""
        for number in range(len(self._decisions), len(self.sizes)):
            taken = [*self._decisions, *[0] * (number - len(self._decisions))]
            for option in range(1, self.sizes[number]):
                yield [*taken, option]


class Oracle:
    """Judges one conversation with a target of this profile.

    Times are in nanoseconds. ``lateness``: how late the target's timers may be; ``max_job_size`` in
    bytes, the profile's default if None.
    """

    def __init__(
        self,
        profile: Profile = NEWEST,
        max_job_size: int | None = None,
        lateness: int = SECOND // 4,
    ) -> None:
        model = Model(profile, max_job_size=max_job_size)
        self._profile = profile
        self._max_job_size = model.max_job_size
        self._lateness = lateness
        self._worlds = [_World(model)]
        self._clients: dict[int, _Client] = {}
        self._expected: list[str] = []
        self._moves = 0
        self._jumps: deque[tuple[int, int]] = deque(maxlen=8)
        self.most_worlds = 1

    @property
    def model(self) -> Model:
        """One of the states that the target may be in, to be looked at only."""
        return self._worlds[0].model

    def next_due(self, now: int) -> int | None:
        """When a timer falls due next after ``now``, in any of the possible states."""
        dues = (alarm[0] for world in self._worlds for alarm in world.model.due(FOR_EVER))
        return min((due for due in dues if due > now), default=None)

    # ------------------------------------------------------------ what the clients do

    def connect(self, conn: int, now: int) -> None:
        """A client has connected."""
        self._clients[conn] = _Client(RequestReader(self._profile, self._max_job_size))
        for world in self._worlds:
            world.model.handle(Connect(), max(world.model.now, now), conn)
            world.done[conn] = 0
            world.owed[conn] = deque()

    def sent(self, conn: int, data: bytes, now: int) -> None:
        """A client has sent these bytes."""
        client = self._clients[conn]
        client.reader.receive(data)
        while (request := client.reader.next_request()) is not None:
            client.items.append(_Item(request, now))

    def half_close(self, conn: int, now: int) -> None:
        """A client sends nothing more."""
        self._clients[conn].items.append(_Item(HalfClose(), now))

    def moved(self, before: int, now: int) -> None:
        """The target's clock was moved: what fell due meanwhile fires at the end of that."""
        self._jumps.append((before, now))

    def _fires_at(self, alarm: Alarm) -> int:
        due = alarm[0]
        return next((end for start, end in self._jumps if start < due <= end), due)

    # ------------------------------------------------------------ what the target does

    def received(self, conn: int, reply: Reply, now: int) -> None:
        """A client has got a reply; raises :class:`Violation` or Inconclusive."""
        self._judge(conn, reply, now)

    def ended(self, conn: int, now: int) -> None:
        """The target has closed a connection; raises :class:`Violation` or Inconclusive."""
        self._judge(conn, None, now)
        self._clients[conn].ended = True
        for world in self._worlds:
            world.model.handle(Close(), max(world.model.now, now), conn)

    def _judge(self, conn: int, reply: Reply | None, now: int) -> None:
        self._expected = []
        self._moves = 0
        worlds = [
            after for world in self._worlds for after in self._explain(world, conn, reply, now)
        ]
        if not worlds and not self._expected:
            sent = len(self._clients[conn].items)
            owes = any(w.done[conn] < sent or w.model.is_waiting(conn) for w in self._worlds)
            self._expected.append("no reply yet" if owes else "no reply without a request")
        self._keep(worlds, "the end of the connection" if reply is None else str(reply))

    def quiet(self, now: int) -> None:
        """Nothing more has come, though the target has had the time to answer all it was sent.

        Raises :class:`Violation` or Inconclusive.
        """
        self._expected = []
        self._moves = 0
        found, frontier = [], _Frontier(self._worlds)
        for world in frontier:
            owed = [replies[0] for replies in world.owed.values() if replies]
            if owed:
                self._expected += map(str, owed)
                continue
            alarms, conns = self._possible(world, now)
            if any(self._ends_put(world, conn) for conn in conns):
                # Only the reply tells the id.
                self._expected.append("a reply to put")
                continue
            ordered = [a for a in alarms if not self._may_be_lost(world, a)]
            alarms = ordered if self._must_fire(ordered, now) else []
            if not alarms and not conns:
                found.append(world)
            for alarm in alarms[:1]:
                frontier.worlds += self._fired(world, alarm, not conns)
            for conn in conns:
                frontier.worlds += self._handled(world, conn, 0, None, now, len(conns) == 1)
            self._count(len(conns) + 1)
        self._keep(found, "nothing")

    def _ends_put(self, world: _World, conn: int) -> bool:
        return isinstance(self._clients[conn].items[world.done[conn]].event, Body)

    def _count(self, moves: int) -> None:
        self._moves += moves
        if self._moves > MAX_MOVES:
            raise Inconclusive("too many ways in which it may have come to this reply")

    def _keep(self, worlds: list[_World], observed: str) -> None:
        if not worlds:
            raise Violation(list(dict.fromkeys(self._expected)), observed)
        if len(worlds) > 1:
            worlds = list({world.key(): world for world in worlds}.values())
        if len(worlds) > MAX_WORLDS:
            raise Inconclusive(f"more than {MAX_WORLDS} states are possible")
        self._worlds = worlds
        self.most_worlds = max(self.most_worlds, len(worlds))

    # ------------------------------------------------------------ worlds and moves

    def _explain(self, world: _World, conn: int, reply: Reply | None, now: int) -> list[_World]:
        """The worlds after this one in which the reply (None: the end) has been given."""
        found, frontier = [], _Frontier([world])
        for world in frontier:
            given = self._given(world, conn, reply)
            if given is not None:
                if given:
                    found.append(world)
                continue
            alarms, conns = self._possible(world, now)
            only = len(alarms) + len(conns) == 1
            for alarm in alarms:
                frontier.worlds += self._fired(world, alarm, only)
            for other in conns:
                frontier.worlds += self._handled(world, other, conn, reply, now, only)
            self._count(len(alarms) + len(conns))
        return found

    def _given(self, world: _World, conn: int, reply: Reply | None) -> bool | None:
        """Whether a world has given this reply; None if it has not given any that is open."""
        owed = world.owed[conn]
        if owed:
            right = reply is not None and agrees(owed[0], reply)
            if right:
                owed.popleft()
            else:
                self._expected.append(str(owed[0]))
            return right
        if reply is None and self._last(world, conn) in _LAST:
            return True
        return None

    def _last(self, world: _World, conn: int) -> Event | None:
        """What was handled last for a client."""
        done = world.done[conn]
        return self._clients[conn].items[done - 1].event if done else None

    def _possible(self, world: _World, now: int) -> tuple[list[Alarm], list[int]]:
        """The moves that may come next: timers that may fire, clients that may be handled."""
        model = world.model
        alarms = model.due(now + EARLY)
        # Timers fire in order, but for those of idle holders: these may be forgotten.
        ordered = [alarm for alarm in alarms if not self._may_be_lost(world, alarm)]
        firing = [
            alarm
            for alarm in alarms
            if not ordered or self._fires_at(alarm) <= self._fires_at(ordered[0]) + self._lateness
        ]
        conns = []
        for number, client in self._clients.items():
            done = world.done[number]
            if done >= len(client.items) or client.ended or self._last(world, number) in _LAST:
                continue
            item = client.items[done]
            if model.is_waiting(number) and not isinstance(item.event, HalfClose):
                continue
            if not self._must_fire(ordered, item.at):
                conns.append(number)
        return firing, conns

    def _may_be_lost(self, world: _World, alarm: Alarm) -> bool:
        """Whether this is the TTR of a client that has been idle since; tested elsewhere."""
        _, kind, subject = alarm
        if kind is not Timer.TTR:
            return False
        holder = world.model.jobs[subject].reserver  # type: ignore[index]
        assert holder is not None
        done = world.done[holder.id]
        last = self._clients[holder.id].items[done - 1].at if done else 0
        return last <= self._fires_at(alarm) + self._lateness

    def _must_fire(self, ordered: Sequence[Alarm], at: int) -> bool:
        """Whether a timer must have fired before something that was sent at ``at`` is handled."""
        return bool(ordered) and self._fires_at(ordered[0]) + self._lateness < at

    def _fired(self, world: _World, alarm: Alarm, only: bool) -> Iterator[_World]:
        yield from self._branches(
            world, lambda twin: twin.model.fire(alarm, self._fires_at(alarm)), only
        )

    def _handled(
        self, world: _World, conn: int, asked: int, reply: Reply | None, now: int, only: bool
    ) -> Iterator[_World]:
        """After the next thing that ``conn`` has sent; ``reply`` was seen by ``asked``."""
        item = self._clients[conn].items[world.done[conn]]
        times = [item.at]
        reserver = world.model.connections[conn]
        if reserver.deadlines and isinstance(item.event, Command) and item.event.verb in _RESERVES:
            # The safety margin may have begun between sending and receiving, or hardly.
            edge = reserver.deadlines[0][0] - SAFETY_MARGIN
            if item.at - self._lateness <= edge <= now + EARLY:
                times = [min(item.at, edge - 1), max(item.at, edge)]
        for time in times:
            at = max(time, world.model.now + 1) if len(times) == 1 else time

            def handle(twin: _World, at: int = at) -> list[tuple[int, Reply | Hangup]]:
                twin.done[conn] += 1
                if isinstance(item.event, Body):
                    tells = reply and (reply.word == "INSERTED") == (conn == asked)
                    self._take_id(twin.model, conn, reply if tells else None)
                return twin.model.handle(item.event, at, conn)

            yield from self._branches(world, handle, only and len(times) == 1)

    @staticmethod
    def _take_id(model: Model, conn: int, reply: Reply | None) -> None:
        """Lets a job have the id that the target gives it."""
        # A client that waits may see the id before the one that puts does.
        incoming = model.connections[conn].incoming
        if incoming is None or reply is None or reply.word not in ("INSERTED", "RESERVED"):
            return
        id = int(reply.args[0])
        if id not in model.jobs:
            incoming.id = id
            model.next_id = max(model.next_id, id + 1)

    def _branches(self, world: _World, move: Any, only: bool) -> Iterator[_World]:
        """The worlds after a move, one for each way in which the model may choose."""
        if only and not self._may_choose(world.model):
            self._apply(world, move, first)
            yield world
            return
        decisions: list[list[int]] = [[]]
        while decisions:
            twin = world.fork()
            decider = _Decider(decisions.pop())
            self._apply(twin, move, decider)
            decisions += decider.others()
            yield twin

    @staticmethod
    def _may_choose(model: Model) -> bool:
        conns = model.connections.values()
        return sum(conn.waiting for conn in conns) > 1 or any(conn.deadlines for conn in conns)

    @staticmethod
    def _apply(world: _World, move: Any, choose: Any) -> None:
        world.model.choose = choose
        for receiver, reply in move(world):
            if isinstance(reply, Reply):
                world.owed[receiver].append(reply)
        world.model.choose = first
