"""The fast gear of an oracle: follows the only outcome at once, and judges again if it was wrong.

As long as one state is possible and one thing can come of a command, the command is handled when it
is sent, and its reply is compared with the one that is owed. An alarm in this gear is no verdict:
the oracle starts from the last checkpoint, and judges again with all outcomes.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from conformance.oracle.oracle import Oracle
from conformance.oracle.states import (
    EARLY,
    ReplyCause,
    State,
    Undecided,
    decided,
    guess,
    is_open,
)
from conformance.oracle.transitions import MAKE_READY, MAY_ASK
from conformance.oracle.underspecification import Open
from conformance.oracle.violation import Violation
from reference_server.commands import WAITING
from reference_server.events import Event
from reference_server.lifecycle import SAFETY_MARGIN
from reference_server.wire import Body, Command, Put, Reply

_QUIT = Command("quit")
_NOT_ALWAYS_CERTAIN = MAY_ASK | {"quit"}
_CHECKPOINT = 1000
"""Calls after which a new checkpoint is made; to judge again begins at the last one."""


class _Call(NamedTuple):
    """A call of the oracle; ``mark`` is a message's, ``at`` in nanoseconds of real time."""

    name: str
    mark: int
    at: int
    args: tuple[Any, ...]


class FastGear:
    """Drives an oracle through the only possible outcomes; ``oracle`` itself is exact.

    ``guess_ids``: take the next id for that of a new job, until the target gives another.
    """

    def __init__(self, oracle: Oracle, guess_ids: bool) -> None:
        self.oracle = oracle
        self._guess_ids = guess_ids
        # Among jobs of equal priority, expect the oldest, until the target has given another one.
        self._guess_order = True
        # The client, if any, whose commands are certain, as nothing else is going on.
        self._calm: int | None = None
        # Whether more than one thing may come of a job that becomes ready.
        self._crowded = False
        self._calls: list[_Call] = []
        self._save()

    def sent(self, conn: int, data: bytes, now: int) -> bool:
        """Handle the bytes of a client; tell whether their only outcome is known."""
        self._note("sent", 0, conn, data, now)
        try:
            return self._handle_certain(conn, data, now)
        except Undecided:
            self._again()
            return False

    def owed(self, conn: int) -> Collection[Reply]:
        """Return the replies that a client must get now, as far as that is certain."""
        states = self.oracle.states
        return states[0].owed[conn] if len(states) == 1 else ()

    def kept(self, conn: int, replies: Sequence[Reply], now: int, mark: int) -> None:
        """Take in replies that a client has got as they were owed."""
        self._note("received_all", mark, conn, replies, now)
        self._calm = None
        state = self.oracle.states[0]
        for reply in replies:
            state.given(conn, reply)
        self.oracle.attend(conn, map(attrgetter("word"), replies), now)

    def do(self, name: str, mark: int, *args: Any) -> None:
        """Call a method of the oracle; ``mark`` is the number of the message that it is about."""
        self._calm = None
        self._note(name, mark, *args)
        try:
            getattr(self.oracle, name)(*args)
        except Undecided:
            self._again()
        except Violation as violation:
            self._again()
            # The exact oracle has allowed it.
            if violation.observed.startswith("INSERTED") and "INSERTED" in violation.expected[0]:
                self._guess_ids = False
            elif violation.observed.startswith(("RESERVED", "FOUND")):
                self._guess_order = self.oracle.profile.first_in_first_out
        if name == "quiet" and self._may_save(*args):
            self._save()

    @property
    def has_much(self) -> bool:
        """Tell whether a new checkpoint is worth while."""
        return len(self._calls) > _CHECKPOINT

    def rest(self, now: int, mark: int) -> None:
        """Make a new checkpoint, if nothing is owed."""
        if self._may_save(now):
            self.do("quiet", mark, now)

    def awaits(self, now: int) -> Sequence[str]:
        """Return what the fast gear still expects; empty if it expects nothing."""
        self._calm = None
        self._note("quiet", 0, now)
        try:
            self.oracle.quiet(now)
        except Violation as violation:
            self._calls.pop()
            return violation.expected
        except Undecided:
            return self._awaits_after_all()
        return ()

    def _awaits_after_all(self) -> Sequence[str]:
        """Return what is still expected when all is judged again, the last call included."""
        try:
            self._again()
        except Violation as violation:
            self._calls.pop()
            self._again()
            return violation.expected
        return ()

    # ------------------------------------------------------------ what is certain

    def _handle_certain(self, conn: int, data: bytes, now: int) -> bool:
        oracle = self.oracle
        client, state = oracle.clients[conn], oracle.states[0]
        if client.leaving:
            return False
        reader, model = client.reader, state.model
        model.choose = guess if self._guess_order else decided
        if self._calm != conn:
            is_calm = oracle.is_still(conn) and state.done[conn] == len(client.items)
            self._calm = conn if is_calm else None
            self._crowded = model.waiting > 1 or not oracle.is_done(state, conn)
        client.receive(data)
        while self._calm is not None:
            if not reader.buffered or (request := reader.next_request()) is None:
                return not reader.buffered
            if self._is_certain(state, conn, request, now):
                # All before it is done, so it need not be remembered.
                client.note_request()
                state.cause = ReplyCause(now)
                state.owe(model.handle(request, max(now, model.now + 1), conn))
            else:
                self._calm = None
                oracle.take(conn, request, now)
        oracle.read(conn, now)
        return False

    def _is_certain(self, state: State, conn: int, event: Event | Open, now: int) -> bool:
        """Tell whether the next item has only one outcome."""
        model = state.model
        due, client = model.next_due, model.connections[conn]
        if (due is not None and due <= now + EARLY) or client.waiting or isinstance(event, Open):
            return False
        if isinstance(event, Command):
            if event.verb not in _NOT_ALWAYS_CERTAIN:
                return True
            if self._crowded and event.verb in MAKE_READY:
                return False
            if self.oracle.may_choose(model, conn, event, not self._guess_order):
                return False
            deadlines = client.deadlines
            if deadlines and event.verb in WAITING:
                edge, lateness = deadlines[0][0] - SAFETY_MARGIN, self.oracle.lateness
                if edge + lateness + EARLY < now:
                    return model.next_ready(conn) is None
                return edge - lateness > now + EARLY
            return event != _QUIT
        if isinstance(event, Put):
            return not is_open(model, event)
        return not isinstance(event, Body) or (self._guess_ids and not self._crowded)

    # ------------------------------------------------------------ judging again

    def _note(self, name: str, mark: int, *args: Any) -> None:
        """Remember a call of the oracle, and its real time."""
        self.oracle.real_now = time.monotonic_ns()
        self._calls.append(_Call(name, mark, self.oracle.real_now, args))

    def _may_save(self, now: int) -> bool:
        """Tell whether the state is certain, and a new checkpoint is worth while."""
        model = self.oracle.model
        # A checkpoint copies all jobs.
        many = len(self._calls) > _CHECKPOINT + 5 * len(model.jobs)
        return many and not model.has_guessed and self.oracle.is_quiet(now)

    def _save(self) -> None:
        self.oracle.optimistic = True
        self._saved = pickle.dumps(self.oracle, pickle.HIGHEST_PROTOCOL)
        self._calls.clear()

    def _again(self) -> None:
        """Judge everything since the last checkpoint again, exactly."""
        self._calm = None
        try:
            self.oracle = self._judged_exactly()
        except Violation as violation:
            self.oracle = self._judged_with_late_service(violation)

    def _judged_exactly(self) -> Oracle:
        try:
            return self._judged(optimistic=True)
        except Undecided:
            return self._judged(optimistic=False)

    def _judged_with_late_service(self, violation: Violation) -> Oracle:
        """Return an oracle that allows all calls, as clients that wait may be served late.

        If it does not, raise the violation that shows later.
        """
        try:
            return self._judged(optimistic=False, serves_late=True)
        except Violation as other:
            raise (other if other.mark > violation.mark else violation) from None

    def _judged(self, optimistic: bool, serves_late: bool = False) -> Oracle:
        """Return an oracle that has judged all calls, each command only when it was answered."""
        oracle: Oracle = pickle.loads(self._saved)
        oracle.optimistic, oracle.ends = optimistic, self.oracle.ends
        if serves_late:
            oracle.allow_late_service()
        for call in self._calls:
            oracle.real_now = call.at
            try:
                getattr(oracle, call.name)(*call.args)
            except Violation as violation:
                violation.mark = call.mark
                raise
        return oracle
