"""Departures: the ways in which clients leave a server, each in each state that they may be in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from conformance.dialogue.connection import Connection
from conformance.dialogue.growth import LONG
from conformance.dialogue.scenario import Connect
from conformance.target.target import Target

WAITS, HOLDS, UNREAD_REPLIES = "waits for a job", "holds a job", "has unread replies"
OWN_TUBE, LONG_LINE = "uses a tube that ends with it", "is in the middle of a line that is too long"
"""States of clients."""
TOO_LONG = 500
"""Bytes of a line that no profile allows."""
UNREAD, SIZE = 100, 60_000
"""Replies that a client does not read, more than systems keep for it, and their bytes."""


class DepartingClient(NamedTuple):
    """A client in this state that leaves in this way."""

    state: str
    way: str

    def __str__(self) -> str:
        return f"a client that {self.state} and {self.way}"


def _is_idle(_: Connection, __: int) -> None:
    pass


def _waits(client: Connection, _: int) -> None:
    client.reserve_waiting()


def _breaks_a_line(client: Connection, _: int) -> None:
    client.raw(b"put 0 0", replies=0)


def _breaks_a_long_line(client: Connection, _: int) -> None:
    client.raw(b"x" * TOO_LONG, replies=0)


def _breaks_a_body(client: Connection, _: int) -> None:
    client.raw(b"put 0 0 60 100\r\nabc", replies=0)


def _does_not_read(client: Connection, job: int) -> None:
    client.transport.keep_little()
    client.transport.send(b"peek %d\r\n" % job * UNREAD)


def _has_a_tube(client: Connection, _: int) -> None:
    client.go_to("use departures", "watch departures", "ignore default")


def _holds_a_job(client: Connection, _: int) -> None:
    # In default, it would come to those that wait.
    client.go_to("use held", "watch held", "ignore default")
    client.put(ttr=LONG)
    client.take_job()


_STATES: Mapping[str, Callable[[Connection, int], None]] = {
    WAITS: _waits,
    UNREAD_REPLIES: _does_not_read,
    "is idle": _is_idle,
    "is in the middle of a line": _breaks_a_line,
    LONG_LINE: _breaks_a_long_line,
    "is in the middle of a body": _breaks_a_body,
    OWN_TUBE: _has_a_tube,
    HOLDS: _holds_a_job,
}
_UNFINISHED = frozenset((WAITS, "is in the middle of a line", LONG_LINE))
"""The states in which no command is handled, and those in which none begins."""


def _quits(client: Connection) -> None:
    client.raw(b"quit\r\n", replies=0)


def _half_closes_and_closes(client: Connection) -> None:
    client.half_close()
    client.close()


_WAYS: Mapping[str, Callable[[Connection], None]] = {
    "closes": Connection.close,
    "resets the connection": Connection.reset,
    "half-closes": Connection.half_close,
    "half-closes, then closes": _half_closes_and_closes,
    "quits": _quits,
}


def departures(server: Target) -> Sequence[DepartingClient]:
    """Return all departures that a server's profile and traits allow."""
    profile, traits = server.profile, server.traits
    states = set(_STATES)
    if not profile.has_tubes:
        states -= {OWN_TUBE, HOLDS}
    if not (traits.pipelines and server.takes(SIZE)):
        states.discard(UNREAD_REPLIES)
    return [
        DepartingClient(state, way)
        for state, way in product(_STATES, _WAYS)
        if state in states
        and not (way == "quits" and (state in _UNFINISHED or "quit" not in profile.commands))
    ]


class Departing:
    """Clients that are about to leave: one for each of the departures."""

    def __init__(self, chosen: Sequence[DepartingClient], connect: Connect) -> None:
        job = 0
        if any(departure.state == UNREAD_REPLIES for departure in chosen):
            job = connect().put(b"0123456789" * (SIZE // 10), delay=LONG)
        self._clients = [(departure, connect()) for departure in chosen]
        for departure, client in self._clients:
            # It has to be accepted before the server gets no more descriptors.
            client.synchronise()
            _STATES[departure.state](client, job)

    def leave(self) -> None:
        """Let one after the other depart."""
        for departure, client in self._clients:
            _WAYS[departure.way](client)

    def close(self) -> None:
        """Close all connections that are still open."""
        for _, client in self._clients:
            if not client.stopped:
                client.close()
