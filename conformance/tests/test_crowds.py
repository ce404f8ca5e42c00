"""Beside the text: many clients, and many timers that fall due together."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.growth import LONG
from conformance.dialogue.many_clients import gather, served
from conformance.dialogue.scenario import Connect, NewTube
from conformance.dialogue.schedule import Timeline
from conformance.random_testing.budget import Budget
from conformance.verdict import Deviation
from reference_server.wire import TIMED_OUT, USING

CLIENTS = 300
"""Clients of a large crowd."""
WAITING = 130
"""Clients that wait at the same time, and a few more."""
JOBS = 300
"""Timers that fall due together."""
HOLDERS = 10
"""Clients that hold them."""
TUBES = 100
"""Tubes that are paused together."""
SECONDS = 0.6
"""Seconds that it may take until all are there."""


def _all_served(producer: Connection, crowd: list[Connection], count: int) -> None:
    """Expect that so many of those who wait are served, and no more."""
    producer.eventually(lambda: len(served(crowd)) >= count)
    producer.linger()
    assert len(served(crowd)) == count


@requirement(
    "lifecycle.use-default",
    'If it submits jobs without having sent a "use" command, they will live in the tube named '
    '"default".',
)
def test_each_of_300_clients_uses_default(connect: Connect) -> str:
    budget = Budget(SECONDS)
    gather(
        budget.turns(CLIENTS),
        connect,
        lambda client: client.observe("list-tube-used").expect(USING("default")),
    )
    return budget.reached(CLIENTS, "clients")


def _watches_default(client: Connection) -> None:
    observed = client.tubes_watched()
    if observed != ["default"]:
        raise Deviation("default alone on a new watch list", str(observed)[:200], 0)


@requirement(
    "lifecycle.watch-list-default",
    'When a client connects, its watch list is initially just the tube named "default".',
)
def test_each_of_300_clients_watches_default(connect: Connect) -> str:
    budget = Budget(SECONDS)
    gather(budget.turns(CLIENTS), connect, _watches_default)
    return budget.reached(CLIENTS, "clients")


@pytest.mark.parametrize(
    ("key", "line"),
    [
        pytest.param(key, line, marks=requirement(f"stats-tube.{key}", clause))
        for key, line, clause in (
            (
                "current-using",
                "use {}",
                '"current-using" is the number of open connections that are currently using this '
                "tube.",
            ),
            (
                "current-watching",
                "watch {}",
                '"current-watching" is the number of open connections that are currently watching '
                "this tube.",
            ),
        )
    ],
)
def test_stats_tube_counts_300_clients(
    client: Connection, connect: Connect, key: str, line: str
) -> str:
    budget, said = Budget(SECONDS), line.format(client.tube)
    crowd = gather(budget.turns(CLIENTS), connect, lambda new: new.go_to(said))
    assert client.stats_tube().number(key) == len(crowd) + 1
    return budget.reached(CLIENTS, "clients")


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(leave, marks=requirement(slug, clause), id=slug)
        for slug, clause, leave in (
            (
                "reserve.waits-for-job",
                "If no job is available to be reserved, beanstalkd will wait to send a response "
                "until one becomes available.",
                0,
            ),
            (
                "reserve.waiting-client-that-leaves",
                "If no job is available to be reserved, beanstalkd will wait to send a response "
                "until one becomes available.",
                7,
            ),
        )
    ],
)
def test_of_many_clients_that_wait_each_gets_a_job(
    producer: Connection, new_worker: Connect, leave: int
) -> str:
    budget = Budget(SECONDS)
    crowd = gather(budget.turns(WAITING), new_worker, Connection.synchronise)
    waiting = {client: client.reserve_waiting() for client in crowd}
    producer.linger()
    # From everywhere among them, one in so many leaves.
    gone = crowd[::leave] if leave else []
    for client in gone:
        client.close()
    left = [client for client in crowd if client not in gone]
    jobs: list[int] = []
    while len(jobs) < len(left):
        # All are served, however many jobs come at once.
        _all_served(producer, left, len(jobs))
        jobs += producer.put_many([b"a"] * min(len(jobs) + 1, len(left) - len(jobs)), ttr=LONG)
    given = [int(waiting[client].reply("RESERVED").args[0]) for client in left]
    assert sorted(given) == sorted(jobs)
    return budget.reached(WAITING, "clients")


def _reserved_jobs(client: Connection, count: int) -> list[int]:
    """Return so many jobs that a client reserves, the smallest id first."""
    return sorted(int(reply.args[0]) for reply in client.reserve_many(count))


@requirement(
    "put.ready-after-delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue.",
)
def test_delays_that_end_together(client: Connection, clock: Timeline) -> None:
    jobs = client.put_each([(b"a", 0, 2, LONG)] * JOBS)
    clock.advance(1)
    assert {client.state_of(job) for job in (jobs[0], jobs[-1])} == {"delayed"}
    clock.advance(1)
    assert _reserved_jobs(client, JOBS) == sorted(jobs)
    client.delete_many(jobs)


@requirement(
    "reserve.expired-job-is-ready",
    "When the job times out, the server will put the job back into the ready queue.",
)
def test_ttrs_that_end_together(
    client: Connection, worker: Connection, new_worker: Connect, clock: Timeline
) -> None:
    jobs = client.put_many([b"a"] * JOBS, ttr=3)
    holders = [new_worker() for _ in range(HOLDERS)]
    for holder in holders:
        _reserved_jobs(holder, JOBS // HOLDERS)
    clock.advance(1)
    assert {client.state_of(job) for job in (jobs[0], jobs[-1])} == {"reserved"}
    clock.advance(2)
    for holder in holders:
        holder.linger()
    worker.linger()
    assert _reserved_jobs(worker, JOBS) == sorted(jobs)
    worker.delete_many(jobs)


@requirement(
    "reserve.timed-out",
    "If a non-negative timeout was specified and the timeout exceeded before a job became "
    "available, […] the server will respond with TIMED_OUT.",
)
def test_timeouts_that_end_together(new_worker: Connect, clock: Timeline) -> str:
    budget = Budget(SECONDS)
    crowd = gather(budget.turns(WAITING), new_worker, Connection.synchronise)
    waiting = [client.reserve_within(2) for client in crowd]
    clock.advance(2)
    for exchange in waiting:
        exchange.expect(TIMED_OUT)
    return budget.reached(WAITING, "clients")


@requirement(
    "pause-tube.ends",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_pauses_that_end_together(client: Connection, new_tube: NewTube, clock: Timeline) -> str:
    jobs, budget = [], Budget(SECONDS)
    for _ in budget.turns(TUBES):
        tube = new_tube()
        client.go_to(f"watch {tube}", f"use {tube}")
        jobs.append(client.put(b"a", ttr=LONG))
        client.pause(2, tube)
    clock.advance(1)
    client.finds_no_job()
    clock.advance(1)
    assert _reserved_jobs(client, len(jobs)) == sorted(jobs)
    return budget.reached(TUBES, "tubes")
