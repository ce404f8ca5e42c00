"""Time: delays of put and release, and what stats-job says of them."""

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.schedule import Timeline
from conformance.target.target import Target
from reference_server.wire import FOUND, KICKED, NOT_FOUND, RELEASED, RESERVED


@requirement(
    "put.ready-after-delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue.",
)
def test_a_delayed_job_is_ready_when_its_delay_is_over(client: Connection, clock: Timeline) -> None:
    job = client.put(b"a", delay=2)
    clock.advance(1)
    assert client.state_of(job) == "delayed"
    client.finds_no_job()
    clock.advance(1)
    assert client.state_of(job) == "ready"
    client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "put.ready-after-delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue.",
)
def test_a_client_that_waits_gets_a_job_when_its_delay_is_over(
    client: Connection, worker: Connection, clock: Timeline
) -> None:
    job = client.put(b"a", delay=1)
    waiting = worker.send("reserve")
    clock.advance(1)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "put.ready-after-delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue.",
)
def test_a_delay_of_an_hour(client: Connection, worker: Connection, clock: Timeline) -> None:
    job = client.put(b"a", delay=3600)
    waiting = worker.send("reserve")
    clock.advance(3600)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "put.ready-after-delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue.",
)
def test_the_longest_delay(own_server: Target, client: Connection, clock: Timeline) -> None:
    job = client.put(b"a", delay=2**32 - 1)
    clock.advance(2**32 - 10)
    assert client.state_of(job) == "delayed"
    clock.advance(10)
    assert client.state_of(job) == "ready"


@requirement(
    "put.delayed-jobs-in-order",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue.",
)
def test_jobs_become_ready_in_the_order_of_their_delays(
    client: Connection, worker: Connection, clock: Timeline
) -> None:
    late, soon = client.put(b"late", delay=2, pri=0), client.put(b"soon", delay=1, pri=9)
    first = worker.send("reserve")
    clock.advance(1)
    first.expect(RESERVED(soon, b"soon"))
    second = worker.send("reserve")
    clock.advance(1)
    second.expect(RESERVED(late, b"late"))


@requirement(
    "put.delayed-jobs-in-order",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue.",
)
def test_jobs_whose_delays_are_over_are_given_by_priority(
    client: Connection, clock: Timeline
) -> None:
    jobs = [client.put(b"a", delay=1, pri=pri) for pri in (3, 1, 2)]
    clock.advance(1)
    for job in (jobs[1], jobs[2], jobs[0]):
        client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "release.ready-after-delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue.",
)
def test_a_job_released_with_a_delay_is_ready_when_it_is_over(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put(b"a")
    client.reserve().expect(RESERVED(job, b"a"))
    client.send(f"release {job} 0 2").expect(RELEASED)
    clock.advance(1)
    other.finds_no_job()
    clock.advance(1)
    other.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "release.ready-after-delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue.",
)
def test_a_client_that_waits_gets_a_released_job_when_its_delay_is_over(
    client: Connection, worker: Connection, clock: Timeline
) -> None:
    job = client.put(b"a")
    client.reserve().expect(RESERVED(job, b"a"))
    client.send(f"release {job} 0 1").expect(RELEASED)
    waiting = worker.send("reserve")
    clock.advance(1)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "kick-job.kicked",
    "If the given job id exists and is in a buried or delayed state, it will be moved to the "
    "ready queue of the the same tube where it currently belongs.",
)
def test_a_kicked_job_does_not_become_ready_a_second_time(
    client: Connection, clock: Timeline
) -> None:
    job = client.put(b"a", delay=1)
    client.send(f"kick-job {job}").expect(KICKED)
    client.reserve().expect(RESERVED(job, b"a"))
    clock.advance(1)
    assert client.state_of(job) == "reserved"
    client.send("peek-ready").expect(NOT_FOUND)


@requirement(
    "peek.delayed",
    r'"peek-delayed\r\n" - return the delayed job with the shortest delay left.',
)
def test_peek_delayed_does_not_show_a_job_whose_delay_is_over(
    client: Connection, clock: Timeline
) -> None:
    soon, late = client.put(b"a", delay=1), client.put(b"b", delay=3600)
    client.send("peek-delayed").expect(FOUND(soon, b"a"))
    clock.advance(1)
    client.send("peek-delayed").expect(FOUND(late, b"b"))
    client.send("peek-ready").expect(FOUND(soon, b"a"))


@requirement(
    "stats-job.age",
    '"age" is the time in seconds since the put command that created this job.',
)
def test_stats_job_tells_the_age(client: Connection, clock: Timeline) -> None:
    job = client.put(b"a")
    assert client.stats_job(job)["age"] == "0"
    clock.advance(2)
    assert client.stats_job(job)["age"] == "2"


@requirement(
    "stats-job.time-left-delayed",
    '"time-left" is the number of seconds left until the server puts this job into the ready '
    "queue. This number is only meaningful if the job is reserved or delayed.",
)
def test_stats_job_tells_the_delay_that_is_left(client: Connection, clock: Timeline) -> None:
    job = client.put(b"a", delay=100)
    assert client.stats_job(job)["time-left"] in ("99", "100")
    clock.advance(2)
    assert client.stats_job(job)["time-left"] in ("97", "98")


@requirement(
    "stats-job.delay-and-ttr-stay",
    '"delay" is the integer number of seconds to wait before putting this job in the ready '
    'queue. "ttr" -- time to run -- is the integer number of seconds a worker is allowed to '
    "run this job.",
)
def test_stats_job_tells_delay_and_ttr_as_they_were_given(
    client: Connection, clock: Timeline
) -> None:
    job = client.put(b"a", delay=1, ttr=77)
    clock.advance(1)
    client.reserve().expect(RESERVED(job, b"a"))
    stats = client.stats_job(job)
    assert (stats["delay"], stats["ttr"]) == ("1", "77")
