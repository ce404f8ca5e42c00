"""Beside the text: somebody sets the wall clock of the machine, and no duration changes.

The text counts in seconds; a second is as long as it was when the clock shows another hour or day.
"""

from __future__ import annotations

import pytest

from conformance.catalogue import configured, requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect
from conformance.dialogue.schedule import Timeline
from conformance.target.target import Target
from conformance.target.wall_clock import SETTABLE
from reference_server.wire import RESERVED, TIMED_OUT

LONG = 1000
"""Seconds of a timer that does not end during a test."""
is_settable = configured(**{SETTABLE: True})
back_or_forward = pytest.mark.parametrize("sign", [-1, 1], ids=["back", "forward"])


def _set(server: Target, sign: int, client: Connection) -> None:
    """Set the clock by an hour, and then by a day, while a client talks with the server."""
    for seconds in (3600, 86400):
        server.set_wall_clock(sign * seconds)
        client.linger()


@requirement(
    "put.delay-after-clock-change",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue.",
)
@is_settable
@back_or_forward
def test_a_delay_ends_as_if_nobody_had_set_the_clock(
    own_server: Target, client: Connection, worker: Connection, real_clock: Timeline, sign: int
) -> None:
    job = client.put(b"a", delay=1)
    waiting = worker.reserve_waiting()
    _set(own_server, sign, client)
    real_clock.advance(1)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "put.ttr-after-clock-change",
    "If the worker does not delete, release, or bury the job within <ttr> seconds, the job will "
    "time out and the server will release the job.",
)
@is_settable
@back_or_forward
def test_a_ttr_ends_as_if_nobody_had_set_the_clock(
    own_server: Target, client: Connection, worker: Connection, real_clock: Timeline, sign: int
) -> None:
    job = client.put_and_reserve(ttr=1)
    waiting = worker.reserve_waiting()
    _set(own_server, sign, client)
    real_clock.advance(1)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "reserve.timeout-after-clock-change",
    "A positive value of timeout will limit the amount of time the client will block on the "
    "reserve request until a job becomes available.",
)
@is_settable
@back_or_forward
def test_a_timeout_ends_as_if_nobody_had_set_the_clock(
    own_server: Target, client: Connection, worker: Connection, real_clock: Timeline, sign: int
) -> None:
    waiting = worker.tested.reserve_within(1)
    _set(own_server, sign, client)
    real_clock.advance(1)
    waiting.expect(TIMED_OUT)


@requirement(
    "pause-tube.end-after-clock-change",
    "<delay> is an integer number of seconds […] to wait before reserving any more jobs from "
    "the queue",
)
@is_settable
@back_or_forward
def test_a_pause_ends_as_if_nobody_had_set_the_clock(
    own_server: Target, client: Connection, worker: Connection, real_clock: Timeline, sign: int
) -> None:
    client.pause(1)
    job = client.put(b"a")
    waiting = worker.reserve_waiting()
    _set(own_server, sign, client)
    real_clock.advance(1)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "stats-job.age-after-clock-change",
    '"age" is the time in seconds since the put command that created this job.',
)
@is_settable
@back_or_forward
def test_a_job_is_as_old_as_if_nobody_had_set_the_clock(
    own_server: Target, client: Connection, real_clock: Timeline, sign: int
) -> None:
    job = client.put(b"a")
    _set(own_server, sign, client)
    age = client.stats_job(job).number("age")
    assert 0 <= age <= real_clock.now() + 1


@requirement(
    "stats-job.time-left-after-clock-change",
    '"time-left" is the number of seconds left until the server puts this job into the ready '
    "queue. This number is only meaningful if the job is reserved or delayed.",
)
@is_settable
@back_or_forward
def test_a_job_is_delayed_as_long_as_if_nobody_had_set_the_clock(
    own_server: Target, client: Connection, real_clock: Timeline, sign: int
) -> None:
    job = client.put(b"a", delay=LONG)
    _set(own_server, sign, client)
    time_left = client.stats_job(job).number("time-left")
    least = LONG - real_clock.now() - 1
    assert least <= time_left <= LONG


@requirement(
    "stats-tube.pause-time-left-after-clock-change",
    '"pause-time-left" is the number of seconds until the tube is un-paused.',
)
@is_settable
@back_or_forward
def test_a_tube_is_paused_as_long_as_if_nobody_had_set_the_clock(
    own_server: Target, client: Connection, real_clock: Timeline, sign: int
) -> None:
    client.pause(LONG)
    _set(own_server, sign, client)
    pause_time_left = client.stats_tube().number("pause-time-left")
    least = LONG - real_clock.now() - 1
    assert least <= pause_time_left <= LONG


@requirement(
    "stats.uptime-after-clock-change",
    '"uptime" is the number of seconds since this server process started running.',
)
@is_settable
@back_or_forward
def test_a_server_runs_as_long_as_if_nobody_had_set_the_clock(
    own_server: Target, client: Connection, real_clock: Timeline, sign: int
) -> None:
    _set(own_server, sign, client)
    uptime = client.stats().number("uptime")
    _, most = own_server.age()
    assert 0 <= uptime <= most + 1


@requirement(
    "persistence.age-after-clock-change",
    "All integers in the protocol are formatted in decimal and (unless otherwise indicated) "
    "nonnegative.",
)
@configured(binlog=True, **{SETTABLE: True})
def test_no_job_is_younger_than_new_where_the_clock_was_set_back_before_a_restart(
    own_server: Target, client: Connection, new_client: Connect, real_clock: Timeline
) -> None:
    job = client.put(b"a", delay=LONG)
    _set(own_server, -1, client)
    own_server.restart()
    age = new_client().stats_job(job).number("age")
    assert 0 <= age <= real_clock.now() + 1
