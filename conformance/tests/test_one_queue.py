"""Before there were tubes: one queue for all jobs, and what RESERVED, FOUND and peek said of it."""

from collections.abc import Callable

import pytest

from conformance.catalogue import configured, requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect
from conformance.dialogue.schedule import Timeline
from conformance.target.target import Target
from reference_server.wire import (
    BURIED,
    DELETED,
    FOUND,
    JOB_TOO_BIG,
    NOT_FOUND,
    RESERVED,
    UNKNOWN_COMMAND,
    Reply,
)


@requirement(
    "protocol.no-command-to-close",
    "There is no command to close the connection -- the client may simply close the TCP "
    "connection when it no longer has use for the server.",
)
def test_quit_is_no_command(client: Connection) -> None:
    client.raw(b"quit\r\n").expect(UNKNOWN_COMMAND)
    client.is_in_step()


@requirement(
    "lifecycle.one-queue",
    'It waits in the ready queue until a worker comes along and runs the "reserve" command.',
)
def test_jobs_of_many_clients_wait_in_one_queue(client: Connection, new_client: Connect) -> None:
    jobs = [new_client().put(b"a", pri=n) for n in range(12)]
    for job in jobs:
        client.reserve().expect(RESERVED(job, b"a"))


@requirement("put.into-the-queue", "It inserts a job into the queue.")
def test_each_job_that_is_put_is_in_the_queue(client: Connection, other: Connection) -> None:
    jobs = client.put_many([b"a"] * 60, in_order=True)
    for job in jobs:
        other.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "put.buried-when-queue-is-full",
    r'"BURIED\r\n" if the priority queue data structure is full.',
)
@configured(max_jobs_ready=3)
def test_a_job_for_which_there_is_no_room_is_buried(
    own_server: Target, client: Connection, other: Connection
) -> None:
    jobs = client.put_many([b"a"] * 3, in_order=True)
    client.raw(b"put 9 0 60 4\r\nmore\r\n").expect(BURIED)
    found = other.peek_buried().reply("FOUND")
    assert found.body == b"more"
    for job in jobs:
        client.hold(job)
    client.kick(1)
    client.reserve().expect(RESERVED(int(found.args[0]), b"more"))


@requirement(
    "put.body-below-64-kib",
    "<bytes> is an integer (currently must be < 2**16) indicating the size of the job body, "
    r'not including the trailing "\r\n".',
)
def test_a_body_of_65535_bytes(client: Connection) -> None:
    job = client.tested.put(b"m" * 65535)
    client.reserve().expect(RESERVED(job, b"m" * 65535))


@requirement(
    "put.too-big-at-once",
    r'"JOB_TOO_BIG\r\n" The client has requested to put a job with a body larger than 2**16 '
    "bytes.",
)
@pytest.mark.parametrize("size", [2**16, 2**31 - 1])
def test_a_job_that_is_too_big_is_refused_before_its_body_comes(
    client: Connection, size: int
) -> None:
    client.raw(b"put 0 0 60 %d\r\n" % size).expect(JOB_TOO_BIG)


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        pytest.param(
            "reserve",
            RESERVED,
            marks=requirement(
                "reserve.reserved-with-priority", r"RESERVED <id> <pri> <bytes>\r\n <data>\r\n"
            ),
            id="RESERVED",
        ),
        pytest.param(
            "peek {}",
            FOUND,
            marks=requirement(
                "peek.found-with-priority", r"FOUND <id> <pri> <bytes>\r\n <data>\r\n"
            ),
            id="FOUND",
        ),
    ],
)
@pytest.mark.parametrize("pri", [0, 7, 2**31, 2**32 - 1])
def test_a_reply_with_a_job_tells_its_priority(
    client: Connection, command: str, reply: Callable[[int, bytes, int], Reply], pri: int
) -> None:
    job = client.put(b"hello", pri=pri)
    client.send(command.format(job)).expect(reply(job, b"hello", pri))


@requirement(
    "reserve.told-priority",
    "<pri> is the priority value set by the put, release, or bury commands.",
)
def test_reserved_tells_the_priority_that_release_and_bury_have_set(client: Connection) -> None:
    job = client.put(b"a", pri=5)
    client.reserve_waiting().expect(RESERVED(job, b"a", 5))
    client.release(job, pri=9)
    client.reserve_waiting().expect(RESERVED(job, b"a", 9))
    client.bury(job, pri=2)
    client.kick(1)
    client.reserve_waiting().expect(RESERVED(job, b"a", 2))


@requirement(
    "reserve.next-in-the-queue",
    "If this job is next in the queue, it will be reserved for the worker.",
)
def test_the_next_job_in_the_queue_is_reserved(client: Connection, other: Connection) -> None:
    late, soon = client.put(b"a", pri=2000), other.put(b"b", pri=1000)
    client.reserve().expect(RESERVED(soon, b"b"))
    other.reserve().expect(RESERVED(late, b"a"))


@requirement(
    "delete.only-reserved-or-buried",
    "A client can only delete jobs that it has reserved or jobs that are buried.",
)
def test_delete_is_for_reserved_and_buried_jobs(client: Connection, other: Connection) -> None:
    client.send(f"delete {client.put_and_reserve()}").expect(DELETED)
    other.send(f"delete {client.put_and_bury()}").expect(DELETED)
    client.kick(9)
    client.finds_no_job()


@requirement(
    "delete.not-found-if-ready-or-delayed",
    r'"NOT_FOUND\r\n" if the job does not exist or is not either reserved by the client or '
    "buried.",
)
@pytest.mark.parametrize("state", ["ready", "delayed"])
def test_a_job_that_is_ready_or_delayed_is_not_deleted(client: Connection, state: str) -> None:
    job = client.job_in(state)
    client.send(f"delete {job}").expect(NOT_FOUND)
    assert client.state_of(job) == state


@requirement(
    "release.buried-when-queue-is-full",
    r'"BURIED\r\n" if the priority queue data structure is full.',
)
@configured(max_jobs_ready=1)
def test_a_released_job_for_which_there_is_no_room_is_buried(
    own_server: Target, client: Connection, other: Connection
) -> None:
    job = client.put_and_reserve()
    other.put(b"b")
    client.send(f"release {job} 0 0").expect(BURIED)
    assert client.state_of(job) == "buried"


@requirement("peek.told-priority", "<pri> is the job's priority.")
def test_found_tells_the_priority_that_release_and_bury_have_set(client: Connection) -> None:
    job = client.put_and_reserve(pri=5)
    client.release(job, pri=9)
    client.peek(job).expect(FOUND(job, b"a", 9))
    client.hold(job)
    client.bury(job, pri=2)
    client.peek_buried().expect(FOUND(job, b"a", 2))


@requirement(
    "peek.without-id-shows-buried",
    "If <id> is not given, peek will show the next job in the list of buried jobs, if any.",
)
def test_peek_without_an_id_shows_the_next_buried_job(client: Connection) -> None:
    jobs = [client.put_and_reserve() for _ in range(3)]
    client.put(b"a")
    for job in (jobs[1], jobs[2], jobs[0]):
        client.bury(job)
    for job in (jobs[1], jobs[2], jobs[0]):
        client.send("peek").expect(FOUND(job, b"a"))
        client.delete(job, "buried")


@requirement(
    "peek.without-id-not-found",
    r'"NOT_FOUND\r\n" if the requested job '
    "doesn't exist or there are no buried jobs.",
)
@pytest.mark.parametrize("state", ["ready", "delayed", "reserved"])
def test_peek_without_an_id_finds_no_other_job(client: Connection, state: str) -> None:
    client.send("peek").expect(NOT_FOUND)
    client.job_in(state)
    client.send("peek").expect(NOT_FOUND)


@requirement("kick.all-jobs", "The kick command moves jobs into the ready queue.")
def test_kick_takes_the_jobs_of_all_clients(client: Connection, new_client: Connect) -> None:
    jobs = [new_client().put_and_bury() for _ in range(4)]
    client.send("kick 9").reply("KICKED")
    assert {client.state_of(job) for job in jobs} == {"ready"}


@requirement(
    "stats.of-a-job",
    "If a job id is given, the response will contain information about that job if it exists.",
)
@pytest.mark.parametrize("state", ["ready", "delayed", "reserved", "buried"])
def test_stats_of_a_job(client: Connection, other: Connection, state: str) -> None:
    job = client.job_in(state)
    stats = other.send(f"stats {job}").dictionary()
    for key in ("id", "age", "time-left", "timeouts", "releases", "buries", "kicks"):
        stats.number(key)
    assert "current-jobs-ready" not in stats


@requirement(
    "stats.of-the-system",
    "Otherwise stats will return information about the system as a whole.",
)
def test_stats_without_an_id_is_about_the_system(client: Connection) -> None:
    client.put(b"a")
    stats = client.stats()
    assert stats.number("current-jobs-ready") == 1
    assert "state" not in stats


@requirement(
    "stats.limit-max-jobs-ready",
    '"limit-max-jobs-ready" is the total capacity of the ready queue. Once this many jobs are '
    "ready, any additional jobs will be buried.",
)
def test_the_capacity_of_the_ready_queue_is_told(client: Connection) -> None:
    assert client.stats().number("limit-max-jobs-ready") > 0


@requirement(
    "stats.limit-max-jobs-ready",
    '"limit-max-jobs-ready" is the total capacity of the ready queue. Once this many jobs are '
    "ready, any additional jobs will be buried.",
)
@configured(max_jobs_ready=4)
def test_once_so_many_jobs_are_ready_any_other_is_buried(
    own_server: Target, client: Connection, clock: Timeline
) -> None:
    assert client.stats()["limit-max-jobs-ready"] == "4"
    delayed = client.put(b"a", delay=1)
    client.put_many([b"a"] * 4)
    client.raw(b"put 0 0 60 1\r\na\r\n").expect(BURIED)
    clock.advance(1)
    assert client.state_of(delayed) == "buried"
    client.kick(9)
    stats = client.stats()
    assert (stats["current-jobs-ready"], stats["current-jobs-buried"]) == ("4", "2")


@requirement("stats.job-id", '"id" is the job id')
def test_stats_tells_the_id_of_each_job(client: Connection) -> None:
    for job in client.put_many([b"a"] * 12):
        assert client.stats_job(job)["id"] == str(job)


@requirement("stats.job-state", '"state" is "ready" or "delayed" or "reserved" or "buried"')
def test_stats_tells_the_state_of_a_job(client: Connection) -> None:
    job = client.put(b"a", delay=3600)
    assert client.state_of(job) == "delayed"
    client.kick(1)
    assert client.state_of(job) == "ready"
    client.hold(job)
    assert client.state_of(job) == "reserved"
    client.bury(job)
    assert client.state_of(job) == "buried"


@requirement(
    "stats.job-age",
    '"age" is the time in seconds since the put command that created this job.',
)
def test_stats_tells_the_age_of_a_job(client: Connection, clock: Timeline) -> None:
    job = client.put(b"a")
    clock.advance(3)
    assert abs(client.stats_job(job).number("age") - 3) <= 1


@requirement(
    "stats.job-time-left",
    '"time-left" is the number of seconds left until the server puts this job into the ready '
    "queue.",
)
def test_stats_tells_the_time_that_is_left(client: Connection, clock: Timeline) -> None:
    reserved, delayed = client.put(b"a", ttr=60), client.put(b"b", delay=100)
    client.hold(reserved)
    clock.advance(3)
    for job, left in ((reserved, 57), (delayed, 97)):
        assert abs(client.stats_job(job).number("time-left") - left) <= 1


@requirement(
    "stats.job-timeouts-of-one",
    '"timeouts" is the number of times this job has timed out during a reservation.',
)
def test_stats_counts_the_timeouts_of_a_job(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put(b"a", ttr=1)
    for timeouts in range(2):
        client.job_is(job, timeouts=timeouts)
        client.hold(job)
        clock.advance(1.5)
        assert other.state_of(job) == "ready"
    client.job_is(job, timeouts=2)


@requirement(
    "stats.job-releases",
    '"releases" is the number of times a client has released this job from a reservation.',
)
def test_stats_counts_the_releases_of_a_job(client: Connection) -> None:
    job = client.put(b"a")
    for delay in (0, 0, 3600):
        client.hold(job)
        client.release(job, delay=delay)
    client.job_is(job, releases=3, buries=0)


@requirement("stats.job-buries", '"buries" is the number of times this job has been buried.')
def test_stats_counts_how_often_a_job_was_buried(client: Connection) -> None:
    job = client.put(b"a")
    for _ in range(3):
        client.hold(job)
        client.bury(job)
        client.kick(1)
    client.job_is(job, buries=3, releases=0)


@requirement("stats.job-kicks", '"kicks" is the number of times this job has been kicked.')
def test_stats_counts_how_often_a_job_was_kicked(client: Connection) -> None:
    job = client.put(b"a", delay=3600)
    client.kick(1)
    for _ in range(2):
        client.hold(job)
        client.bury(job)
        client.kick(9)
    client.job_is(job, kicks=3)
