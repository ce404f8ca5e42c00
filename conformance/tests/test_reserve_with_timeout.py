"""Section "Worker Commands", continued: reserve-with-timeout."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.schedule import Timeline
from reference_server.wire import (
    DEADLINE_SOON,
    RESERVED,
    TIMED_OUT,
)


@requirement(
    "reserve.timeout-zero",
    "A timeout value of 0 will cause the server to immediately return either a response or "
    "TIMED_OUT.",
)
def test_a_timeout_of_zero_answers_at_once(client: Connection) -> None:
    client.send("reserve-with-timeout 0").expect(TIMED_OUT)
    job = client.put(b"a")
    client.send("reserve-with-timeout 0").expect(RESERVED(job, b"a"))


@requirement(
    "reserve.longest-timeout",
    "A positive value of timeout will limit the amount of time the client will block on the "
    "reserve request until a job becomes available.",
)
def test_a_timeout_of_31_bits(worker: Connection, producer: Connection) -> None:
    waiting = worker.tested.reserve_within(2**31 - 1)
    producer.linger()
    waiting.is_pending()
    job = producer.put(b"a")
    assert waiting.reply("RESERVED").args[0] == job


@requirement(
    "reserve.timeout-limits-wait",
    "A positive value of timeout will limit the amount of time the client will block on the "
    "reserve request until a job becomes available.",
)
def test_a_job_that_comes_in_time_is_given(
    worker: Connection, producer: Connection, clock: Timeline
) -> None:
    waiting = worker.tested.reserve_within(3)
    clock.advance(1)
    waiting.is_pending()
    job = producer.put(b"a")
    waiting.expect_now(RESERVED(job, b"a"))
    clock.advance(3)
    worker.send("list-tube-used").reply("USING")


@requirement(
    "reserve.timed-out",
    "If a non-negative timeout was specified and the timeout exceeded before a job became "
    "available, […] the server will respond with TIMED_OUT.",
)
@pytest.mark.parametrize("timeout", [1, 2, 3])
def test_a_reserve_times_out(worker: Connection, clock: Timeline, timeout: int) -> None:
    waiting = worker.tested.reserve_within(timeout)
    clock.advance(timeout)
    waiting.expect(TIMED_OUT)


@requirement(
    "reserve.timed-out",
    "If a non-negative timeout was specified and the timeout exceeded before a job became "
    "available, […] the server will respond with TIMED_OUT.",
)
def test_a_reserve_times_out_where_nothing_else_happens(
    worker: Connection, real_clock: Timeline
) -> None:
    waiting = worker.tested.reserve_within(1)
    real_clock.advance(1)
    waiting.expect(TIMED_OUT)


@requirement(
    "reserve.long-timeout",
    "If a non-negative timeout was specified and the timeout exceeded before a job became "
    "available, […] the server will respond with TIMED_OUT.",
)
def test_a_long_timeout(worker: Connection, clock: Timeline) -> None:
    waiting = worker.tested.reserve_within(86400)
    clock.advance(86399)
    waiting.is_pending()
    clock.advance(1)
    waiting.expect(TIMED_OUT)


@requirement(
    "reserve.timed-out",
    "If a non-negative timeout was specified and the timeout exceeded before a job became "
    "available, […] the server will respond with TIMED_OUT.",
)
def test_a_timeout_that_ends_before_the_margin(client: Connection, clock: Timeline) -> None:
    client.put_and_reserve(ttr=4)
    waiting = client.tested.reserve_within(1)
    clock.advance(1)
    waiting.expect(TIMED_OUT)
    waiting = client.wait_for_margin()
    clock.advance(2)
    waiting.expect(DEADLINE_SOON)
