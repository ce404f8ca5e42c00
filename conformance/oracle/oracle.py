"""The exact oracle: compares the wire with all states that the model may be in.

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
from collections.abc import Iterator, Sequence

from conformance.oracle.reply_comparison import NOTHING, difference, learn
from conformance.oracle.reply_delays import ReplyDelays
from conformance.oracle.states import (
    EARLY,
    Frontier,
    ReplyCause,
    State,
    adopt,
    counted_by,
    restarted,
    restored,
)
from conformance.oracle.transitions import SIGNALS, Item, Transitions
from conformance.oracle.violation import NOTHING as NO_REPLY
from conformance.oracle.violation import THE_END, UNASKED, Violation
from conformance.transcript import Counters
from conformance.verdict import Inconclusive
from reference_server.events import HalfClose
from reference_server.profiles import NEWEST, Profile
from reference_server.state import SECOND, Alarm, KeptJob
from reference_server.wire import Body, Reply

FOR_EVER = 2**63
MAX_STATES = 64
"""States after a reply beyond which the oracle gives up."""
MAX_TRANSITIONS = 2000
"""Transitions tried for one reply, beyond which the oracle gives up."""
_KEPT = 64
"""Items of a client beyond which those that are done are forgotten."""


class Oracle(Transitions):
    """The judge of one conversation with a target of this profile.

    Times are in nanoseconds. ``lateness``: how late the target's timers may be. ``alone``: nobody
    else uses the target, and what it had counted before is adopted. ``fresh``: statistics are as
    they are now. ``pace``: how late replies may be, if they are judged by :meth:`overdue`.
    """

    def __init__(
        self,
        profile: Profile = NEWEST,
        lateness: int = SECOND // 4,
        alone: bool = False,
        fresh: bool = True,
        pace: ReplyDelays | None = None,
    ) -> None:
        super().__init__(profile, lateness if pace is None else pace.lateness)
        self.ends = math.inf
        """When it gives up, in seconds of the monotonic clock."""
        self._pace = pace
        self.is_strict = pace is not None
        self._alone = alone
        self.before = self._there = NOTHING
        """The leftovers on the target, which are let alone."""
        self._fresh = fresh
        self.linger = 0
        """For how long a client that is gone may be counted, in nanoseconds of real time."""
        self.real_now = 0
        """The real time of what is judged, in nanoseconds; it goes on where a clock is moved."""
        # The times at which clients have gone that may still be counted.
        self._left: deque[int] = deque()
        self.states = [self._first_state()]
        """The states that the target may be in."""
        self.model = self.states[0].model
        """One of the states that the target may be in, to be read only."""
        self._expected: list[str] = []
        self._observed = ""
        self._agreeing: list[Reply] = []
        """The replies that states would have given, and that agree with the observed one."""
        self._transitions = 0
        self.most_states = 1

    def adopt(self, counters: Counters) -> None:
        """Take over what the target had counted before."""
        adopt(self.model, counters)

    def allow_late_service(self) -> None:
        """Let clients that wait be served a while after there is a job for them."""
        for state in self.states:
            state.model.serves_late = True

    def was_used(self, jobs: Sequence[KeptJob]) -> None:
        """Begin with these jobs, and with tubes that may have existed before."""
        self.model.recall(jobs)
        self.before = self._there = self.before._replace(floors={})

    @property
    def counters(self) -> Counters | None:
        """Return the target's counters, as :meth:`adopt` takes them; None if not alone."""
        return counted_by(self.model) if self._alone else None

    def jobs(self) -> set[int]:
        """Return the ids that the target has reported, of all jobs that may exist."""
        return {id for state in self.states for id in state.model.jobs.keys() - state.guessed}

    def holds(self, conn: int) -> bool:
        """Tell whether a client holds jobs, in any of the possible states."""
        return any(state.model.connections[conn].reserved for state in self.states)

    def gone(self) -> set[str]:
        """Return the tubes that may linger though nothing keeps them; none if others use them."""
        return {name for state in self.states for name in state.model.gone if self._alone}

    def forget_gone(self) -> None:
        """Note that all tubes that may linger have had the time to go."""
        for state in self.states:
            state.model.forget_gone()

    @property
    def is_settled(self) -> bool:
        """Return whether there is one possible state, and nothing is open in it."""
        return len(self.states) == 1 and self.is_done(self.states[0])

    def is_handled(self, conn: int) -> bool:
        """Tell whether everything that a client sent is handled."""
        state = self.states[0]
        client = self.clients[conn]
        return state.done[conn] == len(client.items) and not client.reader.buffered

    def is_needed(self, conn: int) -> bool:
        """Tell whether a client has a job, or waits for one: its end may give that to others."""
        connections = (state.model.connections.get(conn) for state in self.states)
        return any(it is not None and (it.waiting or it.deadlines) for it in connections)

    def is_leaving(self, conn: int) -> bool:
        """Tell whether the target must end a connection now, as its client sends nothing more."""
        return self.clients[conn].leaving and not self.may_wait(conn)

    def may_be_paused(self, tube: str) -> bool:
        """Tell whether a tube is paused, in any of the possible states."""
        return any(state.model.is_paused(tube) for state in self.states)

    def may_wait(self, conn: int) -> bool:
        """Tell whether a client waits for a job, in any of the possible states."""
        return any(
            conn in state.model.connections and state.model.is_waiting(conn)
            for state in self.states
        )

    def unread(self, conn: int) -> int:
        """Return how many bytes of a client are not handled yet."""
        client = self.clients[conn]
        done = min(state.done[conn] for state in self.states)
        return client.sent - client.items[done].begin if done < len(client.items) else 0

    def next_due(self, now: int) -> int | None:
        """Return when a timer falls due next after ``now``, in any of the possible states."""
        dues = (alarm[0] for state in self.states for alarm in state.model.due(FOR_EVER))
        return min((due for due in dues if due > now), default=None)

    # ------------------------------------------------------------ what the clients do

    def connect(self, conn: int) -> None:
        """Note that a client has connected."""
        self._arrived(conn)
        for state in self.states:
            state.connect(conn)

    def sent(self, conn: int, data: bytes, now: int) -> None:
        """Note that a client has sent these bytes."""
        client = self.clients[conn]
        if not client.leaving:
            client.receive(data)
            self.read(conn, now)

    def read(self, conn: int, now: int) -> None:
        """Understand what a client has sent, and forget of it what is done."""
        client = self.clients[conn]
        reader = client.reader
        while not client.leaving and reader.buffered:
            request = reader.next_request()
            if request is None:
                break
            self.take(conn, request, now)
        done = min(state.done[conn] for state in self.states)
        if done > _KEPT:
            del client.items[: done - 1]
            for state in self.states:
                state.done[conn] -= done - 1

    def half_close(self, conn: int, now: int) -> None:
        """Note that a client sends nothing more."""
        client = self.clients[conn]
        client.end(now)
        if not client.leaving:
            client.items.append(Item(HalfClose(), now))
            client.leave(now)

    def close(self, conn: int, now: int) -> None:
        """Note that a client has closed its connection, and does not hear of anything more."""
        client = self.clients[conn]
        client.end(now)
        client.deaf = True
        if not client.leaving:
            client.leave(now)

    def restarted(self) -> None:
        """Note that the target was ended, with all connections, and started again."""
        self.clients.clear()
        self._alone = False
        self.states = [successor for state in self.states for successor in restarted(state)]
        self.model = self.states[0].model

    def drains(self, now: int) -> None:
        """Record that the target got the signal to accept no more jobs."""
        self._signalled(now)
        for state in self.states:
            state.done.setdefault(SIGNALS, 0)
            state.owed[SIGNALS] = []

    def is_done(self, state: State, but: int | None = None) -> bool:
        """Tell whether nothing is open, except what ``but`` is owed."""
        return all(
            state.done[number] == len(client.items) and (number == but or not state.owed[number])
            for number, client in self.clients.items()
        )

    def is_still(self, but: int | None = None) -> bool:
        """Tell whether one state is possible, with no reply due to any client except ``but``."""
        state = self.states[0]
        return len(self.states) == 1 and not any(
            conn != but and (state.owed[conn] or self.is_pending(state, conn))
            for conn in self.clients
        )

    # ------------------------------------------------------------ what the target does

    def received(self, conn: int, reply: Reply, now: int) -> None:
        """Judge a reply that a client has got; raise :class:`Violation` or Inconclusive."""
        while self._left and self.real_now - self._left[0] >= self.linger:
            self._left.popleft()
        self._there = self.before._replace(leaving=len(self._left)) if self._left else self.before
        if len(self.states) == 1:
            owed = self.states[0].owed[conn]
            if owed and difference(owed[0], reply, self._alone, self._fresh, self._there) is None:
                learn(owed[0], reply, self.before)
                self.states[0].given(conn, reply)
                self.attend(conn, (reply.word,), now)
                return
        self._judge(conn, reply, now)
        self.attend(conn, (reply.word,), now)

    def received_all(self, conn: int, replies: Sequence[Reply], now: int) -> None:
        """Judge all these replies that a client has got."""
        for reply in replies:
            self.received(conn, reply, now)

    def ended(self, conn: int, now: int) -> None:
        """Judge the end of a connection by the target; raise :class:`Violation` or Inconclusive."""
        self._judge(conn, None, now)
        self._drop(conn)

    def _judge(self, conn: int, reply: Reply | None, now: int) -> None:
        self._expected = []
        self._observed = ""
        self._transitions = 0
        self._agreeing.clear()
        states = [
            successor
            for state in self.states
            for successor in self._explain(state, conn, reply, now)
        ]
        if not states and not self._expected:
            sent = len(self.clients[conn].items)
            owes = self.may_wait(conn) or any(w.done[conn] < sent for w in self.states)
            self._expected.append("no reply yet" if owes else UNASKED)
        if reply is None:
            self._keep(states, THE_END)
        else:
            self._keep(states, self._observed or reply)
            if len(self._agreeing) == 1:
                learn(self._agreeing[0], reply, self.before)

    def is_quiet(self, now: int) -> bool:
        """Tell whether nothing is open, and no timer near: nothing can come."""
        due = self.model.next_due
        return (due is None or due > now + EARLY) and self.is_still()

    def quiet(self, now: int) -> None:
        """Check that no reply is missing, as the target has had time to answer.

        Raises :class:`Violation` or Inconclusive.
        """
        if self.is_quiet(now):
            return
        self._expected = []
        self._transitions = 0
        found, frontier = [], Frontier(self.states)
        for state in frontier:
            owed = [
                replies[0]
                for conn, replies in state.owed.items()
                if replies and not self.clients[conn].deaf
            ]
            if owed:
                self._expected += map(str, owed)
                continue
            alarms, conns = self._possible(state, now)
            if any(self._ends_put(state, conn) for conn in conns):
                # Only the reply reveals the id.
                self._expected.append("a reply to put")
                continue
            neutral = [conn for conn in conns if self._is_neutral(state, conn)]
            if neutral:
                alarms, conns = [], neutral[:1]
            elif not conns:
                # A timer that need not have fired yet is considered later, if it matters; one by
                # which a client that waits is served is due now.
                ordered = [a for a in alarms if not self._may_be_lost(state, a)]
                is_over = self._must_fire(state, ordered, now)
                alarms = (ordered if is_over else state.model.services)[:1]
                if not alarms:
                    found.append(state)
            self._count(1)
            frontier.states += self._after(state, alarms, conns, now)
        self._keep(found, NO_REPLY)
        self._forget()

    def overdue(self, now: int) -> None:
        """Check that no reply is overdue at ``now``.

        Raises :class:`Violation` or Inconclusive.
        """
        if not any(self._is_behind(state, now) for state in self.states):
            return
        self._expected = []
        self._transitions = 0
        self._keep([state for state in self.states if self._is_in_time(state, now)], NO_REPLY)

    def _is_in_time(self, state: State, now: int) -> bool:
        """Tell whether a state may go on so that nothing is missing."""
        frontier = Frontier([restored(state.saved())])
        for reached in frontier:
            if missing := self._missing(reached, now):
                self._expected += missing
            elif not self._is_behind(reached, now):
                return True
            else:
                alarms, conns = self._possible(reached, now)
                puts = [conn for conn in conns if self._ends_put(reached, conn)]
                if any(self._is_late(self._next_cause(reached, conn), now) for conn in puts):
                    self._expected.append("a reply to put")
                    continue
                # Of other puts, replies will reveal the ids.
                handled = [conn for conn in conns if conn not in puts]
                frontier.states += self._after(reached, alarms, handled, now)
        return False

    def _next_cause(self, state: State, conn: int) -> ReplyCause:
        client = self.clients[conn]
        return ReplyCause(max(client.items[state.done[conn]].at, client.heard))

    def _is_late(self, cause: ReplyCause, now: int) -> bool:
        """Tell whether the effect of a cause must have been observed by now."""
        assert self._pace is not None
        most = self._pace.punctual if cause.is_timer else self._pace.prompt
        return self._passed(self._shown_from(cause.at), now) > most

    def _missing(self, state: State, now: int) -> list[str]:
        """Return the first missing reply of each client, or the end of its connection."""
        missing = []
        for conn, client in self.clients.items():
            if client.deaf:
                continue
            if owed := state.owed[conn]:
                cause, what = state.since[conn], str(owed[0])
            elif self._must_end(state, conn):
                cause, what = ReplyCause(client.items[-1].at), THE_END
            else:
                continue
            # A slow target may answer one command after the other.
            if self._is_late(cause._replace(at=max(cause.at, client.heard)), now):
                missing.append(what)
        return missing

    def _must_end(self, state: State, conn: int) -> bool:
        """Tell whether a client has said quit, and nothing else."""
        client = self.clients[conn]
        has_quit = client.leaving and client.ended_at is None
        return has_quit and conn not in state.model.connections

    def _is_behind(self, state: State, now: int) -> bool:
        """Tell whether something must have happened in a state that has not."""
        if self._missing(state, now):
            return True
        due = state.model.next_due
        if due is not None and due <= now and self._is_late(ReplyCause(due, is_timer=True), now):
            return True
        return any(
            self.is_pending(state, conn) and self._is_late(self._next_cause(state, conn), now)
            for conn in self.clients
        )

    def _forget(self) -> None:
        """Drop clients whose end the target has noticed."""
        for conn, client in list(self.clients.items()):
            if client.deaf:
                self._left.append(self.real_now)
                self._drop(conn)

    def _drop(self, conn: int) -> None:
        del self.clients[conn]
        for state in self.states:
            del state.done[conn], state.owed[conn]

    def _ends_put(self, state: State, conn: int) -> bool:
        """Tell whether a put is to be handled, and its client hears of it."""
        client = self.clients[conn]
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
        self.states = states
        self.model = states[0].model
        self.most_states = max(self.most_states, len(states))

    # ------------------------------------------------------------ states and transitions

    def _explain(self, state: State, conn: int, reply: Reply | None, now: int) -> list[State]:
        """Return the states after this one in which the reply (None: the end) has been given."""
        found, frontier = [], Frontier([state])
        for state in frontier:
            given = self._given(state, conn, reply)
            if given is not None:
                if given:
                    found.append(state)
                continue
            alarms, conns = self._possible(state, now)
            if conn in conns and self._is_neutral(state, conn):
                # It may as well come first: it depends on nothing, and nothing depends on it.
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
        """Return the states after one of these transitions; ``reply`` was seen by ``asked``."""
        self._count(len(alarms) + len(conns))
        only = len(alarms) + len(conns) == 1
        for alarm in alarms:
            yield from self._fired(state, alarm, now, only)
        for conn in conns:
            yield from self.handled(state, conn, asked, reply, now, only)

    def _given(self, state: State, conn: int, reply: Reply | None) -> bool | None:
        """Tell whether a state has given this reply; None if it has not given any that is open."""
        owed = state.owed[conn]
        if owed:
            if reply is None:
                self._expected.append(str(owed[0]))
                return False
            state.bind(owed[0], reply)
            owed = state.owed[conn]
            other = difference(owed[0], reply, self._alone, self._fresh, self._there)
            if other is None:
                self._agreeing.append(owed[0])
                owed.pop(0)
                return True
            expected, self._observed = other
            self._expected.append(expected)
            return False
        if reply is None and conn not in state.model.connections:
            return True
        return None
