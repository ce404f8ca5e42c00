"""Judges a recorded transcript with the oracle, without any target."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.oracle import Oracle, Violation
from conformance.transcript import Entry, Transcript
from reference_server.profiles import Profile
from reference_server.wire import ProtocolError, ReplyReader


@dataclass(frozen=True, slots=True)
class Finding:
    """The first message of a transcript that is not allowed, by its position."""

    position: int
    expected: str
    observed: str


def check(transcript: Transcript, profile: Profile) -> Finding | None:
    """What is not allowed in a transcript; None if all is. Raises Inconclusive."""
    oracle = Oracle(profile)
    clients: dict[str, int] = {}
    readers: dict[str, ReplyReader] = {}
    for position, entry in enumerate(transcript.entries):
        if entry.direction == "+":
            continue
        if entry.connection not in clients:
            clients[entry.connection] = len(clients) + 1
            readers[entry.connection] = ReplyReader()
            oracle.connect(clients[entry.connection], round(entry.time * 1e9))
        try:
            _take(oracle, clients, readers, entry)
        except Violation as violation:
            return Finding(position, " or ".join(violation.expected), violation.observed)
        except ProtocolError as error:
            return Finding(position, "a reply of the protocol", str(error))
    return None


def _take(
    oracle: Oracle, clients: dict[str, int], readers: dict[str, ReplyReader], entry: Entry
) -> None:
    now, conn = round(entry.time * 1e9), clients[entry.connection]
    if entry.direction == ">":
        oracle.sent(conn, entry.data, now)
    elif entry.direction == "<":
        reader = readers[entry.connection]
        reader.receive(entry.data)
        while (reply := reader.next_reply()) is not None:
            oracle.received(conn, reply, now)
    elif entry.data == b"closes":
        oracle.close(conn, now)
    elif entry.data == b"half-closes":
        oracle.half_close(conn, now)
    elif entry.data == b"closed by the target":
        oracle.ended(conn, now)
