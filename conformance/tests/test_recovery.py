"""Recovery: what a server remembers that was killed, has much to remember, or ends repeatedly."""

import time
from functools import partial

from conformance.catalogue import configured, requirement
from conformance.dialogue.bulk import Bulk, put_of, shortfall
from conformance.dialogue.connection import Connection
from conformance.dialogue.growth import APART
from conformance.dialogue.leaks import paced
from conformance.dialogue.scaled_lines import largest_body
from conformance.dialogue.scenario import Connect
from conformance.dialogue.schedule import Timeline
from conformance.target.resources import Resources
from conformance.target.target import Target
from reference_server.wire import (
    FOUND,
    NOT_FOUND,
    RESERVED,
)

JOBS, PART = 5000, 500
"""Delayed jobs on a fast server, and how many are put at a time."""
SECONDS = 0.4
"""Seconds after which no more are put."""
DOWN_AT, SOON, LATER, ODD = 2, 4, 6, 1009
"""Seconds after which the server restarts, delays that end in the test, and a number.

Its multiples differ for all jobs.
"""
KICKED = 20
"""Of the others, those that are kicked in their order."""
WRITTEN, SIZE, ROUND, WRITING_SECONDS = 36 * 2**20, 60_000, 20, 0.4
"""Bytes of jobs that come and go while others stay: more than three of beanstalkd's files.

With them the bytes of each job, those that are there at a time, and the CPU time for all.
"""

SHORT, LONG = 800, 180
"""Jobs that fill more than one of beanstalkd's files: short ones, and some of SIZE bytes.

For the deletion of all short ones, it sets aside more room than a long one needs.
"""


@requirement(
    "persistence.kill",
    "during normal operation, append new jobs and changes in state to the binlog.",
)
@configured(binlog=True)
def test_what_was_answered_is_remembered_by_a_server_that_was_killed(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    buried, deleted, released = (client.job_in("reserved") for _ in range(3))
    client.bury(buried, pri=3)
    client.delete(deleted)
    client.release(released, pri=5, delay=3600)
    held, ready, delayed = client.job_in("reserved"), client.put(b"a"), client.job_in("delayed")
    own_server.crash()
    client = new_client()
    client.peek(deleted).expect(NOT_FOUND)
    kept = {buried: "buried", released: "delayed", held: "ready", ready: "ready"}
    for job, state in {**kept, delayed: "delayed"}.items():
        client.peek(job).expect(FOUND(job, b"a"))
        assert client.state_of(job) == state
    assert [client.stats_job(job)["pri"] for job in (buried, released)] == ["3", "5"]


@requirement(
    "persistence.kill",
    "during normal operation, append new jobs and changes in state to the binlog.",
)
@configured(binlog=True)
def test_the_last_thing_that_was_answered_is_remembered(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    job = client.put(b"a")
    own_server.crash()
    client = new_client()
    client.reserve().expect(RESERVED(job, b"a"))
    client.bury(job)
    own_server.crash()
    client = new_client()
    client.finds_no_job()
    client.kick(1)
    own_server.crash()
    client = new_client()
    client.reserve().expect(RESERVED(job, b"a"))
    client.delete(job)
    own_server.crash()
    new_client().peek(job).expect(NOT_FOUND)


@requirement(
    "persistence.again",
    "Upon startup, beanstalkd will recover any binlog that is present in path, then, during "
    "normal operation, append new jobs and changes in state to the binlog.",
)
@configured(binlog=True)
def test_what_was_remembered_once_is_remembered_again(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    buried, kicked = client.put_and_bury(), client.put_and_bury()
    kept, deleted, delayed = client.put(b"a"), client.put(b"a"), client.job_in("delayed")
    own_server.restart()
    client = new_client()
    client.delete(deleted)
    client.delete(kicked)
    added = client.put(b"a")
    for _ in range(2):
        own_server.restart()
        client = new_client()
        for job in (deleted, kicked):
            client.peek(job).expect(NOT_FOUND)
        states = {kept: "ready", added: "ready", delayed: "delayed", buried: "buried"}
        for job, state in states.items():
            client.peek(job).expect(FOUND(job, b"a"))
            assert client.state_of(job) == state


@requirement(
    "persistence.many-jobs",
    "Upon startup, beanstalkd will recover any binlog that is present in path",
)
@configured(binlog=True)
def test_of_many_jobs_all_are_remembered_that_were_not_deleted(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    bodies = [b"%d " % number * (number % 250) for number in range(900)]
    jobs = client.put_many(bodies)
    client.delete_many([job for job in jobs if job % 3])
    own_server.restart()
    client = new_client()
    found = client.each([b"peek %d\r\n" % job for job in jobs])
    for job, body, asked in zip(jobs, bodies, found, strict=True):
        asked.expect(NOT_FOUND if job % 3 else FOUND(job, body))


@requirement(
    "persistence.many-jobs",
    "Upon startup, beanstalkd will recover any binlog that is present in path",
)
@configured(binlog=True)
def test_jobs_of_more_than_ten_megabytes_are_remembered(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    bodies = [b"%d" % number for number in range(SHORT)] + [largest_body(own_server, SIZE)] * LONG
    jobs = Bulk(client, own_server).put([*map(put_of, bodies)])
    own_server.restart()
    client = new_client()
    found = client.each([b"peek %d\r\n" % job for job in jobs])
    for job, body, asked in zip(jobs, bodies, found, strict=True):
        asked.expect(FOUND(job, body))


@requirement(
    "persistence.old-jobs",
    "Use a binlog to keep jobs on persistent storage in directory path.",
)
@configured(binlog=True)
def test_jobs_are_remembered_however_much_was_written_after_them(
    own_server: Target, client: Connection, new_client: Connect, resources: Resources
) -> str:
    bulk, body = Bulk(client, own_server), largest_body(own_server, SIZE)
    kicked, buried = client.put_and_bury(), client.put_and_bury()
    kept = {kicked: "ready", buried: "buried", client.job_in("delayed"): "delayed"}
    kept |= {client.put(b"a"): "ready"}
    deleted, round_of_jobs = client.put(b"a"), partial(bulk.put_and_delete, body)
    most = WRITTEN // len(body)
    done = paced(round_of_jobs, WRITING_SECONDS, most, resources)
    for _ in range(done // ROUND):
        round_of_jobs(ROUND)
    # What is written of these now is not in the file that has their bodies.
    client.kick_one()
    client.delete(deleted, "ready")
    for _ in range(2):
        own_server.restart()
        client = new_client()
        client.peek(deleted).expect(NOT_FOUND)
        for job, state in kept.items():
            client.peek(job).expect(FOUND(job, b"a"))
            assert client.state_of(job) == state
    return shortfall(done, most, "jobs")


@requirement(
    "persistence.many-delays",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue."
    ' The job will be in the "delayed" state during this time.',
)
@configured(binlog=True)
def test_many_delays_end_as_they_would_have_without_a_restart(
    own_server: Target, client: Connection, new_client: Connect, clock: Timeline
) -> str:
    client.minds_time()
    bulk, delays, begun = Bulk(client, own_server), dict[int, int](), time.monotonic()
    while len(delays) < JOBS and time.monotonic() - begun < SECONDS:
        first = len(delays)
        chosen = [_delay(number) for number in range(first, first + PART)]
        ids = bulk.put([b"put 0 %d 1000 1\r\na\r\n" % delay for delay in chosen])
        delays |= zip(ids, chosen, strict=True)
    clock.advance(DOWN_AT)
    own_server.restart()
    client, now = new_client(), DOWN_AT
    for end in (0, SOON, LATER):
        clock.advance(max(end - now, 0))
        now = max(end, now)
        ready = sum(delay <= end for delay in delays.values())
        client.becomes(partial(_has_ready, client, ready))
        stats = client.stats_tube()
        counts = [stats.number(f"current-jobs-{state}") for state in ("ready", "delayed")]
        assert counts == [ready, len(delays) - ready]
    left = sorted((delay, job) for job, delay in delays.items() if delay > LATER)
    for _, job in left[:KICKED]:
        client.peek_delayed().expect(FOUND(job, b"a"))
        client.kick_one("delayed")
    return shortfall(len(delays), JOBS, "jobs")


def _delay(number: int) -> int:
    """Return the delay of a job: two in three end while the test lasts."""
    return (SOON, LATER, 3600 + APART * (number * ODD % JOBS))[number % 3]


def _has_ready(client: Connection, count: int) -> bool:
    return client.stats_tube().number("current-jobs-ready") == count


@requirement(
    "persistence.age", '"age" is the time in seconds since the put command that created this job.'
)
@configured(binlog=True)
def test_a_job_is_as_old_as_its_put_and_not_as_its_server(
    own_server: Target, client: Connection, new_client: Connect, clock: Timeline
) -> None:
    job = client.put(b"a", delay=3600)
    clock.advance(3)
    own_server.restart()
    # It may be the difference of two times of whole seconds.
    assert new_client().stats_job(job).number("age") >= 2
