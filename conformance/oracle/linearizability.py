"""The search for an order that explains the replies to concurrent clients.

Each command is sent at some time, and its reply is received later; in between the target handled
it, in an order that nobody saw. A history is allowed if there is an order in which the
model gives every client the replies that it has heard, and in which nothing is handled before it
was sent, or after its reply was heard. Orders are searched depth first, each step checked against
the replies that are known (Wing and Gong; Lowe's just-in-time linearization).
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from conformance.oracle.oracle import FOR_EVER
from conformance.oracle.states import State, Undecided, restored
from conformance.oracle.transitions import Item, Transitions, job_named
from conformance.oracle.violation import NOTHING, Violation
from conformance.verdict import Inconclusive
from reference_server import wire
from reference_server.commands import WAITING
from reference_server.events import Close, HalfClose
from reference_server.profiles import NEWEST, Profile
from reference_server.state import SECOND, Job
from reference_server.wire import Body, Command, Malformed, Put, Reply

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


class _Heard(NamedTuple):
    """The ``number``-th reply that a client received; ``mark``: where it is written."""

    at: int
    mark: int
    conn: int
    number: int
    reply: Reply


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


class ConcurrentHistory(Transitions):
    """The commands and replies of clients since the target had none of their jobs.

    Times are any numbers that grow; no timer may fall due meanwhile.
    """

    def __init__(self, profile: Profile = NEWEST) -> None:
        super().__init__(profile, SECOND)
        self._start = self._first_state()
        self._heard: dict[int, list[_Heard]] = {}
        self._asked: dict[int, list[Command | Body | Malformed]] = {}
        self._ended: set[int] = set()
        self._misfits: list[tuple[_Heard | None, Reply | None]] = []
        self._deepest = -1
        self.order: list[tuple[int, int]] = []
        """The longest order that explains what was heard: clients, and numbers of their items.

        It is there after :meth:`explain`, also if that has raised a violation."""
        self._offered: defaultdict[object, list[tuple[int, int]]] = defaultdict(list)
        self._urgent: Counter[tuple[int, int]] = Counter()
        self._tried = 0
        """The number of clients that are tried as the next one, of those that may be."""

    def connect(self, conn: int) -> None:
        """Note that a client has connected; when makes no difference to others."""
        self._arrived(conn)
        self._heard[conn] = []
        self._asked[conn] = []
        self._start.connect(conn)

    def sent(self, conn: int, data: bytes, now: int) -> None:
        """Note that a client has sent these bytes."""
        client = self.clients[conn]
        client.reader.receive(data)
        while (request := client.reader.next_request()) is not None:
            client.items.append(Item(request, now))
            if not isinstance(request, Put):
                self._asked[conn].append(request)

    def leaves(self, conn: int, now: int) -> None:
        """Note that a client sends nothing more; it may still hear something."""
        client = self.clients[conn]
        client.items.append(Item(HalfClose(), now))
        client.end(now)
        client.leave(now)

    def heard(self, conn: int, reply: Reply, now: int, mark: int) -> None:
        """Note that a client has got a reply; ``mark`` is its position in the transcript."""
        heard = self._heard[conn]
        request = self._asked[conn][len(heard)]
        if reply.word == "INSERTED":
            self._offered[reply.args[0]].append((conn, len(heard)))
        elif isinstance(request, Command) and request.verb == "release":
            self._offered[request.args[0]].append((conn, len(heard)))
        heard.append(_Heard(now, mark, conn, len(heard), reply))

    def ended(self, conn: int) -> None:
        """Note that a client that leaves will hear nothing more."""
        self._ended.add(conn)

    # ------------------------------------------------------------ the search

    def explain(self) -> None:
        """Find an order of the commands that produces exactly the observed replies.

        Raises :class:`Violation`, or Inconclusive if there are too many orders.
        """
        try:
            self._search_optimistically()
        except Violation as violation:
            if not self.profile.first_in_first_out:
                raise
            self._explain_places(violation)

    def _search_optimistically(self) -> None:
        self.optimistic = True
        try:
            if not self._is_as_likely():
                self._search()
        except Undecided:
            self.optimistic = False
            self._search()

    def _is_as_likely(self) -> bool:
        """Tell whether the order that is most likely at each step explains everything.

        It mostly does, and no state need be copied, as nothing else is tried.
        """
        self._begin(tried=1)
        step: _Step | None = self._root()
        while step is not None and not step.is_last:
            step = next(step.successors, None)
            if step is not None and step.handled is not None:
                self.order.append(step.handled)
        return step is not None

    def _begin(self, tried: int = sys.maxsize) -> None:
        """Begin a search in which so many of the clients that may be next are tried."""
        self._tried = tried
        self._misfits = []
        self._deepest = -1
        self._urgent.clear()
        self.order = []

    def _explain_places(self, violation: Violation) -> None:
        """Raise :class:`Misplaced` if there is an order once jobs come back to any place."""
        model, order = self._start.model, self.order
        self.optimistic = model.keeps_places = False
        try:
            self._search()
        finally:
            model.keeps_places = True
            self.order = order
        raise Misplaced(violation.expected, violation.observed, violation.mark) from violation

    def _search(self) -> None:
        self._begin()
        size = sum(len(client.items) for client in self.clients.values())
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
                return
            if sum(step.given.values()) > self._deepest:
                self._note(step.given, self._first(step.given), None)
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
        for heard, expected in set(self._misfits):
            if heard is None:
                continue
            for number in range(heard.number - BURST, heard.number + 1):
                self._urgent[heard.conn, number] += 1
            if expected is not None and expected.word in ("RESERVED", "FOUND"):
                for offer in self._offered[expected.args[0]]:
                    self._urgent[offer] -= 1

    def _go_back(self, path: list[_Step], steps: int) -> None:
        """Go back to a state of which a copy was made, so many steps at least."""
        del path[max(len(path) - steps, 1) :]
        while len(path) > 1 and path[-1].saved is None:
            path.pop()
        saved = path[-1].saved
        path[-1] = self._root() if saved is None else self._step(restored(saved), path[-1].given)

    def _root(self) -> _Step:
        return self._step(restored(self._start.saved()), dict.fromkeys(self.clients, 0))

    def _step(self, state: State, given: Mapping[int, int]) -> _Step:
        first = self._first(given)
        conns = self._next(state, given, FOR_EVER if first is None else first.at)[: self._tried]
        saved = state.saved() if len(conns) > 1 else None
        is_last = first is None and not any(self.is_pending(state, conn) for conn in self.clients)
        return _Step(state, given, self._successors(state, saved, given, conns), saved, is_last)

    def _successors(
        self,
        state: State,
        saved: bytes | None,
        given: Mapping[int, int],
        conns: Sequence[tuple[bool, int]],
    ) -> Iterator[_Step]:
        """Yield the outcomes of handling each client that may be next."""
        only = self.optimistic or saved is None
        for number, (neutral, conn) in enumerate(conns):
            heard, item = self._after(conn, given), state.done[conn]
            reply = heard and heard.reply
            # The first successor is the state itself then.
            before = restored(saved) if self.optimistic and saved is not None and number else state
            for successor in self._handled(before, conn, conn, reply, 0, only):
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
        for conn, client in self.clients.items():
            if not self.is_pending(state, conn):
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
        heard = self._after(conn, given)
        if state.model.is_waiting(conn):
            # The end of its connection comes before what it has sent meanwhile.
            return 0 if heard is not None and heard.reply == wire.TIMED_OUT else 4
        if isinstance(event, Body) and self._is_given_away(state, conn, event, given):
            return None
        if not isinstance(event, Command):
            # Nobody can tell when a target comes to the end of a connection.
            return 4 if isinstance(event, Close) else 2
        is_lost = self._has_lost(conn, heard)
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
        incoming, heard = state.model.connections[conn].incoming, self._after(conn, given)
        if incoming is None or heard is None or heard.reply.word != "INSERTED":
            return False
        tube = incoming.tube
        if incoming.delay or tube.pause or not tube.waiting:
            return False
        job = wire.RESERVED(int(heard.reply.args[0]), body.data or b"")
        for client in tube.waiting:
            got = self._after(client.id, given)
            is_it = got and (got.reply.word, got.reply.args[:1]) == (job.word, job.args)
            if is_it or self._has_lost(client.id, got):
                return False
        self._note(given, self._after(tube.waiting.first().id, given), job)
        return True

    def _matched(self, state: State, given: Mapping[int, int]) -> Mapping[int, int] | None:
        """Return how many replies each client got; None if one differs from the observed one."""
        after = dict(given)
        for conn, owed in state.owed.items():
            while owed:
                heard = self._after(conn, after)
                if self._has_lost(conn, heard):
                    owed.clear()
                elif heard is None or heard.reply != owed[0]:
                    self._note(given, heard, owed[0])
                    return None
                else:
                    owed.pop(0)
                    after[conn] += 1
        return after

    def _after(self, conn: int, given: Mapping[int, int]) -> _Heard | None:
        """Return the next observed reply of a client."""
        heard = self._heard[conn]
        return heard[given[conn]] if given[conn] < len(heard) else None

    def _has_lost(self, conn: int, heard: _Heard | None) -> bool:
        """Tell whether a reply may be lost with the connection, as there is none to be heard."""
        return heard is None and conn in self._ended

    def _first(self, given: Mapping[int, int]) -> _Heard | None:
        """Return the next observed reply of any client."""
        following = (self._after(conn, given) for conn in self.clients)
        return min((heard for heard in following if heard is not None), default=None)

    # ------------------------------------------------------------ what is wrong

    def _note(self, given: Mapping[int, int], heard: _Heard | None, expected: Reply | None) -> None:
        """Remember what was expected (None: no reply yet), where most is explained."""
        depth = sum(given.values())
        if depth > self._deepest:
            self._deepest = depth
            self._misfits = []
        if depth == self._deepest:
            self._misfits.append((heard, expected))

    @property
    def misfits(self) -> list[tuple[int, str]]:
        """The replies that may come next after the longest orders, and what was expected instead.

        Replies are named by their marks.
        """
        return [
            (heard.mark, "no reply yet" if reply is None else str(reply))
            for heard, reply in self._misfits
            if heard is not None
        ]

    def _violation(self) -> Violation:
        heard = min((heard for heard, _ in self._misfits if heard is not None), default=None)
        expected = dict.fromkeys(
            "no reply yet" if reply is None else str(reply)
            for other, reply in self._misfits
            if other == heard
        )
        if heard is None:
            return Violation(list(expected), NOTHING, -1)
        asked = self._asked[heard.conn][heard.number]
        command = asked.verb if isinstance(asked, Command) else ""
        return Violation(list(expected), str(heard.reply), heard.mark, command=command)


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
