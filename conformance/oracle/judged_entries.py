"""The messages of a transcript, judged one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from conformance.oracle.judge import Judge
from conformance.oracle.reply_comparison import NOTHING, Before
from conformance.oracle.violation import Violation
from conformance.transcript import LIMITED, RESTARTS, Counters, Entry
from conformance.verdict import Inconclusive
from reference_server.profiles import Profile

EVERY = 5_000
"""Messages between two words on progress."""


def first_violation(
    entries: Sequence[Entry],
    begins: Counters | None,
    profile: Profile,
    lenient: bool = False,
    progress: Callable[[float], object] = lambda share: None,
    before: Before = NOTHING,
) -> Violation | None:
    """Return the first violation that messages show; None if there is none.

    ``begins``: what the target had counted before; ``lenient``, ``before`` and Inconclusive are as
    with :class:`Judge`. ``progress`` is told now and then which share is done.
    """
    judge = Judge(profile, counters=begins, lenient=lenient, before=before)
    if begins is not None:
        # The connection that moves the clock, or that tests whether the target attends to it.
        judge.connect(-1)
    clients: dict[str, int] = {}
    numbers = itertools.count(1)
    for position, entry in enumerate(entries):
        if position % EVERY == 0:
            progress(position / len(entries))
        if entry.direction == "+":
            continue
        if entry.data == RESTARTS and not entry.connection:
            judge.restarted()
            clients.clear()
            continue
        if not entry.connection:
            if entry.data.endswith(LIMITED):
                told = entry.data.decode()
                raise Inconclusive(f"behind “{told}”, any command may fail: it is not judged")
            if entry.data == b"SIGUSR1":
                judge.drains(round(entry.time * 1e9))
            continue
        if entry.connection not in clients:
            clients[entry.connection] = next(numbers)
            judge.connect(clients[entry.connection])
        try:
            _take(judge, clients, entry, position)
        except Violation as violation:
            return violation
    return None


def _take(judge: Judge, clients: dict[str, int], entry: Entry, position: int) -> None:
    now, conn = round(entry.time * 1e9), clients[entry.connection]
    if entry.direction == ">":
        judge.sent(conn, entry.data, now)
    elif entry.direction == "<":
        judge.received(conn, entry.data, now, position)
        judge.rest(now, position)
    elif entry.data == b"half-closes":
        judge.half_close(conn, now)
    elif entry.data in (b"closes", b"resets", b"closed by the target"):
        # What follows under this name is another connection.
        del clients[entry.connection]
        if entry.data == b"closed by the target":
            judge.ended(conn, now, position)
        else:
            judge.close(conn, now)
