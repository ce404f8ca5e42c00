"""Decides whether what went over the wire is allowed: the model, with all that it leaves open.

The oracle holds the set of states of the model that are consistent with everything seen. A reply
is explained by transitions: a request that was sent is handled, or a timer that is due fires. A
state forks where several transitions may have come next (commands of several connections that were
in flight together, a timer that may or may not have fired between sending and receiving) and where
the model has a choice; every reply that is observed removes the states that would not have given
it. No state left is a violation; too many are given up as inconclusive, never taken for a pass.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import attrgetter

from conformance.oracle.reply_comparison import NOTHING, Before, difference
from conformance.oracle.states import (
    EARLY,
    Frontier,
    State,
    counted_by,
    decided,
    guess,
    is_open,
    restarted,
    waiting,
)
from conformance.oracle.transitions import MAKE_READY, MAY_ASK, SIGNALS, Item, Transitions
from conformance.oracle.underspecification import Open
from conformance.transcript import Counters
from conformance.verdict import Inconclusive
from reference_server.commands import WAITING
from reference_server.events import Event, HalfClose
from reference_server.lifecycle import SAFETY_MARGIN
from reference_server.profiles import NEWEST, Profile
from reference_server.state import SECOND, Alarm
from reference_server.wire import Body, Command, Put, Reply

FOR_EVER = 2**63
_QUIT = Command("quit")
_NOT_ALWAYS_CERTAIN = MAY_ASK | {"quit"}
MAX_STATES = 64
"""States after a reply beyond which the oracle gives up."""
MAX_TRANSITIONS = 2000
"""Transitions looked at for one reply beyond which the oracle gives up."""
_KEPT = 64
"""Items of a client beyond which those that are done are forgotten."""


class Violation(Exception):
    """The target did what no state allows; ``expected`` is what the states would have given.

    ``mark``: the number that was given to the message that shows it.
    """

    def __init__(self, expected: Sequence[str], observed: str, mark: int = 0) -> None:
        super().__init__(f"expected {' or '.join(expected)}, observed {observed}")
        self.expected = tuple(expected)
        self.observed = observed
        self.mark = mark

    @property
    def kind(self) -> tuple[str, str]:
        """The first words of what was expected and observed: many are alike."""
        return self.expected[0].partition(" ")[0], self.observed.partition(" ")[0]

    @property
    def is_end(self) -> bool:
        """Whether the target has ended a connection."""
        return self.observed.startswith("the end of the connection")


class Oracle(Transitions):
    """Judges one conversation with a target of this profile.

    Times are in nanoseconds. ``lateness``: how late the target's timers may be. ``alone``: nobody
    else uses the target, and what it had counted before is adopted. ``fresh``: statistics are as
    they are now.

    With ``eager`` set, what has a certain outcome is handled when it is sent, with ``guess_ids`` a
    put, too; that is faster, but a violation must be judged again without. With ``hasty`` set,
    Undecided must be judged again without.
    """

    def __init__(
        self,
        profile: Profile = NEWEST,
        lateness: int = SECOND // 4,
        alone: bool = False,
        fresh: bool = True,
        guess_ids: bool = False,
    ) -> None:
        super().__init__(profile, lateness)
        self.eager = False
        self.guess_ids = guess_ids
        self.guess_order = True
        """Where any of equal priority may be next, the oldest is, until another one was."""
        self.ends = math.inf
        """When it gives up, in seconds of the monotonic clock."""
        self._alone = alone
        self._before = NOTHING
        self._fresh = fresh
        self._states = [self._first_state()]
        self.model = self._states[0].model
        """One of the states that the target may be in, to be looked at only."""
        self._expected: list[str] = []
        self._observed = ""
        self._transitions = 0
        # The client, if any, whose commands are certain, as nothing else is going on.
        self._calm: int | None = None
        # Whether more than one thing may come of a job that becomes ready.
        self._crowded = False
        self.most_states = 1

    def adopt(
        self,
        counters: Mapping[str, str],
        of_default: Mapping[str, str],
        next_id: int,
        before: Before = NOTHING,
    ) -> None:
        """Takes over what the target had counted before, in its stats and those of default.

        ``before``: what it had, and keeps.
        """
        self._before = before
        model = self.model
        for key, value in counters.items():
            if key.startswith("cmd-"):
                model.commands[key.removeprefix("cmd-")] = int(value)
        model.total_jobs = int(counters["total-jobs"])
        model.next_id = next_id
        model.timeouts = int(counters["job-timeouts"])
        (default,) = model.tubes
        default.total_jobs = int(of_default["total-jobs"])
        # Old profiles do not tell all of them.
        default.deletes = int(of_default.get("cmd-delete", 0))
        default.pauses = int(of_default.get("cmd-pause-tube", 0))
        model.total_connections = int(counters["total-connections"])

    @property
    def counters(self) -> Counters | None:
        """What the target has counted by now, as :meth:`adopt` takes it; None if not alone."""
        return counted_by(self.model) if self._alone else None

    @property
    def states(self) -> int:
        """How many states the target may be in."""
        return len(self._states)

    def jobs(self) -> set[int]:
        """The ids of all jobs that there may be."""
        return {id for state in self._states for id in state.model.jobs}

    def holds(self, conn: int) -> bool:
        """Whether a client holds jobs, in any of the possible states."""
        return any(state.model.connections[conn].reserved for state in self._states)

    def gone(self) -> set[str]:
        """The tubes that may linger though nothing keeps them, and nobody else does."""
        return {name for state in self._states for name in state.model.gone if self._alone}

    def forget_gone(self) -> None:
        """All those tubes have had the time to go."""
        for state in self._states:
            state.model.forget_gone()

    @property
    def is_settled(self) -> bool:
        """Whether there is one possible state, and nothing is open in it."""
        return len(self._states) == 1 and self._is_done(self._states[0])

    def is_handled(self, conn: int) -> bool:
        """Whether all that a client has sent is handled."""
        state = self._states[0]
        client = self._clients[conn]
        return state.done[conn] == len(client.items) and not client.reader.buffered

    def is_leaving(self, conn: int) -> bool:
        """Whether a client sends nothing more that is handled."""
        return self._clients[conn].leaving

    def next_due(self, now: int) -> int | None:
        """When a timer falls due next after ``now``, in any of the possible states."""
        dues = (alarm[0] for state in self._states for alarm in state.model.due(FOR_EVER))
        return min((due for due in dues if due > now), default=None)

    # ------------------------------------------------------------ what the clients do

    def connect(self, conn: int) -> None:
        """A client has connected."""
        self._calm = None
        self._arrived(conn)
        for state in self._states:
            state.connect(conn)

    def sent(self, conn: int, data: bytes, now: int) -> bool:
        """A client has sent these bytes; gives whether all that comes of them is known."""
        client, state = self._clients[conn], self._states[0]
        if client.leaving:
            return False
        reader, model = client.reader, state.model
        reader.receive(data)
        model.choose = guess if self.guess_order else decided
        if self._calm != conn:
            self._calm = conn if self.eager and self._is_calm(state, conn) else None
            self._crowded = waiting(model) > 1 or not self._is_done(state, conn)
        while reader.buffered and (request := reader.next_request()) is not None:
            if self._calm is not None and self._is_certain(state, conn, request, now):
                # All before it is done, so it need not be remembered.
                state.owe(model.handle(request, max(now, model.now + 1), conn))
                continue
            self._calm = None
            client.items.append(Item(request, now))
            if request == _QUIT:
                client.leave(now)
                return False
        if self._calm is not None:
            return not reader.buffered
        if len(client.items) > _KEPT and all(
            w.done[conn] == len(client.items) for w in self._states
        ):
            del client.items[:-1]
            for state in self._states:
                state.done[conn] = 1
        return False

    def half_close(self, conn: int, now: int) -> None:
        """A client sends nothing more."""
        self._calm = None
        client = self._clients[conn]
        if not client.leaving:
            client.items.append(Item(HalfClose(), now))
            client.leave(now)

    def close(self, conn: int, now: int) -> None:
        """A client has closed its connection, and does not hear of anything more."""
        client = self._clients[conn]
        self._calm = None
        client.deaf = True
        if not client.leaving:
            client.leave(now)

    def restarted(self) -> None:
        """The target was ended, with all connections, and started again."""
        self._calm = None
        self._clients.clear()
        self._alone = False
        self._states = [twin for state in self._states for twin in restarted(state)]
        self.model = self._states[0].model

    def drains(self, now: int) -> None:
        """The target was told to accept no more jobs."""
        self._calm = None
        self._signalled(now)
        for state in self._states:
            state.done.setdefault(SIGNALS, 0)
            state.owed[SIGNALS] = deque()

    def moved(self, before: int, now: int) -> None:
        self._calm = None
        super().moved(before, now)

    # ------------------------------------------------------------ what is certain

    def _is_done(self, state: State, but: int | None = None) -> bool:
        """Whether nothing is open, except what ``but`` is owed."""
        return all(
            state.done[number] == len(client.items) and (number == but or not state.owed[number])
            for number, client in self._clients.items()
        )

    def _is_calm(self, state: State, but: int) -> bool:
        """Whether nothing is open, except what ``but`` is owed, and what waits for a job."""
        return self._is_still(but) and state.done[but] == len(self._clients[but].items)

    def _is_still(self, but: int | None = None) -> bool:
        """Whether only one state is possible, and nothing can come of it but for ``but``."""
        state = self._states[0]
        return len(self._states) == 1 and not any(
            conn != but and (state.owed[conn] or self._is_open(state, conn))
            for conn in self._clients
        )

    def _is_certain(self, state: State, conn: int, event: Event, now: int) -> bool:
        """Whether only one thing can come of what is handled next."""
        model = state.model
        due, client = model.next_due, model.connections[conn]
        if (due is not None and due <= now + EARLY) or client.waiting or isinstance(event, Open):
            return False
        if isinstance(event, Command):
            if event.verb not in _NOT_ALWAYS_CERTAIN:
                return True
            if self._crowded and event.verb in MAKE_READY:
                return False
            if self._may_choose(model, conn, event, not self.guess_order):
                return False
            deadlines = client.deadlines
            if deadlines and event.verb in WAITING:
                edge = deadlines[0][0] - SAFETY_MARGIN
                if edge + self._lateness + EARLY < now:
                    return model.next_ready(conn) is None
                return edge - self._lateness > now + EARLY
            return event != _QUIT
        if isinstance(event, Put):
            return not is_open(model, event)
        return not isinstance(event, Body) or (self.guess_ids and not self._crowded)

    def owed(self, conn: int) -> Collection[Reply]:
        """The replies that the target must send to a client now, as far as that is certain."""
        return self._states[0].owed[conn] if len(self._states) == 1 else ()

    def kept(self, conn: int, replies: Sequence[Reply], now: int) -> None:
        """A client has got these replies, as they were owed if in haste."""
        if not self.eager:
            for reply in replies:
                self.received(conn, reply, now)
            return
        self._calm = None
        owed = self._states[0].owed[conn]
        for _ in replies:
            owed.popleft()
        if self._proof in map(attrgetter("word"), replies):
            self._clients[conn].attended = now

    def _attend(self, conn: int, reply: Reply, now: int) -> None:
        # beanstalkd may forget the TTR of a client's jobs until it says something.
        if reply.word == self._proof:
            self._clients[conn].attended = now

    # ------------------------------------------------------------ what the target does

    def received(self, conn: int, reply: Reply, now: int) -> None:
        """A client has got a reply; raises :class:`Violation` or Inconclusive."""
        self._calm = None
        if len(self._states) == 1:
            owed = self._states[0].owed[conn]
            if owed and difference(owed[0], reply, self._alone, self._fresh, self._before) is None:
                owed.popleft()
                self._attend(conn, reply, now)
                return
        self._judge(conn, reply, now)
        self._attend(conn, reply, now)

    def ended(self, conn: int, now: int) -> None:
        """The target has closed a connection; raises :class:`Violation` or Inconclusive."""
        self._calm = None
        self._judge(conn, None, now)
        self._drop(conn)

    def _judge(self, conn: int, reply: Reply | None, now: int) -> None:
        self._expected = []
        self._observed = ""
        self._transitions = 0
        states = [twin for state in self._states for twin in self._explain(state, conn, reply, now)]
        if not states and not self._expected:
            sent = len(self._clients[conn].items)
            owes = any(
                w.done[conn] < sent or (conn in w.model.connections and w.model.is_waiting(conn))
                for w in self._states
            )
            self._expected.append("no reply yet" if owes else "no reply without a request")
        if reply is None:
            self._keep(states, "the end of the connection")
        else:
            self._keep(states, self._observed or reply)

    def is_quiet(self, now: int) -> bool:
        """Whether nothing is open, and no timer near: nothing can come."""
        due = self.model.next_due
        return (due is None or due > now + EARLY) and self._is_still()

    def quiet(self, now: int) -> None:
        """Nothing more has come, though the target has had the time to answer all it was sent.

        Raises :class:`Violation` or Inconclusive.
        """
        self._calm = None
        if self.is_quiet(now):
            return
        self._expected = []
        self._transitions = 0
        found, frontier = [], Frontier(self._states)
        for state in frontier:
            owed = [
                replies[0]
                for conn, replies in state.owed.items()
                if replies and not self._clients[conn].deaf
            ]
            if owed:
                self._expected += map(str, owed)
                continue
            alarms, conns = self._possible(state, now)
            if any(self._ends_put(state, conn) for conn in conns):
                # Only the reply tells the id.
                self._expected.append("a reply to put")
                continue
            neutral = [conn for conn in conns if self._is_neutral(state, conn)]
            if neutral:
                alarms, conns = [], neutral[:1]
            elif not conns:
                # What need not have fired yet can still be looked at when it matters.
                ordered = [a for a in alarms if not self._may_be_lost(state, a)]
                alarms = ordered[:1] if self._must_fire(state, ordered, now) else []
                if not alarms:
                    found.append(state)
            self._count(1)
            frontier.states += self._after(state, alarms, conns, now)
        self._keep(found, "nothing")
        self._forget()

    def _forget(self) -> None:
        """Drops clients whose end the target has noticed."""
        for conn, client in list(self._clients.items()):
            if client.deaf:
                self._drop(conn)

    def _drop(self, conn: int) -> None:
        del self._clients[conn]
        for state in self._states:
            del state.done[conn], state.owed[conn]

    def _ends_put(self, state: State, conn: int) -> bool:
        """Whether a put is to be handled, and its client hears of it."""
        client = self._clients[conn]
        if client.deaf or not isinstance(client.items[state.done[conn]].event, Body):
            return False
        return conn not in state.model.refused

    def _count(self, transitions: int) -> None:
        self._transitions += transitions
        if self._transitions > MAX_TRANSITIONS or time.monotonic() > self.ends:
            raise Inconclusive("too many ways in which it may have come to this reply")

    def _keep(self, states: list[State], observed: object) -> None:
        if not states:
            raise Violation(list(dict.fromkeys(self._expected)), str(observed))
        if len(states) > 1:
            states = list({state.key(): state for state in states}.values())
        if len(states) > MAX_STATES:
            raise Inconclusive(f"more than {MAX_STATES} states are possible")
        self._states = states
        self.model = states[0].model
        self.most_states = max(self.most_states, len(states))

    # ------------------------------------------------------------ states and transitions

    def _explain(self, state: State, conn: int, reply: Reply | None, now: int) -> list[State]:
        """The states after this one in which the reply (None: the end) has been given."""
        found, frontier = [], Frontier([state])
        for state in frontier:
            given = self._given(state, conn, reply)
            if given is not None:
                if given:
                    found.append(state)
                continue
            alarms, conns = self._possible(state, now)
            if conn in conns and self._is_neutral(state, conn):
                # It may as well come first: nothing else depends on it, nor it on anything else.
                alarms, conns = [], [conn]
            frontier.states += self._after(state, alarms, conns, now, conn, reply)
        return found

    def _after(
        self,
        state: State,
        alarms: Sequence[Alarm],
        conns: Sequence[int],
        now: int,
        asked: int = 0,
        reply: Reply | None = None,
    ) -> Iterator[State]:
        """The states after one of these transitions; ``reply`` was seen by ``asked``."""
        self._count(len(alarms) + len(conns))
        only = len(alarms) + len(conns) == 1
        for alarm in alarms:
            yield from self._fired(state, alarm, only)
        for conn in conns:
            yield from self._handled(state, conn, asked, reply, now, only)

    def _given(self, state: State, conn: int, reply: Reply | None) -> bool | None:
        """Whether a state has given this reply; None if it has not given any that is open."""
        owed = state.owed[conn]
        if owed:
            if reply is None:
                self._expected.append(str(owed[0]))
                return False
            state.bind(owed[0], reply)
            owed = state.owed[conn]
            other = difference(owed[0], reply, self._alone, self._fresh, self._before)
            if other is None:
                owed.popleft()
                return True
            expected, self._observed = other
            self._expected.append(expected)
            return False
        if reply is None and conn not in state.model.connections:
            return True
        return None
