"""Section "Producer Commands", continued: the TTR of put, and its expiry."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect
from conformance.dialogue.schedule import Timeline
from conformance.target.target import Target
from conformance.verdict import Deviation
from reference_server.wire import (
    NOT_FOUND,
    RESERVED,
)


@requirement(
    "put.ttr-from-reservation",
    "This time is counted from the moment a worker reserves this job.",
)
def test_the_ttr_is_counted_from_the_reservation(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put(b"a", pri=1, ttr=2)
    clock.advance(2)
    client.hold(job)
    same = client.put_and_reserve(ttr=2)
    clock.advance(1)
    assert other.state_of(job) == "reserved"
    clock.advance(1)
    other.comes_back(same)
    assert other.state_of(job) == "ready"


@requirement(
    "put.ttr-from-reservation",
    "This time is counted from the moment a worker reserves this job.",
)
def test_a_second_reservation_has_the_whole_ttr(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put_and_reserve(ttr=2)
    clock.advance(1)
    client.release(job, pri=1)
    client.hold(job)
    same = client.put_and_reserve(ttr=2)
    clock.advance(1)
    assert other.state_of(job) == "reserved"
    clock.advance(1)
    other.comes_back(same)
    assert other.state_of(job) == "ready"


@requirement(
    "reserve.expired-job-is-ready",
    "When the job times out, the server will put the job back into the ready queue.",
)
@requirement(
    "put.ttr-expiry-releases",
    "If the worker does not delete, release, or bury the job within <ttr> seconds, the job "
    "will time out and the server will release the job.",
)
def test_a_job_is_ready_again_when_its_ttr_is_over(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put_and_reserve(ttr=2)
    clock.advance(1)
    other.finds_no_job()
    clock.advance(1)
    assert other.state_of(job) == "ready"
    other.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "reserve.expired-job-is-ready",
    "When the job times out, the server will put the job back into the ready queue.",
)
@requirement(
    "put.ttr-expiry-releases",
    "If the worker does not delete, release, or bury the job within <ttr> seconds, the job "
    "will time out and the server will release the job.",
)
def test_a_client_that_waits_gets_a_job_when_its_ttr_is_over(
    client: Connection, worker: Connection, clock: Timeline
) -> None:
    job = client.put_and_reserve(ttr=1)
    waiting = worker.reserve_waiting()
    clock.advance(1)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "put.ttr-expiry-releases",
    "If the worker does not delete, release, or bury the job within <ttr> seconds, the job "
    "will time out and the server will release the job.",
)
@pytest.mark.parametrize("how", ["delete", "release", "bury"])
def test_a_job_that_was_let_go_does_not_time_out(
    client: Connection, other: Connection, clock: Timeline, how: str
) -> None:
    job = client.put_and_reserve(ttr=1)
    match how:
        case "delete":
            client.delete(job)
            other.confirm(f"stats-job {job}", "NOT_FOUND", "delete.entirely")
        case "release":
            client.release(job)
        case "bury":
            client.bury(job)
    clock.advance(1)
    if how == "delete":
        other.observe(f"stats-job {job}").expect(NOT_FOUND)
        return
    stats = other.stats_job(job)
    assert stats["timeouts"] == "0"
    assert stats["state"] == ("ready" if how == "release" else "buried")


@requirement(
    "put.ttr-expiry-releases",
    "If the worker does not delete, release, or bury the job within <ttr> seconds, the job "
    "will time out and the server will release the job.",
)
def test_several_jobs_of_a_client_time_out_each_in_its_time(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    jobs = [client.put(b"a", pri=9 - ttr, ttr=ttr) for ttr in (3, 2)]
    for job in jobs:
        client.hold(job)
    clock.advance(1)
    for expired in reversed(jobs):
        waiting = other.reserve_waiting()
        clock.advance(1)
        waiting.expect(RESERVED(expired, b"a"))
        other.delete(expired)


@requirement(
    "put.ttr-zero-becomes-one",
    "The minimum ttr is 1. If the client sends 0, the server will silently increase the ttr to 1.",
)
def test_a_ttr_of_zero_becomes_one(client: Connection) -> None:
    job = client.tested.put(b"a", ttr=0)
    assert client.stats_job(job)["ttr"] == "1"


@requirement(
    "put.ttr-zero-becomes-one",
    "The minimum ttr is 1. If the client sends 0, the server will silently increase the ttr to 1.",
)
def test_a_ttr_of_zero_lasts_a_second(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.tested.put(b"a", pri=1, ttr=0)
    client.hold(job)
    assert other.state_of(job) == "reserved"
    same = other.put_and_reserve(ttr=1)
    clock.advance(1)
    other.comes_back(same)
    assert other.state_of(job) == "ready"


@requirement("put.ttr-limit", "Maximum ttr is 2**32-1.")
def test_the_longest_ttr(
    own_server: Target, client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put_and_reserve(ttr=2**32 - 1)
    clock.advance(2**32 - 10)
    assert other.state_of(job) == "reserved"
    clock.advance(10)
    assert other.state_of(job) == "ready"


@requirement(
    "reserve.expiry-keeps-place",
    "Within each priority, it will choose the one that was received first.",
)
def test_expired_jobs_return_to_their_old_place(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    jobs = [client.put(b"a", ttr=1, pri=7) for _ in range(3)]
    client.reserve().expect(RESERVED(jobs[0], b"a"))
    clock.advance(1)
    other.comes_back(jobs[0])
    for job in jobs:
        other.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "reserve.expiry-while-holder-is-idle",
    "When the job times out, the server will put the job back into the ready queue.",
)
def test_jobs_of_idle_clients_time_out(
    client: Connection, new_worker: Connect, real_clock: Timeline
) -> None:
    """Judge many jobs at once: beanstalkd from 1.9 on forgets about half of them."""
    jobs = client.put_many([b"a"] * 60, ttr=1)
    for _ in jobs:
        new_worker().reserve().reply("RESERVED")
    lost = jobs
    for seconds in (1, 0.25, 0.25):
        # To look takes at least as long as a timer may be late.
        real_clock.leave_alone(seconds)
        lost = [job for job, state in client.states_of(lost).items() if state != "ready"]
        if not lost:
            return
    raise Deviation(
        f"all {len(jobs)} jobs, each held by a client that is idle, ready after their TTR of 1 s",
        f"{len(lost)} of {len(jobs)} jobs still reserved 1 s after that",
        conclusive=True,
    )
