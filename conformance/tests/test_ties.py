"""Beside the text: timers that are due in the very same instant, as where clocks are coarse.

The clock of the target stands still while the timers are set, and ticks in milliseconds then.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect, NewTube
from conformance.dialogue.schedule import Timeline
from conformance.target.target import Target
from reference_server.wire import RESERVED, TIMED_OUT

SECONDS = 5
"""The length of all timers of a test."""


class PendingTimer(NamedTuple):
    """A timer of the target: how it is stopped, and how it is found that it has fired."""

    stop: Callable[[], object]
    expect_fired: Callable[[], object]


class Clients(NamedTuple):
    """The source of clients, each of which works on a tube of its own."""

    new_client: Connect
    new_tube: NewTube

    def alone(self) -> Connection:
        """Return a client on a tube that no other client uses."""
        client = self.new_client()
        before, client.tube = client.tube, self.new_tube()
        client.go_to(f"use {client.tube}", f"watch {client.tube}", f"ignore {before}")
        return client

    def beside(self, other: Connection) -> Connection:
        """Return a client that uses the tube of another one."""
        client = self.new_client()
        client.tube = other.tube
        client.use(client.tube)
        return client


SetTimer = Callable[[Clients], PendingTimer]
"""Sets a timer of one kind, on a tube of its own."""


def _timeout(clients: Clients) -> PendingTimer:
    worker = clients.alone()
    producer = clients.beside(worker)
    waiting = worker.tested.reserve_within(SECONDS)
    producer.linger()

    def serve() -> None:
        job = producer.put(b"a")
        waiting.expect_now(RESERVED(job, b"a"))
        worker.delete(job)

    return PendingTimer(serve, lambda: waiting.expect(TIMED_OUT))


def _timeout_of_one_that_leaves(clients: Clients) -> PendingTimer:
    worker = clients.alone()
    waiting = worker.tested.reserve_within(SECONDS)
    return PendingTimer(worker.reset, lambda: waiting.expect(TIMED_OUT))


def _ttr(clients: Clients) -> PendingTimer:
    holder = clients.alone()
    job = holder.put_and_reserve(ttr=SECONDS)

    def expect_ready() -> None:
        # That it does so while its holder is idle is another requirement.
        holder.synchronise()
        assert holder.state_of(job) == "ready"

    return PendingTimer(lambda: holder.delete(job), expect_ready)


def _delay(clients: Clients) -> PendingTimer:
    client = clients.alone()
    job = client.put(b"a", delay=SECONDS)

    def expect_ready() -> None:
        assert client.state_of(job) == "ready"

    return PendingTimer(lambda: client.kick_one("delayed"), expect_ready)


def _pause(clients: Clients) -> PendingTimer:
    worker = clients.alone()
    producer = clients.beside(worker)
    producer.pause(SECONDS)
    job = producer.put(b"a")
    waiting = worker.reserve_waiting()
    return PendingTimer(lambda: producer.pause(3600), lambda: waiting.expect(RESERVED(job, b"a")))


STOPPED: tuple[SetTimer, ...] = (
    _timeout,
    _timeout_of_one_that_leaves,
    _ttr,
    _delay,
    _pause,
)
"""The timers that are stopped beside others."""
ROUNDS = [(others, place) for others in (1, 2) for place in range(others + 1)]
"""The number of other timers, and the number of those set before the one that is stopped."""


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(
            _timeout,
            marks=requirement(
                "reserve.equal-timeouts",
                "If a non-negative timeout was specified and the timeout exceeded before a job "
                "became available, […] the server will respond with TIMED_OUT.",
            ),
            id="timeout",
        ),
        pytest.param(
            _ttr,
            marks=requirement(
                "put.equal-ttrs",
                "If the worker does not delete, release, or bury the job within <ttr> seconds, "
                "the job will time out and the server will release the job.",
            ),
            id="ttr",
        ),
        pytest.param(
            _delay,
            marks=requirement(
                "put.equal-delays",
                "<delay> is an integer number of seconds to wait before putting the job in the "
                "ready queue.",
            ),
            id="delay",
        ),
        pytest.param(
            _pause,
            marks=requirement(
                "pause-tube.equal-pauses",
                "<delay> is an integer number of seconds […] to wait before reserving any more "
                "jobs from the queue",
            ),
            id="pause",
        ),
    ],
)
def test_timers_of_the_same_instant(
    own_server: Target,
    new_client: Connect,
    new_tube: NewTube,
    clock: Timeline,
    kept: SetTimer,
) -> None:
    """Stop any of two or three timers; the others fire.

    A server that confuses timers may do so for as long as it runs.
    """
    clients = Clients(new_client, new_tube)
    for stopped, (others, place) in itertools.product(STOPPED, ROUNDS):
        kinds = [kept] * others
        kinds.insert(place, stopped)
        with clock.standing_still():
            timers = [set_timer(clients) for set_timer in kinds]
            timers.pop(place).stop()
            clock.advance(SECONDS)
        for timer in timers:
            timer.expect_fired()


@requirement(
    "reserve.expiry-while-holder-is-idle",
    "When the job times out, the server will put the job back into the ready queue.",
)
def test_a_ttr_ends_on_a_clock_that_shows_the_very_instant(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    with clock.standing_still():
        job = client.put_and_reserve(ttr=SECONDS)
        clock.advance(SECONDS)
    assert other.becomes(lambda: other.state_of(job) == "ready")
