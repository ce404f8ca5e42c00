"""The transitions of a state: a request is handled, or a timer fires."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from conformance.oracle.states import (
    EARLY,
    ReplyCause,
    State,
    after,
    has_tie,
    is_open,
    new_model,
    restored,
    take_id,
)
from conformance.oracle.underspecification import LenientReader, Open
from conformance.oracle.unspecified_model import UnspecifiedModel
from reference_server.commands import ABOUT_A_JOB, COMMANDS, WAITING
from reference_server.events import Close, Drain, Event, HalfClose, Output
from reference_server.lifecycle import BECOMES, SAFETY_MARGIN
from reference_server.profiles import LIST_TUBE_USED, Profile
from reference_server.state import Alarm, Timer
from reference_server.wire import Body, Command, Reply, Request, RequestReader

_JUMPS = 256
"""Moves of the target's clock that are remembered."""
SIGNALS = -2
"""The number of the sender of signals, which is no client."""
_QUIT = Command("quit")
NEUTRAL = Command("list-tube-used")
"""A command that nothing else depends on, and that depends on nothing else."""
_TAKE_NEXT = frozenset((*WAITING, "peek-ready"))
_TAKE_SOONEST = frozenset(("kick", "peek-delayed"))
MAKE_READY = frozenset(
    verb
    for verb, grammar in COMMANDS.items()
    if any(BECOMES.get(word) == "ready" for word in grammar.replies)
)
_MAY_REVIVE = frozenset(("pause-tube", "use", "watch"))
MAY_ASK = _TAKE_NEXT | _TAKE_SOONEST | MAKE_READY | _MAY_REVIVE
"""Commands that may make the model choose. A hint for speed: the oracle notices others, too."""


@dataclass(slots=True)
class Item:
    """An action of a client that the target handles at ``at`` (nanoseconds) or later."""

    event: Event | Open
    at: int
    begin: int = 0
    """Bytes that the client had sent before it."""


@dataclass(slots=True)
class OracleClient:
    """The requests that a client has sent, understood once for all states."""

    reader: RequestReader
    items: list[Item] = field(default_factory=list)
    sent: int = 0
    """Bytes that it has sent."""
    understood: int = 0
    """The first of these, as far as they are requests."""
    attended: int = -1
    """When it was last seen that the target attends to it: it has answered a neutral command."""
    heard: int = 0
    """When it got its last reply."""
    leaving: bool = False
    """It sends nothing more; the last item is the end of its connection."""
    ended_at: int | None = None
    """When the target could see that, even while the client waits; None if it has but said quit."""
    deaf: bool = False
    """It does not read any more either."""

    def receive(self, data: bytes) -> None:
        """Take in what it has sent."""
        self.sent += len(data)
        self.reader.receive(data)

    def note_request(self) -> None:
        """Note that the reader has given a request."""
        self.understood = self.sent - self.reader.buffered

    def end(self, now: int) -> None:
        """Note that it has ended its side of the connection, and not only said so."""
        if self.ended_at is None:
            self.ended_at = now

    def leave(self, now: int) -> None:
        """Note that nothing follows but the end of its connection."""
        self.leaving = True
        self.items.append(Item(Close(), now))


class Transitions:
    """The next steps of a target of this profile; ``lateness`` of its timers in nanoseconds.

    ``optimistic``: make a transition without a copy of the state if the model should not have to
    choose. If it chooses all the same, raise Undecided; the states must not be used any more.
    """

    lenient = False
    """The target may read a line in any way that the text leaves open."""
    is_strict = False
    """The TTR of a job ends in time though its client is idle: elsewhere, directed tests look."""

    def __init__(self, profile: Profile, lateness: int) -> None:
        self.profile = profile
        self.lateness = lateness
        self.optimistic = False
        self._proof = "USING" if profile.neutral == LIST_TUBE_USED else "NOT_FOUND"
        """The word of the reply to a neutral command."""
        self.clients: dict[int, OracleClient] = {}
        self._jumps: deque[tuple[int, int]] = deque(maxlen=_JUMPS)

    def _first_state(self) -> State:
        return State(new_model(self.profile))

    def _arrived(self, conn: int) -> None:
        reader = LenientReader if self.lenient else RequestReader
        self.clients[conn] = OracleClient(reader(self.profile))

    def take(self, conn: int, request: Request | Open, now: int) -> None:
        """Record a request that the target will handle."""
        client = self.clients[conn]
        client.items.append(Item(request, now, client.understood))
        client.note_request()
        if request == _QUIT:
            client.leave(now)

    def attend(self, conn: int, words: Iterable[str], now: int) -> None:
        """Note that the target attends to a client, if one of these replies is a proof of it."""
        self.clients[conn].heard = now
        # beanstalkd may forget the TTR of a client's jobs until it says something.
        if self._proof in words:
            self.clients[conn].attended = now

    def _signalled(self, now: int) -> None:
        """Record a signal, which the target handles at some time."""
        signals = self.clients.setdefault(SIGNALS, OracleClient(RequestReader(self.profile)))
        signals.items.append(Item(Drain(), now))

    def moved(self, before: int, now: int) -> None:
        """Note that the target's clock was moved: what fell due meanwhile fires at the end."""
        self._jumps.append((before, now))

    def _is_neutral(self, state: State, conn: int) -> bool:
        return self.clients[conn].items[state.done[conn]].event == NEUTRAL

    def _possible(self, state: State, now: int) -> tuple[list[Alarm], list[int]]:
        """Return what may come next: timers that may fire, clients that may be handled."""
        alarms = state.model.due(now + EARLY)
        # Timers fire in order, except those of idle holders: these may be forgotten.
        ordered = [alarm for alarm in alarms if not self._may_be_lost(state, alarm)]
        firing = [
            alarm
            for alarm in alarms
            if not ordered or self._fires_at(alarm) <= self._fires_at(ordered[0]) + self.lateness
        ]
        conns = []
        for number, client in self.clients.items():
            if not self.is_pending(state, number):
                continue
            if not self._must_fire(state, ordered, client.items[state.done[number]].at):
                conns.append(number)
        return firing, conns

    def is_pending(self, state: State, conn: int) -> bool:
        """Tell whether the target may still have requests to handle."""
        client = self.clients[conn]
        if state.done[conn] == len(client.items):
            return False
        if conn not in state.model.connections:
            return conn == SIGNALS
        return client.ended_at is not None or not state.model.is_waiting(conn)

    def _may_be_lost(self, state: State, alarm: Alarm) -> bool:
        """Tell whether this is the TTR of a client that has been idle since; tested elsewhere."""
        holder = None if self.is_strict else state.model.holder(alarm)
        if holder is None:
            return False
        client = self.clients.get(holder)
        return client is None or client.attended <= self._fires_at(alarm) + self.lateness

    def _must_fire(self, state: State, ordered: Sequence[Alarm], at: int) -> bool:
        """Tell whether a timer must have fired before what was sent at ``at`` is handled."""
        if not ordered or self._fires_at(ordered[0]) + self.lateness >= at:
            return False
        # What a client sends in one go may be handled before its own timers are checked.
        client = self.clients.get(state.model.holder(ordered[0]) or 0)
        return client is None or client.attended <= at

    def _fires_at(self, alarm: Alarm) -> int:
        return self._shown_from(alarm[0])

    def _shown_from(self, time: int) -> int:
        """Return when the target's clock first shows this time or a later one."""
        for start, end in reversed(self._jumps):
            if time > end:
                break
            if start < time:
                return end
        return time

    def _passed(self, since: int, now: int) -> int:
        """Return the nanoseconds that have passed since a time while no clock was moved."""
        jumps = itertools.takewhile(lambda jump: jump[0] >= since, reversed(self._jumps))
        return now - since - sum(end - start for start, end in jumps)

    def _fired(self, state: State, alarm: Alarm, now: int, only: bool) -> Iterator[State]:
        """Yield the states after a timer has fired, at ``now`` at the latest."""
        # The end of a pause gives away jobs, where any of equal priority may be next.
        only &= self.optimistic and self.profile.first_in_first_out
        due, at = alarm[0], self._fires_at(alarm)
        # Just after the start of a jump, it may have fired before. And a client that gets a job
        # now may have held it since the timer was due.
        before = any(start < due <= min(start + EARLY, end) for start, end in self._jumps)
        before |= at > due + EARLY and state.model.waiting > 0
        late = self._late_times(state, alarm, now)
        for time in (due, at) if before else (at,):
            fire = partial(_fire, alarm, time)
            yield from after(state, fire, only and not before and not late)
        for time in late:
            for fired in after(state, partial(_fire, alarm, time), only=False):
                if fired.model.waiting < state.model.waiting:
                    yield fired

    def _late_times(self, state: State, alarm: Alarm, now: int) -> list[int]:
        """Return the times at which a late timer may have fired that begins a reservation.

        The TTR of the job and the safety margin count from then. Each later timer may be late, too:
        so times that are no further apart than the lateness stand for all between them.
        """
        due, kind, _ = alarm
        if kind is Timer.WAIT or not state.model.waiting:
            return []
        times, last = [], self._fires_at(alarm)
        allowed = due + self.lateness
        for time in (min(allowed, now), min(self._shown_from(allowed), now)):
            if time > last + EARLY:
                times.append(time)
                last = time
        return times

    def handled(
        self, state: State, conn: int, asked: int, reply: Reply | None, now: int, only: bool
    ) -> Iterator[State]:
        """Yield the states after the next request of ``conn``; ``reply`` was seen by ``asked``."""
        item = self.clients[conn].items[state.done[conn]]
        if conn == SIGNALS:
            yield from after(
                state, partial(self._handle, conn, item, item.at), only and self.optimistic
            )
        elif not isinstance(item.event, Open):
            yield from self._handled_as(item, state, conn, asked, reply, now, only)
        else:
            for option in item.event.options:
                copy = restored(state.saved())
                event = Item(option, item.at)
                yield from self._handled_as(event, copy, conn, asked, reply, now, only)

    def _handled_as(
        self,
        item: Item,
        state: State,
        conn: int,
        asked: int,
        reply: Reply | None,
        now: int,
        only: bool,
    ) -> Iterator[State]:
        """Yield the states after a request of ``conn`` that the target takes for this."""
        named = job_named(item.event) if state.guessed else None
        if named is not None and named in state.guessed:
            for meant in state.meanings(named):
                yield from self._handled_as(item, meant, conn, asked, reply, now, False)
            return
        client = self.clients[conn]
        # What depends on no time leaves it as it is, for timers that may have fired before.
        since = 0 if item.event == NEUTRAL else item.at
        times = [max(since, state.model.now + 1)]
        reserver = state.model.connections[conn]
        end = max(times[0], client.ended_at or 0)
        if client.deaf and item is not client.items[-1]:
            # What it had sent before may get lost with the connection.
            yield from after(state, partial(self._lose, conn, ReplyCause(item.at), end), False)
            only = False
        if reserver.waiting and not isinstance(item.event, HalfClose | Close):
            # The end is noticed while the client waits, before what it had sent meanwhile.
            yield from after(state, partial(_half_close, conn, ReplyCause(item.at), end), only)
            return
        verb = item.event.verb if isinstance(item.event, Command) else ""
        if reserver.deadlines and verb in WAITING:
            edge = reserver.deadlines[0][0] - SAFETY_MARGIN
            if edge <= now + EARLY:
                only = False
                # The safety margin may have begun between sending and receiving, or hardly.
                if item.at - self.lateness <= edge:
                    times = [min(item.at, edge - 1), max(item.at, edge)]
        inserted = seen = None
        if conn == asked and reply is not None:
            inserted = reply if reply.word == "INSERTED" else None
            # The reply reveals the choices, unless ids are guessed.
            seen = reply if state.guessed.isdisjoint(state.model.jobs) else None
        only &= self.optimistic and not self.may_choose(state.model, conn, item.event, seen is None)
        for at in times:
            yield from after(
                state, partial(self._handle, conn, item, at, inserted=inserted), only, seen
            )

    def may_choose(
        self, model: UnspecifiedModel, conn: int, event: Event | Open, unrevealed: bool
    ) -> bool:
        """Return whether the model may have to choose; ``unrevealed``: no reply shows its choice.

        This is a hint: other choices are noticed when the model asks.
        """
        if isinstance(event, Close):
            # Which of its jobs is ready first is unspecified.
            return model.waiting > 0
        if is_open(model, event):
            return True
        verb = event.verb if isinstance(event, Command) else ""
        if verb in _TAKE_SOONEST:
            return has_tie(model, conn)
        return verb in _TAKE_NEXT and unrevealed and not self.profile.first_in_first_out

    def _lose(self, conn: int, cause: ReplyCause, at: int, state: State) -> list[Output]:
        """End a connection, with the requests that were sent on it."""
        state.cause = cause
        state.done[conn] = len(self.clients[conn].items)
        return state.model.handle(Close(), at, conn)

    @staticmethod
    def _handle(
        conn: int, item: Item, at: int, state: State, inserted: Reply | None = None
    ) -> list[Output]:
        """Let an item be handled; ``inserted`` has the id that the target may give a job."""
        assert not isinstance(item.event, Open)
        state.done[conn] += 1
        state.cause = ReplyCause(item.at)
        if isinstance(item.event, Body):
            take_id(state, conn, inserted)
        return state.model.handle(item.event, at, conn)


def job_named(event: Event | Open) -> int | None:
    """Return the id of the job that a command is about."""
    if isinstance(event, Command) and event.verb in ABOUT_A_JOB:
        return next((id for id in event.args[:1] if isinstance(id, int)), None)
    return None


def _half_close(conn: int, cause: ReplyCause, at: int, state: State) -> list[Output]:
    """Let the target notice that a client that waits sends nothing more."""
    state.cause = cause
    return state.model.handle(HalfClose(), at, conn)


def _fire(alarm: Alarm, at: int, state: State) -> list[Output]:
    """Let a timer fire."""
    state.cause = ReplyCause(at, is_timer=True)
    return state.model.fire(alarm, at)
