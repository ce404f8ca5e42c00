"""One job, in all the states that it may be in.

A request about it takes effect at some time between when it was sent and when its reply was
observed. So a possibility is a state, and the replies that requests in flight have had in it. When
a reply is observed, requests in flight are applied in every order, with timers and whatever else
may change the job without naming it; what does not agree with the reply is dropped. If nothing is
left, no server that conforms has answered so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from reference_server.lifecycle import BECOMES, REPLIES, STATES
from reference_server.state import SECOND

READY, DELAYED, BURIED, RESERVED = STATES[:4]
GONE, TAKEN, ANY = "gone", "taken", "unknown"
"""Deleted; reserved by a client that has not heard so yet; any state."""
_ANOTHERS = STATES[4]
MAX_POSSIBILITIES = 256
"""Possibilities beyond which a job is unknown again."""
KEPT = 16
"""Earlier sets of states of a job that are remembered."""
EARLY = SECOND // 50
"""Nanoseconds by which a timer may seem to fire early."""

_WORDS: Mapping[str, Mapping[str, str]] = {
    verb: dict(zip(STATES, words, strict=True))
    for verb, *words in (line.split() for line in REPLIES.strip().splitlines())
}
"""The reply to each command that names a job, by the state of that job."""
NAMING = frozenset(_WORDS)
"""The commands that name a job, and are answered by its state."""
LOOKING = frozenset(("peek", "stats-job"))
"""The commands among them that change nothing."""


class Request(NamedTuple):
    """A request about a job: the ``number``-th event, sent at ``at`` nanoseconds."""

    number: int
    conn: int
    verb: str
    at: int
    pri: int = 0
    delay: int = 0


class Possibility(NamedTuple):
    """A state that a job may be in, and what would have been answered in it.

    ``who`` holds the job. ``soonest`` and ``latest``: when its delay or TTR ends, in nanoseconds;
    0 if that is not known.
    ``since``: the event before which it had not come into this state.
    """

    state: str
    who: int = 0
    soonest: int = 0
    latest: int = 0
    since: int = 0
    answers: frozenset[tuple[Request, str]] = frozenset()


UNKNOWN = Possibility(ANY)


class TooManyPossibilities(Exception):
    """A job may be in too many states: it is not followed for a while."""


class Surroundings(Protocol):
    """All that may change a job of a tube without naming it."""

    number: int
    """The number of the event that is judged."""
    now: int
    deletes: frozenset[str]
    """The states of jobs that may be deleted."""

    @property
    def lateness(self) -> int:
        """Return by how many nanoseconds a delay may end late."""

    def may_be_taken(self, tube: str | None, since: int = ...) -> bool:
        """Return whether a client has waited for its jobs since before event ``since``."""

    def may_be_kicked(self, tube: str | None, since: int) -> bool:
        """Return whether a kick of the tube may have taken effect after event ``since``."""

    def is_gone(self, conn: int) -> bool:
        """Return whether a client has ended its connection, or is about to."""

    def has_lost_a_waiter(self, since: int) -> bool:
        """Return whether a client that waited has gone after event ``since``."""


@dataclass(slots=True, eq=False)
class FollowedJob:
    """The knowledge of a job; None: unknown.

    ``first``: the event that showed it. ``pris``: priorities that it may have. ``is_fresh``: its
    priority and place are those of its put.
    """

    id: int
    first: int
    tube: str | None = None
    body: tuple[int, int] | None = None
    ttr: int | None = None
    delay: int | None = None
    pris: set[int] | None = None
    is_fresh: bool = False
    repriced: int = 0
    """The event by which a reply has given it another priority."""
    possible: list[Possibility] = field(default_factory=lambda: [UNKNOWN])
    pending: list[Request] = field(default_factory=list)
    blurred: list[Request] = field(default_factory=list)
    """Requests in flight whose effects are not followed: until they are answered, nor is it."""
    settled: int = 0
    """The last event by which its possibilities have changed."""
    was: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    """Earlier states that were possible up to an event."""
    ready_since: int = 0
    """The event from which it certainly is ready; 0 if that is not certain."""
    passed_over: object = None

    @property
    def states(self) -> frozenset[str]:
        """Return the states that it may be in, as far as they have been worked out."""
        return frozenset(one.state for one in self.possible)

    @property
    def label(self) -> str:
        """Return its state, if only one is possible."""
        first = self.possible[0].state
        if first == TAKEN:
            first = RESERVED
        return first if len(self.possible) == 1 else ANY

    def forget(self) -> None:
        """Let it be in any state, until all requests in flight are answered."""
        self.possible = [UNKNOWN]
        self.blurred += self.pending
        self.pending = []
        self.is_fresh = False
        self.ready_since = 0
        self.passed_over = None

    # ------------------------------------------------------------ what may have happened

    def reachable(self, around: Surroundings, but: Request | None = None) -> list[Possibility]:
        """Return all that may be by now; ``but`` is not applied yet.

        Raises :class:`TooManyPossibilities`.
        """
        found = dict.fromkeys(self._plausible(around))
        stack = list(found)
        while stack:
            for after in self._next(stack.pop(), around, but):
                if after not in found:
                    found[after] = None
                    stack.append(after)
                    if len(found) > MAX_POSSIBILITIES:
                        raise TooManyPossibilities
        return list(found)

    def _plausible(self, around: Surroundings) -> Iterator[Possibility]:
        """Yield the possibilities that later events have not excluded."""
        for one in self.possible:
            if (
                one.state != TAKEN
                or around.may_be_taken(self.tube, one.since)
                or around.has_lost_a_waiter(self.settled)
            ):
                yield one

    def _next(
        self, one: Possibility, around: Surroundings, but: Request | None
    ) -> Iterator[Possibility]:
        state, now, number = one.state, around.now, around.number
        if state in (GONE, ANY):
            pass
        elif state == READY:
            if around.may_be_taken(self.tube):
                soonest = 0 if self.ttr is None else one.soonest + self.ttr * SECOND
                yield one._replace(state=TAKEN, who=0, soonest=soonest, since=number)
        elif state == TAKEN:
            is_over = one.soonest <= now + EARLY
            if is_over or around.has_lost_a_waiter(self.settled):
                yield one._replace(state=READY, soonest=0, since=number)
        elif state == RESERVED:
            if one.soonest <= now + EARLY or around.is_gone(one.who):
                yield one._replace(state=READY, who=0, soonest=0, latest=0, since=number)
        elif (state == DELAYED and one.soonest <= now + EARLY) or around.may_be_kicked(
            self.tube, one.since
        ):
            yield one._replace(state=READY, soonest=0, latest=0, since=number)
        for request in self.pending:
            if request is not but and self._may_come(request, one):
                for word, after in self.answers(request, one, around):
                    yield after._replace(answers=one.answers | {(request, word)})

    def _may_come(self, request: Request, one: Possibility) -> bool:
        """Return whether a request has no effect yet, and all before it of its client have."""
        done = {answered for answered, _ in one.answers}
        return request not in done and not any(
            other.conn == request.conn and other.number < request.number and other not in done
            for other in self.pending
        )

    def answers(
        self, request: Request, one: Possibility, around: Surroundings
    ) -> Iterator[tuple[str, Possibility]]:
        """Yield what a request may be answered, and the possibility after it."""
        words = _WORDS[request.verb]
        if one.state == GONE:
            yield "NOT_FOUND", one
            return
        if one.state == ANY:
            columns: tuple[str, ...] = STATES
        elif one.state == TAKEN:
            columns = (RESERVED, _ANOTHERS)
        elif one.state == RESERVED:
            columns = (RESERVED if one.who == request.conn else _ANOTHERS,)
        else:
            columns = (one.state,)
        if request.verb == "delete":
            words = {
                column: word if column in around.deletes else "NOT_FOUND"
                for column, word in words.items()
            }
        if request.verb == "stats-job":
            # Its reply shows the state, too.
            for column in dict.fromkeys(column.partition(" ")[0] for column in columns):
                yield f"OK {column}", one
            columns = ()
        for word in dict.fromkeys(words[column] for column in columns):
            yield word, self._after(request, word, one, around)
            if word == "RELEASED":
                yield "BURIED", self._after(request, "BURIED", one, around)
        if one.state == ANY and "NOT_FOUND" not in words.values():
            yield "NOT_FOUND", one

    def _after(
        self, request: Request, word: str, one: Possibility, around: Surroundings
    ) -> Possibility:
        """Return the possibility after a request that was answered this way."""
        number, now = around.number, around.now
        ttr = (self.ttr or 0) * SECOND
        if word == "RELEASED" and request.delay:
            delay = request.delay * SECOND
            after = Possibility(DELAYED, 0, request.at + delay, now + delay, request.number)
        elif word == "RESERVED" or word == "TOUCHED":
            latest = now + ttr if ttr else 0
            after = Possibility(RESERVED, request.conn, request.at + ttr, latest, number)
        elif word in BECOMES:
            state = BECOMES[word]
            after = Possibility(state, 0, request.at if state == READY else 0, 0, request.number)
        else:
            return one
        return after._replace(answers=one.answers)

    # ------------------------------------------------------------ what was observed

    def asked(self, request: Request) -> None:
        """Note a request that names it."""
        (self.blurred or self.pending).append(request)
        if request.verb not in LOOKING:
            self.ready_since = 0
            self.passed_over = None
        if request.verb in ("release", "bury"):
            self.is_fresh = False
            if self.pris is not None:
                self.pris.add(request.pri)

    def has_priority_of(self, request: Request, number: int) -> None:
        """Note that a request has given it a priority, by event ``number``."""
        others = any(one.verb in ("release", "bury") for one in (*self.pending, *self.blurred))
        if others or self.repriced > request.number:
            if self.pris is not None:
                self.pris.add(request.pri)
        else:
            self.pris = {request.pri}
        self.repriced = number

    def answered(self, request: Request, word: str, around: Surroundings) -> bool:
        """Take the reply to a request that names it; return whether it is possible.

        This and what follows raise :class:`TooManyPossibilities`.
        """
        if request in self.blurred:
            self.blurred.remove(request)
            self.settled = around.number
            return True
        left = []
        others = len(self.pending) > 1
        reachable = self.reachable(around, request)
        for one in reachable:
            if not others and self._must_have_ended(one, request, around):
                continue
            given = [answer for answer in one.answers if answer[0] is request]
            if given:
                if given[0][1] == word:
                    left.append(one._replace(answers=one.answers - {given[0]}))
            elif self._may_come(request, one):
                answers = self.answers(request, one, around)
                left += [after for said, after in answers if said == word]
        self.pending.remove(request)
        return self._settle(reachable, left, around)

    def expires(self, request: Request, around: Surroundings) -> None:
        """Forget a request that will not be answered, and may have had its effect or not."""
        if request in self.blurred:
            self.blurred.remove(request)
            self.settled = around.number
        elif request in self.pending:
            reachable = self.reachable(around)
            self.pending.remove(request)
            left = [
                one._replace(answers=frozenset(it for it in one.answers if it[0] is not request))
                for one in reachable
            ]
            self._settle(reachable, left, around)

    def _must_have_ended(self, one: Possibility, request: Request, around: Surroundings) -> bool:
        """Return whether a delay was over when the request was sent."""
        is_known = one.state == DELAYED and one.latest > 0
        return is_known and one.latest + around.lateness < request.at

    def reserved(self, request: Request, around: Surroundings) -> bool:
        """Take the reply that gives it to a client that waited; return whether it is possible."""
        if self.blurred:
            self.settled = around.number
            return True
        ttr = (self.ttr or 0) * SECOND
        ends, latest = request.at + ttr, around.now + ttr if ttr else 0
        is_late = ends <= around.now + EARLY
        reachable = self.reachable(around)
        left = []
        for one in reachable:
            if one.state in (READY, ANY) or (one.state == TAKEN and request.number < one.since):
                held = one._replace(
                    state=RESERVED,
                    who=request.conn,
                    soonest=ends,
                    latest=latest,
                    since=around.number,
                )
                left.append(held)
        if is_late and (left or self._was(READY, request.number)):
            # The reply may be so late that its time to run is over, and another client had it.
            left += self.possible
        if any(other.conn == request.conn for other in self.pending):
            # Its client has named it before it could know that it has it.
            self.forget()
            return True
        return self._settle(reachable, left, around)

    def shown(self, state: str, request: Request, around: Surroundings) -> bool:
        """Take a reply that shows it in a state; return whether it is possible."""
        if self.blurred:
            return True
        reachable = self.reachable(around)
        left = [
            one._replace(state=state, since=request.number) if one.state == ANY else one
            for one in reachable
            if one.state in (state, ANY)
        ]
        if self.settled < request.number and left:
            # It may have changed since: what else is possible then follows from these.
            return self._settle(reachable, left, around)
        if left or self._was(state, request.number):
            return True
        self.forget()
        return False

    def _was(self, state: str, since: int) -> bool:
        """Return whether it may have been in a state at or after an event."""
        if len(self.was) == KEPT and self.was[0][0] >= since:
            # What was before is forgotten.
            return True
        return any(
            until >= since and (state in states or ANY in states) for until, states in self.was
        )

    def _settle(
        self, reachable: list[Possibility], left: list[Possibility], around: Surroundings
    ) -> bool:
        """Keep what is possible after a reply; if nothing is, the job is unknown."""
        self.was.append((around.number, frozenset(one.state for one in reachable)))
        if len(self.was) > KEPT:
            del self.was[0]
        self.settled = around.number
        if not left:
            self.forget()
            return False
        self.possible = list(dict.fromkeys(left)) if len(left) > 1 else left
        return True

    @property
    def is_gone(self) -> bool:
        """Return whether it certainly was deleted, and no request about it is in flight."""
        return not (self.pending or self.blurred) and all(
            one.state == GONE for one in self.possible
        )
