"""Time: TTR and its expiry, touch, and what the old holder may still do."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect
from conformance.dialogue.schedule import Timeline
from conformance.target.target import Target
from conformance.verdict import Deviation
from reference_server.profiles import Profile
from reference_server.wire import (
    BURIED,
    DELETED,
    NOT_FOUND,
    RELEASED,
    RESERVED,
    TOUCHED,
)


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
    job = client.put(b"a", ttr=2)
    client.reserve().expect(RESERVED(job, b"a"))
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
    job = client.put(b"a", ttr=1)
    client.reserve().expect(RESERVED(job, b"a"))
    waiting = worker.send("reserve")
    clock.advance(1)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "put.ttr-from-reservation",
    "This time is counted from the moment a worker reserves this job.",
)
def test_the_ttr_is_counted_from_the_reservation(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put(b"a", ttr=2)
    clock.advance(2)
    client.reserve().expect(RESERVED(job, b"a"))
    clock.advance(1)
    assert other.state_of(job) == "reserved"
    clock.advance(1)
    assert other.state_of(job) == "ready"


@requirement(
    "put.ttr-from-reservation",
    "This time is counted from the moment a worker reserves this job.",
)
def test_a_second_reservation_has_the_whole_ttr(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put(b"a", ttr=2)
    client.reserve().expect(RESERVED(job, b"a"))
    clock.advance(1)
    client.send(f"release {job} 0 0").expect(RELEASED)
    client.reserve().expect(RESERVED(job, b"a"))
    clock.advance(1)
    assert other.state_of(job) == "reserved"
    clock.advance(1)
    assert other.state_of(job) == "ready"


@requirement(
    "put.ttr-zero-becomes-one",
    "The minimum ttr is 1. If the client sends 0, the server will silently increase the ttr to 1.",
)
def test_a_ttr_of_zero_lasts_a_second(
    client: Connection, worker: Connection, clock: Timeline
) -> None:
    job = client.put(b"a", ttr=0)
    client.reserve().expect(RESERVED(job, b"a"))
    waiting = worker.send("reserve")
    clock.advance(1)
    waiting.expect(RESERVED(job, b"a"))


@requirement("put.ttr-limit", "Maximum ttr is 2**32-1.")
def test_the_longest_ttr(
    own_server: Target, client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put(b"a", ttr=2**32 - 1)
    client.reserve().expect(RESERVED(job, b"a"))
    clock.advance(2**32 - 10)
    assert other.state_of(job) == "reserved"
    clock.advance(10)
    assert other.state_of(job) == "ready"


@requirement(
    "put.ttr-expiry-releases",
    "If the worker does not delete, release, or bury the job within <ttr> seconds, the job "
    "will time out and the server will release the job.",
)
@pytest.mark.parametrize("how", ["delete", "release", "bury"])
def test_a_job_that_was_let_go_does_not_time_out(
    client: Connection, other: Connection, clock: Timeline, how: str
) -> None:
    job = client.put(b"a", ttr=1)
    client.reserve().expect(RESERVED(job, b"a"))
    match how:
        case "delete":
            client.send(f"delete {job}").expect(DELETED)
        case "release":
            client.send(f"release {job} 0 0").expect(RELEASED)
        case "bury":
            client.send(f"bury {job} 0").expect(BURIED)
    clock.advance(1)
    if how == "delete":
        other.send(f"stats-job {job}").expect(NOT_FOUND)
        return
    stats = other.stats_job(job)
    assert stats["timeouts"] == "0"
    assert stats["state"] == ("ready" if how == "release" else "buried")


@requirement(
    "reserve-job.ttr",
    "Once a job is reserved for the client, the client has limited time to run (TTR) the job "
    "before the job times out. When the job times out, the server will put the job back into "
    "the ready queue.",
)
def test_a_job_reserved_by_id_times_out_too(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put(b"a", ttr=2)
    client.send(f"reserve-job {job}").expect(RESERVED(job, b"a"))
    clock.advance(1)
    assert other.state_of(job) == "reserved"
    clock.advance(1)
    other.reserve().expect(RESERVED(job, b"a"))


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
    for job in jobs:
        other.reserve().expect(RESERVED(job, b"a"))


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
        client.reserve().expect(RESERVED(job, b"a"))
    clock.advance(1)
    for expired in reversed(jobs):
        waiting = other.send("reserve")
        clock.advance(1)
        waiting.expect(RESERVED(expired, b"a"))
        other.send(f"delete {expired}").expect(DELETED)


@requirement(
    "stats-job.timeouts",
    '"timeouts" is the number of times this job has timed out during a reservation.',
)
def test_stats_job_counts_timeouts(client: Connection, other: Connection, clock: Timeline) -> None:
    job = client.put(b"a", ttr=1)
    for count in (1, 2):
        client.reserve().expect(RESERVED(job, b"a"))
        clock.advance(1)
        stats = other.stats_job(job)
        assert stats["timeouts"] == str(count)
        assert (stats["releases"], stats["state"]) == ("0", "ready")


@requirement(
    "stats.job-timeouts",
    '"job-timeouts" is the cumulative count of times a job has timed out.',
)
def test_stats_counts_timeouts(
    alone: None, client: Connection, other: Connection, connect: Connect, clock: Timeline
) -> None:
    observer = connect()
    before = observer.stats().number("job-timeouts")
    client.put_many([b"a", b"b"], ttr=1)
    client.reserve().reply("RESERVED")
    other.reserve().reply("RESERVED")
    clock.advance(1)
    assert observer.stats().number("job-timeouts") - before == 2


@requirement(
    "stats-job.time-left-reserved",
    '"time-left" is the number of seconds left until the server puts this job into the ready '
    "queue. This number is only meaningful if the job is reserved or delayed.",
)
def test_stats_job_tells_the_ttr_that_is_left(client: Connection, clock: Timeline) -> None:
    job = client.put(b"a", ttr=100)
    client.reserve().expect(RESERVED(job, b"a"))
    assert client.stats_job(job)["time-left"] in ("99", "100")
    clock.advance(2)
    assert client.stats_job(job)["time-left"] in ("97", "98")
    client.send(f"touch {job}").expect(TOUCHED)
    assert client.stats_job(job)["time-left"] in ("99", "100")


@requirement(
    "touch.postpones-expiry",
    "The command postpones the auto release of a reserved job until TTR seconds from when the "
    "command is issued.",
)
def test_touch_gives_the_whole_ttr_again(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put(b"a", ttr=2)
    client.reserve().expect(RESERVED(job, b"a"))
    clock.advance(1)
    client.send(f"touch {job}").expect(TOUCHED)
    clock.advance(1)
    assert other.state_of(job) == "reserved"
    clock.advance(1)
    assert other.state_of(job) == "ready"


@requirement(
    "touch.postpones-expiry",
    "The command postpones the auto release of a reserved job until TTR seconds from when the "
    "command is issued.",
)
def test_touch_of_one_job_does_not_postpone_another(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    touched, left = client.put_many([b"a", b"b"], ttr=2, in_order=True)
    client.reserve().expect(RESERVED(touched, b"a"))
    client.reserve().expect(RESERVED(left, b"b"))
    clock.advance(1)
    client.send(f"touch {touched}").expect(TOUCHED)
    clock.advance(1)
    assert (other.state_of(touched), other.state_of(left)) == ("reserved", "ready")


@requirement(
    "delete.after-expiry",
    r'"NOT_FOUND\r\n" if the job does not exist or is not either reserved by the client, '
    "ready, or buried. This could happen if the job timed out before the client sent the "
    "delete command.",
)
def test_delete_of_an_expired_job_that_is_merely_ready_again(
    client: Connection, clock: Timeline, profile: Profile
) -> None:
    job = client.put(b"a", ttr=1)
    client.reserve().expect(RESERVED(job, b"a"))
    clock.advance(1)
    client.send(f"delete {job}").expect(DELETED if "ready" in profile.deletes else NOT_FOUND)


@requirement(
    "delete.after-expiry",
    r'"NOT_FOUND\r\n" if the job does not exist or is not either reserved by the client, '
    "ready, or buried. This could happen if the job timed out before the client sent the "
    "delete command.",
)
def test_delete_of_an_expired_job_that_somebody_else_has_reserved(
    client: Connection, new_worker: Connect, clock: Timeline
) -> None:
    job = client.put(b"a", ttr=1)
    client.reserve().expect(RESERVED(job, b"a"))
    worker = new_worker()
    waiting = worker.send("reserve")
    clock.advance(1)
    waiting.expect(RESERVED(job, b"a"))
    client.send(f"delete {job}").expect(NOT_FOUND)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        pytest.param(
            "release",
            " 0 0",
            marks=requirement(
                "release.after-expiry",
                r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
            ),
        ),
        pytest.param(
            "bury",
            " 0",
            marks=requirement(
                "bury.after-expiry",
                r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
            ),
        ),
        pytest.param(
            "touch",
            "",
            marks=requirement(
                "touch.after-expiry",
                r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
            ),
        ),
    ],
)
def test_the_old_holder_has_no_claim_to_an_expired_job(
    client: Connection, other: Connection, clock: Timeline, command: str, arguments: str
) -> None:
    job = client.put(b"a", ttr=1)
    client.reserve().expect(RESERVED(job, b"a"))
    clock.advance(1)
    assert other.state_of(job) == "ready"
    client.send(f"{command} {job}{arguments}").expect(NOT_FOUND)
    assert other.state_of(job) == "ready"


@requirement(
    "reserve.expiry-while-holder-is-idle",
    "When the job times out, the server will put the job back into the ready queue.",
)
def test_jobs_of_idle_clients_time_out(
    client: Connection, new_worker: Connect, real_clock: Timeline
) -> None:
    """Judged on many jobs at once: beanstalkd from 1.9 on forgets about half of them."""
    jobs = client.put_many([b"a"] * 60, ttr=1)
    for _ in jobs:
        new_worker().reserve().reply("RESERVED")
    real_clock.leave_alone(1)
    lost, waited = jobs, 0.0
    for _ in range(4):
        lost = [job for job in lost if client.state_of(job) != "ready"]
        if not lost:
            return
        real_clock.leave_alone(0.25)
        waited += 0.25
    raise Deviation(
        f"all {len(jobs)} jobs, each held by a client that is idle, ready after their TTR of 1 s",
        f"{len(lost)} of {len(jobs)} jobs still reserved {waited:g} s after that",
        conclusive=True,
    )
