"""Many clients of one test, which connect one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect


def gather(
    turns: Iterator[int], new: Connect, ask: Callable[[Connection], object]
) -> list[Connection]:
    """Return new clients, each of which has been asked something, one for each turn."""
    crowd: list[Connection] = []
    for _ in turns:
        client = new()
        ask(client)
        crowd.append(client)
    return crowd


def served(crowd: list[Connection]) -> list[Connection]:
    """Return the clients that are owed nothing."""
    for client in crowd:
        client.poll()
    return [client for client in crowd if not client.is_owed]
