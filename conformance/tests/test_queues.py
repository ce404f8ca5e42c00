"""Beside the text: queues of many sizes and shapes.

Each grows through all sizes, in several orders, while jobs are taken from all places of it.
"""

import random
import time
from collections.abc import Sequence

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Role
from conformance.dialogue.growth import (
    LONG,
    ORDERS,
    PLACES,
    Buried,
    Delayed,
    Queue,
    Ready,
    Reserved,
)
from conformance.dialogue.scenario import NewTube
from conformance.random_testing.budget import Budget
from conformance.target.target import Target
from conformance.usual_answers import usual_answer
from reference_server.profiles import Profile
from reference_server.wire import (
    BURIED,
    DELETED,
    RESERVED,
)

SIZES = 130
"""Sizes that each queue grows through."""
STEP = 13
"""Jobs by which it has grown after each step, in which twice as many come."""
MANY, MOST = 1000, 10_101
"""Jobs of larger queues."""
SOME = 100
"""Jobs that are kicked at once by any server."""
SECONDS = 0.6
"""Seconds that one test may take with a slow target."""
PART = 200
"""Commands after which the time is checked."""

KINDS = (
    (
        Ready,
        "put.smaller-priority-first",
        "Jobs with smaller priority values will be scheduled before jobs with larger priorities.",
    ),
    (Delayed, "kick.otherwise-delayed", "Otherwise it will kick delayed jobs."),
    (Buried, "bury.fifo", "Buried jobs are put into a FIFO linked list"),
    (
        Reserved,
        "reserve.several-jobs-on-a-connection",
        "Beanstalk supports reserving multiple jobs on a single TCP connection.",
    ),
)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=requirement(slug, clause), id=kind.__name__.lower())
        for kind, slug, clause in KINDS
    ],
)
def test_a_queue_of_every_size(
    client: Connection, profile: Profile, kind: type[Queue], order: str
) -> str:
    budget, keys = Budget(SECONDS), ORDERS[order](2 * SIZES)
    queue = kind(client, profile, len(keys))
    for step in budget.turns(SIZES // STEP):
        queue.add(keys[2 * STEP * step : 2 * STEP * (step + 1)])
        queue.take_some(STEP)
    queue.drain()
    return budget.reached(SIZES // STEP, f"steps of {STEP} jobs")


def _put(
    client: Connection, budget: Budget, jobs: Sequence[tuple[bytes, int, int, int]]
) -> list[int]:
    """Put jobs, as many as there is time for, and return their ids."""
    made: list[int] = []
    for part in budget.turns(-(-len(jobs) // PART)):
        made += client.put_each(jobs[part * PART : (part + 1) * PART])
    return made


@requirement(
    "kick.buried-in-order",
    "Buried jobs are put into a FIFO linked list and will not be touched by the server again "
    'until a client kicks them with the "kick" command.',
)
def test_1000_jobs_of_one_client_are_buried_and_kicked(client: Connection) -> str:
    budget = Budget(SECONDS)
    jobs = _put(client, budget, [(b"a", number, 0, LONG) for number in range(MANY)])
    client.take_jobs(len(jobs))
    order = random.Random(len(jobs)).sample(jobs, len(jobs))
    client.prepares([(f"bury {job} {number}", BURIED) for number, job in enumerate(order)])
    left = len(order)
    for bound in (0, 1, 99, 100, left // 2, left // 2 + 1, left + 1, 1):
        client.kick(bound)
        kicked = order[len(order) - left :][:bound]
        left -= len(kicked)
        client.prepares(
            [
                said
                for job in kicked
                for said in (
                    (client.ask_for_job, RESERVED(job, b"a")),
                    (f"delete {job}", DELETED),
                )
            ]
        )
    return budget.reached(MANY // PART, f"times {PART} jobs")


@requirement(
    "kick.kicked",
    "The kick command applies only to the currently used tube. It moves jobs into the ready queue.",
)
def test_10000_delayed_jobs_are_kicked_and_reserved(own_server: Target, client: Connection) -> str:
    budget, keys = Budget(SECONDS), random.Random(MOST).sample(range(MOST), MOST)
    jobs = _put(client, budget, [(b"a", key, LONG + key, LONG) for key in keys])
    left = max(len(jobs) - 1 - SOME, 0)
    for bound in (0, 1):
        client.send(f"kick {bound}").reply("KICKED")
    client.confirm("peek-ready", "FOUND", "kick.otherwise-delayed")
    begun = time.monotonic()
    client.send(f"kick {SOME}").reply("KICKED")
    seconds = time.monotonic() - begun
    if seconds * left / SOME > own_server.limits.reply / 2:
        client.created.clear()
        return f"{seconds:.1f} s for {SOME} jobs, which is too slow for {left} at once"
    for bound in (max(left - 10_000, 0), left, 1):
        client.send(f"kick {bound}").reply("KICKED")
    # Their order is a matter of other requirements.
    client.prepares([(client.ask_for_job, "RESERVED")] * len(jobs))
    # They end with their server.
    client.created.clear()
    return budget.reached(-(-MOST // PART), f"times {PART} jobs")


@requirement(
    "list-tubes-watched.list",
    "The list-tubes-watched command returns a list tubes currently being watched by the client.",
)
@pytest.mark.parametrize("order", ORDERS)
def test_a_watch_list_of_every_size(client: Connection, new_tube: NewTube, order: str) -> str:
    names = [new_tube() for _ in range(2 * SIZES)]
    budget, keys = Budget(SECONDS), ORDERS[order](2 * SIZES)
    watched = [client.tube]
    for step in budget.turns(SIZES // STEP):
        dialogue: list[tuple[str, str]] = []
        for key in keys[2 * STEP * step : 2 * STEP * (step + 1)]:
            watched.append(names[key])
            dialogue.append((f"watch {names[key]}", "WATCHING"))
        for number in range(STEP):
            gone = watched.pop(PLACES[number % len(PLACES)](len(watched)))
            dialogue.append((f"ignore {gone}", "WATCHING"))
        client.prepares(dialogue)
        assert sorted(client.tubes_watched()) == sorted(watched)
    client.go_to(*(f"ignore {name}" for name in watched[1:]))
    assert client.tubes_watched() == watched[:1]
    return budget.reached(SIZES // STEP, f"steps of {STEP} tubes")


@requirement("list-tubes.all", "The list-tubes command returns a list of all existing tubes.")
def test_1000_tubes_with_a_job_each(client: Connection, profile: Profile, new_tube: NewTube) -> str:
    budget, tubes, jobs = Budget(SECONDS), [client.tube], list[int]()
    for _ in budget.turns(MANY // PART):
        part = [new_tube() for _ in range(PART)]
        client.go_to(*(f"watch {tube}" for tube in part))
        tubes += part
        jobs += _put_into_each(client, part)
    names = client.tubes()
    assert sorted(set(tubes) - set(names)) == []
    assert len(names) == len(set(names))
    reserved = len(jobs) if "ready" not in profile.deletes else 3
    client.take_jobs(reserved)
    deletes = client.role_of_delete("ready" if "ready" in profile.deletes else "reserved")
    client.says([(f"delete {job}", DELETED) for job in jobs], roles=[deletes] * len(jobs))
    gone = tubes[1::2]
    client.go_to(f"use {client.tube}", *(f"ignore {tube}" for tube in gone))
    assert client.becomes(lambda: _is_true(client.tubes(), gone, client))
    assert {*tubes[::2]} <= {*client.tubes()}
    return budget.reached(MANY // PART, f"times {PART} tubes")


def _put_into_each(client: Connection, tubes: Sequence[str]) -> list[int]:
    """Put a job into each tube, in one go; return their ids."""
    put, role = b"put 0 0 1000 1\r\na\r\n", Role(usual_answer("put", client.profile))
    requests = [line for tube in tubes for line in (f"use {tube}\r\n".encode(), put)]
    roles = [client.usual_role("use"), role] * len(tubes)
    jobs = []
    for number, exchange in enumerate(client.each(requests, roles)):
        if number % 2:
            jobs.append(int(exchange.reply("INSERTED").args[0]))
        else:
            exchange.reply("USING")
    return jobs


def _is_true(listed: list[str], gone: list[str], client: Connection) -> bool:
    """Return whether all of these that are listed are still there."""
    left = [tube for tube in gone if tube in listed]
    return all(client.observe(f"stats-tube {tube}").any_reply().word == "OK" for tube in left)
