"""Beside the text: times of which a product overflows, and clients that live for hours or months.

The clock is moved where it can be, and a month takes no longer than a second.
"""

from __future__ import annotations

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect, NewTube
from conformance.dialogue.schedule import Timeline
from reference_server.wire import BAD_FORMAT, RESERVED

JUST_ABOVE = [first + more for first in (2148, 4295, 2_147_484, 4_294_968) for more in (0, 1)]
"""Seconds of which 10^6 or 10^3 times as much is just above 2^31 or 2^32."""
WRAPPED = 1
"""Seconds within which most of these times end if they are taken modulo 2^31 or 2^32."""
LONG = [
    pytest.param(3 * 3600, id="three hours"),
    pytest.param(86_400, id="a day"),
    pytest.param(30 * 86_400, id="a month"),
]
SPANS = pytest.mark.parametrize("span", LONG)


@requirement(
    "reserve.long-timeout",
    "If a non-negative timeout was specified and the timeout exceeded before a job became "
    "available, […] the server will respond with TIMED_OUT.",
)
def test_timeouts_of_which_a_product_overflows(new_worker: Connect, clock: Timeline) -> None:
    waiting = [new_worker().tested.reserve_within(seconds) for seconds in JUST_ABOVE]
    clock.advance(WRAPPED)
    for exchange in waiting:
        exchange.is_pending()


@requirement(
    "reserve.longest-timeout",
    "A positive value of timeout will limit the amount of time the client will block on the "
    "reserve request until a job becomes available.",
)
@pytest.mark.parametrize("seconds", [9_223_372_037, 9_223_372_038])
def test_a_timeout_of_more_nanoseconds_than_63_bits_hold(
    worker: Connection, producer: Connection, seconds: int
) -> None:
    waiting = worker.tested.reserve_within(seconds)
    producer.linger()
    job = producer.put(b"a")
    waiting.expect(RESERVED(job, b"a"), BAD_FORMAT)


@requirement(
    "put.long-delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue.",
)
def test_delays_of_which_a_product_overflows(client: Connection, clock: Timeline) -> None:
    jobs = [client.put(b"a", delay=seconds) for seconds in JUST_ABOVE]
    clock.advance(WRAPPED)
    for job in jobs:
        assert client.state_of(job) == "delayed"


@requirement(
    "put.long-ttr",
    "If the worker does not delete, release, or bury the job within <ttr> seconds, the job will "
    "time out and the server will release the job.",
)
def test_ttrs_of_which_a_product_overflows(
    client: Connection, new_client: Connect, new_tube: NewTube, clock: Timeline
) -> None:
    jobs = []
    for seconds in JUST_ABOVE:
        # A job that is ready again must not come in the way of the next.
        holder, tube = new_client(), new_tube()
        holder.go_to(f"use {tube}", f"watch {tube}", f"ignore {holder.tube}")
        jobs.append(holder.put_and_reserve(ttr=seconds))
    clock.advance(WRAPPED)
    for job in jobs:
        assert client.state_of(job) == "reserved"


@requirement(
    "pause-tube.long-pause",
    "<delay> is an integer number of seconds […] to wait before reserving any more jobs from "
    "the queue",
)
def test_pauses_of_which_a_product_overflows(
    client: Connection, new_tube: NewTube, clock: Timeline
) -> None:
    for seconds in JUST_ABOVE:
        tube = new_tube()
        client.go_to(f"use {tube}", f"watch {tube}")
        client.put(b"a")
        client.pause(seconds, tube)
    clock.advance(WRAPPED)
    client.finds_no_job()


@requirement(
    "reserve.after-long-wait",
    "If no job is available to be reserved, beanstalkd will wait to send a response until one "
    "becomes available.",
)
@SPANS
def test_a_client_that_has_waited_long_is_served(
    worker: Connection, producer: Connection, clock: Timeline, span: int
) -> None:
    waiting = worker.reserve_waiting()
    clock.advance(span)
    waiting.is_pending()
    job = producer.put(b"a")
    waiting.expect_now(RESERVED(job, b"a"))


@requirement(
    "touch.for-a-long-time",
    "The command postpones the auto release of a reserved job until TTR seconds from when the "
    "command is issued.",
)
@SPANS
def test_a_job_is_held_as_long_as_its_holder_touches_it(
    client: Connection, other: Connection, clock: Timeline, span: int
) -> None:
    job = client.put_and_reserve(ttr=span)
    for _ in range(3):
        clock.advance(span * 3 // 4)
        client.tested.touch(job)
    assert other.state_of(job) == "reserved"
    clock.advance(span)
    other.comes_back(job)


@requirement(
    "protocol.silent-for-a-long-time",
    "simply close the TCP connection when it no longer has use for the server.",
)
@pytest.mark.parametrize("span", [pytest.param(3, id="three seconds"), *LONG])
def test_a_client_that_was_silent_for_long_is_served(
    client: Connection, other: Connection, clock: Timeline, span: int
) -> None:
    job = client.put_and_reserve(pri=1, ttr=2 * span)
    clock.leave_alone(span)
    client.tested.delete(job)
    job = other.put(b"a")
    client.tested.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "pause-tube.ends-after-a-long-time",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
@SPANS
def test_a_long_pause_ends(
    client: Connection, worker: Connection, clock: Timeline, span: int
) -> None:
    client.pause(span)
    job = client.put(b"a")
    waiting = worker.reserve_waiting()
    clock.advance(span - 1)
    waiting.is_pending()
    clock.advance(1)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "bury.untouched-for-a-long-time",
    "Buried jobs are put into a FIFO linked list and will not be touched by the server again "
    'until a client kicks them with the "kick" command.',
)
@SPANS
def test_a_job_stays_buried_for_long(client: Connection, clock: Timeline, span: int) -> None:
    job = client.put_and_bury()
    clock.advance(span)
    assert client.state_of(job) == "buried"
    client.kick_one()
    client.reserve().expect(RESERVED(job, b"a"))
