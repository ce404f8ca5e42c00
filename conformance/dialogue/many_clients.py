"""Many clients of one test: they connect one after another, up to the limit of the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect
from conformance.verdict import Deviation, NotTestable, TargetLost


def gather(
    turns: Iterator[int], new: Connect, ask: Callable[[Connection], object]
) -> list[Connection]:
    """Return new clients, each of which has been asked something, one for each turn.

    No text says how many clients a target serves at the same time: raises NotTestable if it serves
    no more of them, and goes on with the first.
    """
    crowd: list[Connection] = []
    for _ in turns:
        try:
            client = new()
            ask(client)
        except Deviation as error:
            if not crowd or not (isinstance(error, TargetLost) or error.marked is None):
                raise
            for other in crowd[1:]:
                other.close()
            if not crowd[0].is_served():
                raise
            count = len(crowd)
            raise NotTestable(f"the target serves {count} clients at the same time") from error
        crowd.append(client)
    return crowd


def served(crowd: list[Connection]) -> list[Connection]:
    """Return the clients that are owed nothing."""
    for client in crowd:
        client.poll()
    return [client for client in crowd if not client.is_owed]
