"""Decides whether what went over the wire is allowed: the model, with all that it leaves open.

The oracle holds the set of worlds, states of the model, that are consistent with everything seen.
A reply is explained by moves: a request that was sent is handled, or a timer that is due fires. A
world forks where several moves may have come next (commands of several connections that were in
flight together, a timer that may or may not have fired between sending and receiving) and where the
model has a choice; every reply that is observed removes the worlds that would not have given it.
No world left is a violation; too many are given up as inconclusive, never taken for a pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from conformance.agreement import difference
from conformance.verdict import Inconclusive
from conformance.worlds import EARLY, Frontier, World, after, has_tie, take_id, waiting
from reference_server.events import Close, Connect, Event, HalfClose, Output
from reference_server.model import SAFETY_MARGIN, Model
from reference_server.profiles import NEWEST, Profile
from reference_server.state import SECOND, Alarm, Timer
from reference_server.wire import Body, Command, Reply, RequestReader

FOR_EVER = 2**63
_QUIT = Command("quit")
_NEUTRAL = Command("list-tube-used")
_RESERVES = ("reserve", "reserve-with-timeout")
_MAKE_READY = ("kick", "kick-job", "release")
_TAKE_SOONEST = ("kick", "peek-delayed")
MAX_WORLDS = 64
"""Worlds after a reply beyond which the oracle gives up."""
MAX_MOVES = 2000
"""Moves looked at for one reply beyond which the oracle gives up."""
_KEPT = 64
"""Items of a client beyond which those that are done are forgotten."""


class Violation(Exception):
    """The target did what no world allows; ``expected`` is what the worlds would have given.

    ``mark``: the number that was given to the message that shows it.
    """

    def __init__(self, expected: Sequence[str], observed: str, mark: int = 0) -> None:
        super().__init__(f"expected {' or '.join(expected)}, observed {observed}")
        self.expected = tuple(expected)
        self.observed = observed
        self.mark = mark


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
    attended: int = -1
    """When it was last seen that the target attends to it: it has answered a neutral command."""
    leaving: bool = False
    """It sends nothing more; the last item is the end of its connection."""
    deaf: bool = False
    """It does not read any more either."""


class Oracle:
    """Judges one conversation with a target of this profile.

    Times are in nanoseconds. ``lateness``: how late the target's timers may be; ``max_job_size`` in
    bytes, the profile's default if None. ``alone``: nobody else uses the target, and what it had
    counted before is adopted. ``fresh``: statistics are as they are now.

    With ``eager`` set, what has a certain outcome is handled when it is sent, with ``guess_ids`` a
    put, too; that is faster, but a violation must be judged again without.
    """

    def __init__(
        self,
        profile: Profile = NEWEST,
        max_job_size: int | None = None,
        lateness: int = SECOND // 4,
        alone: bool = False,
        fresh: bool = True,
        guess_ids: bool = False,
    ) -> None:
        model = Model(profile, max_job_size=max_job_size)
        model.tie = EARLY
        self.eager = False
        self.guess_ids = guess_ids
        self._profile = profile
        self._max_job_size = model.max_job_size
        self._lateness = lateness
        self._alone = alone
        self._fresh = fresh
        self._worlds = [World(model)]
        self._clients: dict[int, _Client] = {}
        self._expected: list[str] = []
        self._observed = ""
        self._moves = 0
        # The client, if any, whose commands are certain, as nothing else is going on.
        self._calm: int | None = None
        # Whether more than one thing may come of a job that becomes ready.
        self._crowded = False
        self._jumps: deque[tuple[int, int]] = deque(maxlen=8)
        self.most_worlds = 1

    def adopt(self, counters: Mapping[str, str], of_default: Mapping[str, str]) -> None:
        """Takes over what the target had counted before, in its stats and those of default."""
        model = self.model
        for key, value in counters.items():
            if key.startswith("cmd-"):
                model.commands[key.removeprefix("cmd-")] = int(value)
        model.total_jobs = int(counters["total-jobs"])
        model.next_id = model.total_jobs + 1
        model.timeouts = int(counters["job-timeouts"])
        (default,) = model.tubes
        default.total_jobs = int(of_default["total-jobs"])
        default.deletes = int(of_default["cmd-delete"])
        default.pauses = int(of_default["cmd-pause-tube"])
        model.total_connections = int(counters["total-connections"])

    @property
    def model(self) -> Model:
        """One of the states that the target may be in, to be looked at only."""
        return self._worlds[0].model

    def jobs(self) -> set[int]:
        """The ids of all jobs that there may be."""
        return {id for world in self._worlds for id in world.model.jobs}

    def holds(self, conn: int) -> bool:
        """Whether a client holds jobs, in any of the possible states."""
        return any(world.model.connections[conn].reserved for world in self._worlds)

    @property
    def is_settled(self) -> bool:
        """Whether there is one possible state, and nothing is open in it."""
        return len(self._worlds) == 1 and self._is_done(self._worlds[0])

    def is_handled(self, conn: int) -> bool:
        """Whether all that a client has sent is handled."""
        world = self._worlds[0]
        client = self._clients[conn]
        return world.done[conn] == len(client.items) and not client.reader.buffered

    def next_due(self, now: int) -> int | None:
        """When a timer falls due next after ``now``, in any of the possible states."""
        dues = (alarm[0] for world in self._worlds for alarm in world.model.due(FOR_EVER))
        return min((due for due in dues if due > now), default=None)

    # ------------------------------------------------------------ what the clients do

    def connect(self, conn: int, now: int) -> None:
        """A client has connected."""
        self._calm = None
        self._clients[conn] = _Client(RequestReader(self._profile, self._max_job_size))
        for world in self._worlds:
            world.model.handle(Connect(), max(world.model.now, now), conn)
            world.done[conn] = 0
            world.owed[conn] = deque()

    def sent(self, conn: int, data: bytes, now: int) -> None:
        """A client has sent these bytes."""
        client, world = self._clients[conn], self._worlds[0]
        if client.leaving:
            return
        reader = client.reader
        reader.receive(data)
        if self._calm != conn:
            self._calm = conn if self.eager and self._is_calm(world, conn) else None
            self._crowded = waiting(world.model) > 1 or not self._is_done(world, conn)
        while reader.buffered and (request := reader.next_request()) is not None:
            client.items.append(_Item(request, now))
            if request == _QUIT:
                self._leave(client, now)
                return
            if self._calm is not None and self._is_certain(world, conn, request, now):
                world.done[conn] += 1
                at = max(now, world.model.now + 1)
                for receiver, reply in world.model.handle(request, at, conn):
                    world.owed[receiver].append(reply)  # type: ignore[arg-type]
            else:
                self._calm = None
        if len(client.items) > _KEPT and all(
            w.done[conn] == len(client.items) for w in self._worlds
        ):
            del client.items[:-1]
            for world in self._worlds:
                world.done[conn] = 1

    def half_close(self, conn: int, now: int) -> None:
        """A client sends nothing more."""
        self._calm = None
        client = self._clients[conn]
        if not client.leaving:
            client.items.append(_Item(HalfClose(), now))
            self._leave(client, now)

    def close(self, conn: int, now: int) -> None:
        """A client has closed its connection, and does not hear of anything more."""
        client = self._clients[conn]
        self._calm = None
        client.deaf = True
        if not client.leaving:
            self._leave(client, now)

    @staticmethod
    def _leave(client: _Client, now: int) -> None:
        client.leaving = True
        client.items.append(_Item(Close(), now))

    def moved(self, before: int, now: int) -> None:
        """The target's clock was moved: what fell due meanwhile fires at the end of that."""
        self._calm = None
        self._jumps.append((before, now))

    def _fires_at(self, alarm: Alarm) -> int:
        due = alarm[0]
        return next((end for start, end in self._jumps if start < due <= end), due)

    # ------------------------------------------------------------ what is certain

    def _is_done(self, world: World, but: int | None = None) -> bool:
        """Whether nothing is open, except what ``but`` is owed."""
        return all(
            world.done[number] == len(client.items) and (number == but or not world.owed[number])
            for number, client in self._clients.items()
        )

    def _is_calm(self, world: World, but: int) -> bool:
        """Whether nothing is open, except what ``but`` is owed, and what waits for a job."""
        waiting = world.model.is_waiting
        return (
            len(self._worlds) == 1
            and all(
                number == but
                or (
                    not world.owed[number]
                    and (
                        world.done[number] == len(client.items)
                        or (waiting(number) and not client.leaving)
                    )
                )
                for number, client in self._clients.items()
            )
            and world.done[but] == len(self._clients[but].items)
        )

    def _is_certain(self, world: World, conn: int, event: Event, now: int) -> bool:
        """Whether only one thing can come of what is handled next."""
        model = world.model
        due = model.next_due
        if (due is not None and due <= now + EARLY) or model.is_waiting(conn):
            return False
        if isinstance(event, Command):
            if self._crowded and event.verb in _MAKE_READY:
                return False
            if event.verb in _TAKE_SOONEST and has_tie(model, conn):
                return False
            deadlines = model.connections[conn].deadlines
            if deadlines and event.verb in _RESERVES:
                edge = deadlines[0][0] - SAFETY_MARGIN
                if edge + self._lateness + EARLY < now:
                    return not model.has_ready(conn)
                return edge - self._lateness > now + EARLY
            return True
        return not isinstance(event, Body) or (self.guess_ids and not self._crowded)

    def owed(self, conn: int) -> Iterable[Reply]:
        """The replies that the target must send to a client now, as far as that is certain."""
        return self._worlds[0].owed[conn] if len(self._worlds) == 1 else ()

    def promised(self, conn: int) -> bytes:
        """The bytes of what it owes."""
        return b"".join(reply.encode() for reply in self.owed(conn))

    def kept(self, conn: int, count: int, now: int) -> None:
        """The target has sent so many of the replies that it owed."""
        self._calm = None
        owed = self._worlds[0].owed[conn]
        for _ in range(count):
            self._attend(conn, owed.popleft(), now)

    def _attend(self, conn: int, reply: Reply, now: int) -> None:
        # beanstalkd may forget the TTR of a client's jobs until it says something.
        if reply.word == "USING":
            self._clients[conn].attended = now

    # ------------------------------------------------------------ what the target does

    def received(self, conn: int, reply: Reply, now: int) -> None:
        """A client has got a reply; raises :class:`Violation` or Inconclusive."""
        self._calm = None
        if len(self._worlds) == 1:
            owed = self._worlds[0].owed[conn]
            if owed and owed[0] == reply:
                owed.popleft()
                self._attend(conn, reply, now)
                return
        self._judge(conn, reply, now)
        self._attend(conn, reply, now)

    def ended(self, conn: int, now: int) -> None:
        """The target has closed a connection; raises :class:`Violation` or Inconclusive."""
        self._calm = None
        self._judge(conn, None, now)
        del self._clients[conn]
        for world in self._worlds:
            del world.done[conn], world.owed[conn]

    def _judge(self, conn: int, reply: Reply | None, now: int) -> None:
        self._expected = []
        self._observed = ""
        self._moves = 0
        worlds = [twin for world in self._worlds for twin in self._explain(world, conn, reply, now)]
        if not worlds and not self._expected:
            sent = len(self._clients[conn].items)
            owes = any(w.done[conn] < sent or w.model.is_waiting(conn) for w in self._worlds)
            self._expected.append("no reply yet" if owes else "no reply without a request")
        if reply is None:
            self._keep(worlds, "the end of the connection")
        else:
            self._keep(worlds, self._observed or reply)

    def is_quiet(self, now: int) -> bool:
        """Whether nothing is open, and no timer near: nothing can come."""
        due = self.model.next_due
        return (due is None or due > now + EARLY) and self.is_settled

    def quiet(self, now: int) -> None:
        """Nothing more has come, though the target has had the time to answer all it was sent.

        Raises :class:`Violation` or Inconclusive.
        """
        self._calm = None
        if self.is_quiet(now):
            return
        self._expected = []
        self._moves = 0
        found, frontier = [], Frontier(self._worlds)
        for world in frontier:
            owed = [
                replies[0]
                for conn, replies in world.owed.items()
                if replies and not self._clients[conn].deaf
            ]
            if owed:
                self._expected += map(str, owed)
                continue
            alarms, conns = self._possible(world, now)
            if any(self._ends_put(world, conn) for conn in conns):
                # Only the reply tells the id.
                self._expected.append("a reply to put")
                continue
            neutral = [conn for conn in conns if self._is_neutral(world, conn)]
            if neutral:
                alarms, conns = [], neutral[:1]
            elif not conns:
                # What need not have fired yet can still be looked at when it matters.
                ordered = [a for a in alarms if not self._may_be_lost(world, a)]
                alarms = ordered[:1] if self._must_fire(world, ordered, now) else []
                if not alarms:
                    found.append(world)
            only = len(alarms) + len(conns) == 1
            for alarm in alarms:
                frontier.worlds += self._fired(world, alarm, only)
            for conn in conns:
                frontier.worlds += self._handled(world, conn, 0, None, now, only)
            self._count(len(alarms) + len(conns) + 1)
        self._keep(found, "nothing")
        self._forget()

    def _forget(self) -> None:
        """Drops clients whose end the target has noticed."""
        for conn, client in list(self._clients.items()):
            if client.deaf:
                del self._clients[conn]
                for world in self._worlds:
                    del world.done[conn], world.owed[conn]

    def _ends_put(self, world: World, conn: int) -> bool:
        return isinstance(self._clients[conn].items[world.done[conn]].event, Body)

    def _count(self, moves: int) -> None:
        self._moves += moves
        if self._moves > MAX_MOVES:
            raise Inconclusive("too many ways in which it may have come to this reply")

    def _keep(self, worlds: list[World], observed: object) -> None:
        if not worlds:
            raise Violation(list(dict.fromkeys(self._expected)), str(observed))
        if len(worlds) > 1:
            worlds = list({world.key(): world for world in worlds}.values())
        if len(worlds) > MAX_WORLDS:
            raise Inconclusive(f"more than {MAX_WORLDS} states are possible")
        self._worlds = worlds
        self.most_worlds = max(self.most_worlds, len(worlds))

    # ------------------------------------------------------------ worlds and moves

    def _explain(self, world: World, conn: int, reply: Reply | None, now: int) -> list[World]:
        """The worlds after this one in which the reply (None: the end) has been given."""
        found, frontier = [], Frontier([world])
        for world in frontier:
            given = self._given(world, conn, reply)
            if given is not None:
                if given:
                    found.append(world)
                continue
            alarms, conns = self._possible(world, now)
            if conn in conns and self._is_neutral(world, conn):
                # It may as well come first: nothing else depends on it, nor it on anything else.
                alarms, conns = [], [conn]
            only = len(alarms) + len(conns) == 1
            for alarm in alarms:
                frontier.worlds += self._fired(world, alarm, only)
            for other in conns:
                frontier.worlds += self._handled(world, other, conn, reply, now, only)
            self._count(len(alarms) + len(conns))
        return found

    def _given(self, world: World, conn: int, reply: Reply | None) -> bool | None:
        """Whether a world has given this reply; None if it has not given any that is open."""
        owed = world.owed[conn]
        if owed:
            if reply is None:
                self._expected.append(str(owed[0]))
                return False
            other = difference(owed[0], reply, self._alone, self._fresh)
            if other is None:
                owed.popleft()
                return True
            expected, self._observed = other
            self._expected.append(expected)
            return False
        if reply is None and conn not in world.model.connections:
            return True
        return None

    def _is_neutral(self, world: World, conn: int) -> bool:
        return self._clients[conn].items[world.done[conn]].event == _NEUTRAL

    def _possible(self, world: World, now: int) -> tuple[list[Alarm], list[int]]:
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
            if done >= len(client.items) or (model.is_waiting(number) and not client.leaving):
                continue
            if not self._must_fire(world, ordered, client.items[done].at):
                conns.append(number)
        return firing, conns

    def _may_be_lost(self, world: World, alarm: Alarm) -> bool:
        """Whether this is the TTR of a client that has been idle since; tested elsewhere."""
        _, kind, subject = alarm
        if kind is not Timer.TTR:
            return False
        holder = world.model.jobs[subject].reserver  # type: ignore[index]
        assert holder is not None
        client = self._clients.get(holder.id)
        return client is None or client.attended <= self._fires_at(alarm) + self._lateness

    def _must_fire(self, world: World, ordered: Sequence[Alarm], at: int) -> bool:
        """Whether a timer must have fired before something that was sent at ``at`` is handled."""
        if not ordered or self._fires_at(ordered[0]) + self._lateness >= at:
            return False
        _, kind, subject = ordered[0]
        if kind is not Timer.TTR:
            return True
        # What a client sends in one go may be handled before its own timers are looked at.
        holder = world.model.jobs[subject].reserver  # type: ignore[index]
        return holder is not None and self._clients[holder.id].attended <= at

    def _fired(self, world: World, alarm: Alarm, only: bool) -> Iterator[World]:
        due, at = alarm[0], self._fires_at(alarm)
        # Just behind the start of a jump, it may have fired before.
        before = any(start < due <= min(start + EARLY, end) for start, end in self._jumps)
        for time in (due, at) if before else (at,):
            fire = partial(_fire, alarm, time)
            yield from after(world, fire, only and not before)

    def _handled(
        self, world: World, conn: int, asked: int, reply: Reply | None, now: int, only: bool
    ) -> Iterator[World]:
        """After the next thing that ``conn`` has sent; ``reply`` was seen by ``asked``."""
        client = self._clients[conn]
        item = client.items[world.done[conn]]
        times = [max(item.at, world.model.now + 1)]
        reserver = world.model.connections[conn]
        if client.deaf and item is not client.items[-1]:
            # What it had sent before may get lost with the connection.
            yield from after(world, partial(self._lose, conn, times[0]), False)
            only = False
        if reserver.waiting and not isinstance(item.event, HalfClose | Close):
            # The end is noticed while the client waits, before what it had sent meanwhile.
            at = times[0]
            yield from after(world, lambda w: w.model.handle(HalfClose(), at, conn), only)
            return
        if reserver.deadlines and isinstance(item.event, Command) and item.event.verb in _RESERVES:
            only = False
            # The safety margin may have begun between sending and receiving, or hardly.
            edge = reserver.deadlines[0][0] - SAFETY_MARGIN
            if item.at - self._lateness <= edge <= now + EARLY:
                times = [min(item.at, edge - 1), max(item.at, edge)]
        if isinstance(item.event, Close):
            # Which of its jobs is ready first is left open.
            only &= not waiting(world.model)
        elif isinstance(item.event, Command) and item.event.verb in _TAKE_SOONEST:
            only &= not has_tie(world.model, conn)
        told: list[Reply | None] = [None]
        if isinstance(item.event, Body) and reply is not None:
            if conn == asked and reply.word == "INSERTED":
                told = [reply]
            elif conn != asked and reply.word == "RESERVED":
                # A client that waits may see the id before the one that puts does.
                told, only = [reply, None], False
        for at in times:
            for id in told:
                yield from after(world, partial(self._handle, conn, item, at, told=id), only)

    def _lose(self, conn: int, at: int, world: World) -> list[Output]:
        """Ends a connection with all that had been sent on it."""
        world.done[conn] = len(self._clients[conn].items)
        return world.model.handle(Close(), at, conn)

    @staticmethod
    def _handle(
        conn: int, item: _Item, at: int, world: World, told: Reply | None = None
    ) -> list[Output]:
        """Lets an item be handled; ``told`` tells the id that the target may give a job."""
        world.done[conn] += 1
        if isinstance(item.event, Body):
            take_id(world.model, conn, told)
        return world.model.handle(item.event, at, conn)


def _fire(alarm: Alarm, at: int, world: World) -> list[Output]:
    """Lets a timer fire."""
    return world.model.fire(alarm, at)
