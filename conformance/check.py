"""Judges a recorded transcript with the oracle, without any target."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from conformance.judge import Judge
from conformance.oracle import Violation
from conformance.transcript import Entry, Transcript
from reference_server.profiles import Profile


@dataclass(frozen=True, slots=True)
class Finding:
    """The first message of a transcript that is not allowed, by its position."""

    position: int
    expected: str
    observed: str


def check(transcript: Transcript, profile: Profile) -> Finding | None:
    """What is not allowed in a transcript; None if all is. Raises Inconclusive."""
    judge = Judge(profile)
    clients: dict[str, int] = {}
    numbers = itertools.count(1)
    for position, entry in enumerate(transcript.entries):
        if entry.direction == "+":
            continue
        if entry.connection not in clients:
            clients[entry.connection] = next(numbers)
            judge.connect(clients[entry.connection])
        try:
            _take(judge, clients, entry, position)
        except Violation as violation:
            expected = " or ".join(violation.expected)
            return Finding(violation.mark, expected, violation.observed)
    return None


def _take(judge: Judge, clients: dict[str, int], entry: Entry, position: int) -> None:
    now, conn = round(entry.time * 1e9), clients[entry.connection]
    if entry.direction == ">":
        judge.sent(conn, entry.data, now)
    elif entry.direction == "<":
        judge.received(conn, entry.data, now, position)
    elif entry.data == b"half-closes":
        judge.half_close(conn, now)
    elif entry.data in (b"closes", b"closed by the target"):
        # What follows under this name is another connection.
        del clients[entry.connection]
        if entry.data == b"closes":
            judge.close(conn, now)
        else:
            judge.ended(conn, now, position)
