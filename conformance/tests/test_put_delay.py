"""Section "Producer Commands", continued: the delay of put."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.schedule import Timeline
from conformance.target.target import Target
from reference_server.wire import RESERVED


@requirement(
    "put.delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready "
    'queue. The job will be in the "delayed" state during this time.',
)
def test_a_job_with_a_delay_is_delayed(client: Connection) -> None:
    job = client.put(b"a", delay=3600)
    assert client.state_of(job) == "delayed"
    client.finds_no_job()


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
@pytest.mark.parametrize("delay", [1, 3600])
def test_a_client_that_waits_gets_a_job_when_its_delay_is_over(
    client: Connection, worker: Connection, clock: Timeline, delay: int
) -> None:
    job = client.put(b"a", delay=delay)
    waiting = worker.reserve_waiting()
    clock.advance(delay)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "put.long-delay",
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
    first = worker.reserve_waiting()
    clock.advance(1)
    first.expect(RESERVED(soon, b"soon"))
    second = worker.reserve_waiting()
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
