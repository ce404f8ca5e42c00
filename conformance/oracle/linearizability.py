"""The search for an order that explains the replies to concurrent clients.

Each command is sent at some time, and its reply is received later; in between the target handled
it, in an order that nobody saw. A history is allowed if there is an order in which the
model gives every client the replies that it has heard, and in which nothing is handled before it
was sent, or after its reply was heard. Orders are searched depth first, each step checked against
the replies that are known (Wing and Gong; Lowe's just-in-time linearization).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from conformance.oracle.concurrent_history import ConcurrentHistory, Heard
from conformance.oracle.oracle import FOR_EVER
from conformance.oracle.states import State, Undecided, restored
from conformance.oracle.transitions import job_named
from conformance.oracle.violation import NOTHING, Violation
from conformance.verdict import Inconclusive
from reference_server import wire
from reference_server.commands import WAITING
from reference_server.events import Close
from reference_server.state import Job
from reference_server.wire import Body, Command, Put, Reply

MAX_STEPS = 1_500
"""Steps in wrong directions after which a search is given up."""
FAILURES = 16
"""Dead ends after which the search goes further back at once, at most ``JUMPS`` times."""
JUMPS = 100
BURST = 3
"""Replies of one client that are likely to follow shortly after each other."""
_OWN = ("use", "watch", "ignore", "list-tube-used", "list-tubes-watched")
"""Commands whose place among those of others makes no difference."""


class Misplaced(Violation):
    """A job that came back is not at its old place; beanstalkd keeps that, no text says so."""


@dataclass(slots=True)
class _Step:
    """A state, how many replies each client has got in it, and what may come of it.

    ``handled``: the client whose item has led to it, and the item's number.
    ``state`` may become the first of its ``successors``. ``saved``: the state as it was; None if
    only one client may be next: the state fails if its successors do.
    """

    state: State
    given: Mapping[int, int]
    successors: Iterator[_Step]
    saved: bytes | None
    is_last: bool
    """No message is left to handle or to observe."""
    handled: tuple[int, int] | None = None


class Explanation:
    """An order of the commands in a history that explains all that was heard, if there is one.

    ``order`` and ``misfits`` are there after :meth:`find`, also if that has raised a violation.
    """

    def __init__(self, history: ConcurrentHistory) -> None:
        self._history = history
        self._search = _Search(history)

    @property
    def order(self) -> list[tuple[int, int]]:
        """The longest order that was found: clients, and numbers of their items."""
        return self._search.order

    @property
    def misfits(self) -> list[tuple[int, str]]:
        """The replies that may come next after the longest orders, and what was expected instead.

        Replies are named by their marks.
        """
        return [
            (heard.mark, _in_words(reply))
            for heard, reply in self._search.misfits
            if heard is not None
        ]

    def find(self) -> None:
        """Find an order of the commands that produces exactly the observed replies.

        Raises :class:`Violation`, or Inconclusive if there are too many orders.
        """
        try:
            self._find_optimistically()
        except Violation as violation:
            if not self._history.profile.first_in_first_out:
                raise
            self._find_with_any_places(violation)

    def _find_optimistically(self) -> None:
        self._history.optimistic = True
        try:
            # Mostly, the order that is most likely explains all: then no state need be copied.
            if not self._begun(tried=1).follows():
                self._begun().find()
        except Undecided:
            self._history.optimistic = False
            self._begun().find()

    def _begun(self, tried: int = sys.maxsize) -> _Search:
        self._search = _Search(self._history, tried)
        return self._search

    def _find_with_any_places(self, violation: Violation) -> None:
        """Raise :class:`Misplaced` if there is an order once jobs come back to any place."""
        model, strict = self._history.start.model, self._search
        self._history.optimistic = model.keeps_places = False
        try:
            self._begun().find()
        finally:
            model.keeps_places = True
        self._search = strict
        raise Misplaced(violation.expected, violation.observed, violation.mark) from violation


class _Search:
    """One search for an order, depth first.

    ``tried``: how many of the clients that may be next are tried.
    ``order``: the longest that explains what was heard: clients, and numbers of their items.
    ``misfits``: the replies that may come next after the longest ones, and the expected ones.
    """

    def __init__(self, history: ConcurrentHistory, tried: int = sys.maxsize) -> None:
        self.order: list[tuple[int, int]] = []
        self.misfits: list[tuple[Heard | None, Reply | None]] = []
        self._history = history
        self._tried = tried
        self._deepest = -1
        self._urgent: Counter[tuple[int, int]] = Counter()

    def follows(self) -> bool:
        """Tell whether the first order that is tried explains everything; go back for nothing."""
        step: _Step | None = self._root()
        while step is not None and not step.is_last:
            step = next(step.successors, None)
            if step is not None and step.handled is not None:
                self.order.append(step.handled)
        if step is not None:
            self.misfits = []
        return step is not None

    def find(self) -> None:
        """Find an order; raises :class:`Violation`, or Inconclusive if too many are tried."""
        size = sum(len(client.items) for client in self._history.clients.values())
        path = [self._root()]
        failed: set[object] = set()
        failures = jumps = deepest = 0
        back = 1
        for _ in range(MAX_STEPS + 3 * size):
            step = path[-1]
            successor = next(step.successors, None)
            if successor is not None:
                if not failed or successor.state.key() not in failed:
                    path.append(successor)
                    if len(path) > len(self.order) + 1:
                        self.order = [one.handled for one in path if one.handled is not None]
                continue
            if step.is_last:
                self.misfits = []
                return
            if sum(step.given.values()) > self._deepest:
                self._note(step.given, self._history.first_following(step.given), None)
            state = step.state if step.saved is None else restored(step.saved)
            failed.add(state.key())
            path.pop()
            if not path:
                raise self._violation()
            failures += 1
            if failures == FAILURES and jumps < JUMPS:
                # The wrong step may be far behind: go further back, and try other orders first.
                back = 1 if self._deepest > deepest else 2 * back
                failures, jumps, deepest = 0, jumps + 1, self._deepest
                self._reorder()
                self._go_back(path, FAILURES * back)
        raise Inconclusive("there are too many orders in which it may have happened")

    def _reorder(self) -> None:
        """Try replies without an explanation earlier, and those expected instead later."""
        for heard, expected in set(self.misfits):
            if heard is None:
                continue
            for number in range(heard.number - BURST, heard.number + 1):
                self._urgent[heard.conn, number] += 1
            if expected is not None and expected.word in ("RESERVED", "FOUND"):
                for offer in self._history.offered[expected.args[0]]:
                    self._urgent[offer] -= 1

    def _go_back(self, path: list[_Step], steps: int) -> None:
        """Go back to a state of which a copy was made, so many steps at least."""
        del path[max(len(path) - steps, 1) :]
        while len(path) > 1 and path[-1].saved is None:
            path.pop()
        saved = path[-1].saved
        path[-1] = self._root() if saved is None else self._step(restored(saved), path[-1].given)

    def _root(self) -> _Step:
        start = restored(self._history.start.saved())
        return self._step(start, dict.fromkeys(self._history.clients, 0))

    def _step(self, state: State, given: Mapping[int, int]) -> _Step:
        history = self._history
        first = history.first_following(given)
        conns = self._next(state, given, FOR_EVER if first is None else first.at)[: self._tried]
        saved = state.saved() if len(conns) > 1 else None
        pending = (conn for conn in history.clients if history.is_pending(state, conn))
        is_last = first is None and next(pending, None) is None
        return _Step(state, given, self._successors(state, saved, given, conns), saved, is_last)

    def _successors(
        self,
        state: State,
        saved: bytes | None,
        given: Mapping[int, int],
        conns: Sequence[tuple[bool, int]],
    ) -> Iterator[_Step]:
        """Yield the outcomes of handling each client that may be next."""
        only = self._history.optimistic or saved is None
        for number, (neutral, conn) in enumerate(conns):
            heard, item = self._history.following(conn, given), state.done[conn]
            reply = heard and heard.reply
            before = state
            if self._history.optimistic and saved is not None and number:
                # The first successor was the state itself then.
                before = restored(saved)
            for successor in self._history.handled(before, conn, conn, reply, 0, only):
                after = self._matched(successor, given)
                if after is not None:
                    following = self._step(successor, after)
                    following.handled = conn, item
                    yield following
                    if neutral and after[conn] > given[conn]:
                        # Whatever else may come next may as well come after it.
                        return

    def _next(self, state: State, given: Mapping[int, int], horizon: int) -> list[tuple[bool, int]]:
        """Return the clients whose next item may be handled now, the most likely first.

        And whether nothing else need be tried then. ``horizon``: when the next reply was heard,
        before which it must have been sent.
        """
        found: list[tuple[int, int, int, int]] = []
        for conn, client in self._history.clients.items():
            if not self._history.is_pending(state, conn):
                continue
            item = client.items[state.done[conn]]
            if item.at > horizon:
                continue
            event = item.event
            if isinstance(event, Put) or (isinstance(event, Command) and event.verb in _OWN):
                return [(False, conn)]
            rank = self._rank(state, conn, event, given)
            if rank is not None:
                found.append((rank, -self._urgent[conn, given[conn]], item.at, conn))
        return [(rank == 0, conn) for rank, *_, conn in sorted(found)]

    def _rank(self, state: State, conn: int, event: object, given: Mapping[int, int]) -> int | None:
        """Return how unlikely it is that a client is next: 0 to 4, None if its reply cannot fit.

        0: whatever else may come next may as well come after it, if the reply is as it was heard.
        """
        heard = self._history.following(conn, given)
        if state.model.is_waiting(conn):
            # The end of its connection comes before what it has sent meanwhile.
            return 0 if heard is not None and heard.reply == wire.TIMED_OUT else 4
        if isinstance(event, Body) and self._is_given_away(state, conn, event, given):
            return None
        if not isinstance(event, Command):
            # Nobody can tell when a target comes to the end of a connection.
            return 4 if isinstance(event, Close) else 2
        is_lost = self._history.has_lost(conn, heard)
        job = state.model.next_ready(conn) if event.verb in WAITING else None
        certain = _certain_reply(state, conn, event, job)
        if certain is not None and not is_lost and (heard is None or heard.reply != certain):
            self._note(given, heard, certain)
            return None
        comes_at_once = certain is not None or event.verb not in WAITING
        if heard is not None and comes_at_once and _changes_nothing(heard.reply):
            return 0
        if event.verb not in WAITING:
            return 2
        if job is not None:
            # It may have got the job, which nobody heard, and given it back by its end.
            return 4 if is_lost and certain else 1
        # A reserve that finds no job may as well come later, unless it must find none.
        return 2 if heard is not None and heard.reply == wire.TIMED_OUT else 3

    def _is_given_away(self, state: State, conn: int, body: Body, given: Mapping[int, int]) -> bool:
        """Tell whether the job of a put goes to a client that waits, but none of these got it."""
        incoming = state.model.connections[conn].incoming
        heard = self._history.following(conn, given)
        if incoming is None or heard is None or heard.reply.word != "INSERTED":
            return False
        tube = incoming.tube
        if incoming.delay or tube.pause or not tube.waiting:
            return False
        job = wire.RESERVED(int(heard.reply.args[0]), body.data or b"")
        for client in tube.waiting:
            got = self._history.following(client.id, given)
            is_it = got and (got.reply.word, got.reply.args[:1]) == (job.word, job.args)
            if is_it or self._history.has_lost(client.id, got):
                return False
        self._note(given, self._history.following(tube.waiting.first().id, given), job)
        return True

    def _matched(self, state: State, given: Mapping[int, int]) -> Mapping[int, int] | None:
        """Return how many replies each client got; None if one differs from the observed one."""
        after = dict(given)
        for conn, owed in state.owed.items():
            while owed:
                heard = self._history.following(conn, after)
                if self._history.has_lost(conn, heard):
                    owed.clear()
                elif heard is None or heard.reply != owed[0]:
                    self._note(given, heard, owed[0])
                    return None
                else:
                    owed.pop(0)
                    after[conn] += 1
        return after

    def _note(self, given: Mapping[int, int], heard: Heard | None, expected: Reply | None) -> None:
        """Remember what was expected (None: no reply yet), where most is explained."""
        depth = sum(given.values())
        if depth > self._deepest:
            self._deepest = depth
            self.misfits = []
        if depth == self._deepest:
            self.misfits.append((heard, expected))

    def _violation(self) -> Violation:
        heard = min((heard for heard, _ in self.misfits if heard is not None), default=None)
        expected = dict.fromkeys(
            _in_words(reply) for other, reply in self.misfits if other == heard
        )
        if heard is None:
            return Violation(list(expected), NOTHING, -1)
        asked = self._history.asked[heard.conn][heard.number]
        command = asked.verb if isinstance(asked, Command) else ""
        return Violation(list(expected), str(heard.reply), heard.mark, command=command)


def _in_words(expected: Reply | None) -> str:
    return "no reply yet" if expected is None else str(expected)


def _certain_reply(state: State, conn: int, command: Command, next_job: Job | None) -> Reply | None:
    """Return the reply to a command, if it is certain without handling the command.

    ``next_job``: the job that a reserve may get.
    """
    model, named = state.model, job_named(command)
    if state.guessed:
        return None
    if named is not None:
        job = model.jobs.get(named)
        is_held = job is not None and job.reserver is not None and job.reserver.id != conn
        is_missing = job is None or (is_held and command.verb == "delete")
        return wire.NOT_FOUND if is_missing else None
    if command.verb not in WAITING:
        return None
    if next_job is not None:
        is_certain = model.profile.first_in_first_out and model.keeps_places
        return wire.RESERVED(next_job.id, next_job.body) if is_certain else None
    is_over = command.args == (0,) and not model.connections[conn].deadlines
    return wire.TIMED_OUT if is_over else None


def _changes_nothing(reply: Reply) -> bool:
    """Tell whether what is answered this way has left everything as it was."""
    return reply.word in ("NOT_FOUND", "FOUND", "TIMED_OUT")
