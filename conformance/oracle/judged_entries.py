"""Judges the messages of a transcript one after another."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.oracle.explanation import Explainer
from conformance.oracle.judge import Judge
from conformance.oracle.reply_comparison import NOTHING, Before
from conformance.oracle.reply_delays import LATENESS, ReplyDelays
from conformance.oracle.violation import Violation
from conformance.transcript import (
    AT_ONCE,
    CLIENT_CLOSES,
    CLIENT_HALF_CLOSES,
    CLIENT_RESETS,
    CONTINUES,
    LIMITED,
    RESTARTS,
    STOPS,
    TARGET_CLOSES,
    Counters,
    Entry,
)
from conformance.verdict import Inconclusive
from reference_server.profiles import Profile
from reference_server.state import KeptJob

Jobs = Sequence[KeptJob]
"""The jobs that a server had before."""
Look = Callable[[int, Judge, dict[str, int]], object]
"""Takes a position, the judge after that message, and the numbers of clients by name."""
EVERY = 5_000
"""Messages between two words on progress."""


@dataclass(frozen=True, slots=True)
class JudgedMessages:
    """The first violation that messages show, if any.

    ``awaited``: the replies that had not come at the end, when there was time for them yet.
    ``doubt``: why something that nobody has seen may explain the violation; empty if nothing may.
    """

    violation: Violation | None
    awaited: Sequence[str] = ()
    doubt: str = ""
    explanations: Sequence[str] = ()


def first_violation(
    entries: Sequence[Entry],
    begins: Counters | None,
    profile: Profile,
    lenient: bool = False,
    progress: Callable[[float], object] = lambda share: None,
    before: Before = NOTHING,
    look: Look = lambda position, judge, clients: None,
) -> Violation | None:
    """Return the first violation that messages show; None if there is none.

    ``look`` is called after each message. What is missing or late is no violation. Other parameters
    are as with :class:`JudgedEntries`.
    """
    judging = JudgedEntries(begins, profile, lenient, before)
    return judging.judged(entries, progress, look).violation


class JudgedEntries:
    """The judge of a transcript.

    ``begins``: what the target had counted before; ``lenient``, ``before``, ``earlier`` and
    Inconclusive are as with :class:`Judge`. ``pace``: the target's, if what is
    missing or late is a violation.
    """

    def __init__(
        self,
        begins: Counters | None,
        profile: Profile,
        lenient: bool = False,
        before: Before = NOTHING,
        pace: ReplyDelays | None = None,
        earlier: Jobs | None = None,
        explainer: Explainer | None = None,
    ) -> None:
        self._explainer = explainer
        self._judge = Judge(
            profile, counters=begins, lenient=lenient, before=before, pace=pace, earlier=earlier
        )
        self._is_timed = pace is not None
        self._last = self._looked = 0
        self._stopped: int | None = None
        """The time at which the target was stopped by a signal."""
        if begins is not None:
            # The connection that moves the clock, or that tests whether the target attends to it.
            self._judge.connect(-1)
        self._clients: dict[str, int] = {}
        self._ended: set[str] = set()
        """The clients of a server that was ended and started again, until that is observed."""
        self._numbers = itertools.count(1)

    def judged(
        self,
        entries: Sequence[Entry],
        progress: Callable[[float], object] = lambda share: None,
        look: Look = lambda position, judge, clients: None,
    ) -> JudgedMessages:
        """Judge all messages, and call ``look`` after each.

        ``progress`` is called now and then with the share that is done.
        """
        try:
            for position, entry in enumerate(entries):
                if position % EVERY == 0:
                    progress(position / len(entries))
                self._pass(entry, position)
                self._take(entry, position)
                look(position, self._judge, self._clients)
        except Violation as violation:
            return JudgedMessages(violation)
        awaited = tuple(self._judge.awaits(self._last))
        if self._explainer is not None:
            self._explainer.ended(self._judge.model)
        return JudgedMessages(None, awaited)

    def _pass(self, entry: Entry, position: int) -> None:
        """Let time pass up to an entry, and judge what is missing then."""
        now = round(entry.time * 1e9)
        is_time = entry.direction == "+"
        if is_time and entry.data == AT_ONCE and now > self._last:
            self._jump(self._last, now)
        self._last = now
        if self._is_timed and self._stopped is None and now - self._looked >= LATENESS:
            self._looked = now
            self._judge.overdue(now, position if is_time else position - 1)

    def _jump(self, before: int, now: int) -> None:
        self._judge.moved(before, now)
        self._looked += now - before

    def _take(self, entry: Entry, position: int) -> None:
        if entry.direction == "+":
            return
        if entry.connection:
            self._take_message(entry, position)
        elif entry.data == RESTARTS:
            self._judge.restarted()
            self._ended |= self._clients.keys()
            self._clients.clear()
        elif entry.data.endswith(LIMITED):
            limit = entry.data.decode()
            raise Inconclusive(f"after “{limit}”, any command may fail: it is not judged")
        elif entry.data == b"SIGUSR1":
            self._judge.drains(round(entry.time * 1e9))
        elif entry.data == STOPS:
            self._stopped = self._last
        elif entry.data == CONTINUES and self._stopped is not None:
            # To the target, it is as if its clock had been moved.
            self._jump(self._stopped, self._last)
            self._stopped = None

    def _take_message(self, entry: Entry, position: int) -> None:
        judge = self._judge
        if entry.connection in self._ended and entry.direction == "!":
            # It has ended with the server.
            return
        if entry.connection not in self._clients:
            self._ended.discard(entry.connection)
            self._clients[entry.connection] = next(self._numbers)
            judge.connect(self._clients[entry.connection])
        now, conn = round(entry.time * 1e9), self._clients[entry.connection]
        if entry.direction == ">":
            judge.sent(conn, entry.data, now)
            if self._explainer is not None:
                self._explainer.sent(conn, entry.connection, entry.data)
        elif entry.direction == "<":
            replies = judge.received(conn, entry.data, now, position).all
            if self._explainer is not None:
                self._explainer.received(conn, replies, judge.model)
            judge.rest(now, position)
        elif entry.data == CLIENT_HALF_CLOSES:
            judge.half_close(conn, now)
        elif entry.data in (CLIENT_CLOSES, CLIENT_RESETS, TARGET_CLOSES):
            # What follows under this name is another connection.
            del self._clients[entry.connection]
            if entry.data == TARGET_CLOSES:
                judge.ended(conn, now, position)
            else:
                judge.close(conn, now)
