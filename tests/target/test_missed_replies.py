"""The attendant of a server that hangs: how long it waits, and the replies that it missed."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from conformance.target.clock import _OFTEN as OFTEN
from conformance.target.clock import Attendant

LIMIT = 0.4
"""Seconds that a reply may take."""
BRIEF = 0.1
TRIES = 20


class Halting:
    """A server of one client that answers each line, but nothing while it is held."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self.goes_on = threading.Event()
        self.goes_on.set()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        with client, client.makefile("rb") as lines:
            for _ in lines:
                self.goes_on.wait()
                client.sendall(b"USING default\r\n")

    def close(self) -> None:
        """Let go of whoever is there."""
        self.goes_on.set()
        self._listener.close()


@pytest.fixture
def server() -> Iterator[Halting]:
    """Yield a server that can be held."""
    halting = Halting()
    yield halting
    halting.close()


@pytest.fixture
def attendant(server: Halting) -> Iterator[Attendant]:
    """Yield the attendant of that server."""
    made = Attendant()
    made.watch(server.address, LIMIT, b"list-tube-used")
    yield made
    server.goes_on.set()
    made.close()


def _seconds_of(synchronise: Callable[[], bool]) -> float:
    begun = time.monotonic()
    assert not synchronise()
    return time.monotonic() - begun


def test_replies_that_were_missed_are_not_taken_for_later_ones(
    server: Halting, attendant: Attendant
) -> None:
    assert attendant.synchronise()
    server.goes_on.clear()
    for _ in range(Attendant.ROUND_TRIPS):
        assert not attendant.synchronise()
    server.goes_on.set()
    # A busy machine may take longer than what is left of the timeout.
    assert any(attendant.synchronise() for _ in range(TRIES))
    server.goes_on.clear()
    assert not attendant.synchronise()


def test_a_server_that_has_hung_often_is_waited_for_less(
    server: Halting, attendant: Attendant
) -> None:
    waits: list[float] = []
    # On a busy machine, a wait may prove nothing.
    while len(waits) < TRIES and min(waits, default=LIMIT) >= LIMIT:
        server.goes_on.clear()
        waits.append(_seconds_of(attendant.synchronise))
        server.goes_on.set()
        assert any(attendant.synchronise() for _ in range(TRIES))
    assert OFTEN < len(waits) < TRIES


def test_who_waits_briefly_learns_nothing(server: Halting, attendant: Attendant) -> None:
    server.goes_on.clear()
    brief = [_seconds_of(lambda: attendant.synchronise(BRIEF)) for _ in range(TRIES)]
    assert min(brief) < LIMIT
    assert _seconds_of(attendant.synchronise) >= LIMIT
