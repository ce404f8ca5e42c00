"""Section "Other Commands", continued: kick."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import NewTube
from reference_server.wire import BURIED, FOUND, KICKED_COUNT, RESERVED


@requirement(
    "kick.kicked",
    "The kick command applies only to the currently used tube. It moves jobs into the ready queue.",
)
def test_kick_makes_buried_jobs_ready(client: Connection) -> None:
    jobs = [client.put_and_bury() for _ in range(3)]
    client.send("kick 10").expect(KICKED_COUNT(3))
    for job in jobs:
        assert client.state_of(job) == "ready"


@requirement(
    "kick.kicked",
    "The kick command applies only to the currently used tube. It moves jobs into the ready queue.",
)
def test_kick_of_nothing(client: Connection) -> None:
    client.send("kick 10").expect(KICKED_COUNT(0))
    job = client.put(b"a")
    client.send("kick 10").expect(KICKED_COUNT(0))
    assert client.stats_job(job)["kicks"] == "0"


@requirement("kick.used-tube-only", "The kick command applies only to the currently used tube.")
def test_kick_applies_to_the_used_tube_only(client: Connection, new_tube: NewTube) -> None:
    job = client.put_and_bury()
    client.send(f"use {new_tube()}").reply("USING")
    client.send("kick 1").expect(KICKED_COUNT(0))
    assert client.state_of(job) == "buried"


@requirement(
    "kick.buried-only-if-any",
    "If there are any buried jobs, it will only kick buried jobs.",
)
def test_kick_leaves_delayed_jobs_while_there_are_buried_ones(client: Connection) -> None:
    delayed, buried = client.put(b"a", delay=3600), client.put_and_bury()
    client.send("kick 10").expect(KICKED_COUNT(1))
    assert (client.state_of(delayed), client.state_of(buried)) == ("delayed", "ready")


@requirement("kick.otherwise-delayed", "Otherwise it will kick delayed jobs.")
def test_kick_takes_delayed_jobs_by_the_shortest_delay(client: Connection) -> None:
    late, soon = client.put(b"a", delay=3600), client.put(b"b", delay=1800)
    client.send("kick 1").expect(KICKED_COUNT(1))
    assert (client.state_of(late), client.state_of(soon)) == ("delayed", "ready")
    client.send("kick 1").expect(KICKED_COUNT(1))
    assert client.state_of(late) == "ready"


@requirement("kick.otherwise-delayed", "Otherwise it will kick delayed jobs.")
def test_30_delayed_jobs_are_kicked_by_the_shortest_delay(client: Connection) -> None:
    jobs = {n * 7 % 30: client.put(b"a", delay=1000 + n * 7 % 30 * 50) for n in range(30)}
    for n in range(30):
        client.send("peek-delayed").expect(FOUND(jobs[n], b"a"))
        client.send("kick 1").expect(KICKED_COUNT(1))
        assert client.state_of(jobs[n]) == "ready"


@requirement(
    "kick.bound",
    "<bound> is an integer upper bound on the number of jobs to kick. The server will kick no "
    "more than <bound> jobs.",
)
@pytest.mark.parametrize(("bound", "kicked"), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3)])
def test_kick_moves_no_more_than_its_bound(client: Connection, bound: int, kicked: int) -> None:
    for _ in range(3):
        client.put_and_bury()
    client.send(f"kick {bound}").expect(KICKED_COUNT(kicked))
    assert client.stats_tube()["current-jobs-buried"] == str(3 - kicked)


@requirement(
    "kick.bound",
    "<bound> is an integer upper bound on the number of jobs to kick. The server will kick no "
    "more than <bound> jobs.",
)
def test_kick_takes_a_bound_of_32_bits(client: Connection) -> None:
    client.put_and_bury()
    client.send(f"kick {2**32 - 1}").expect(KICKED_COUNT(1))


@requirement("kick.count", "<count> is an integer indicating the number of jobs actually kicked.")
def test_kick_tells_how_many_jobs_it_has_kicked(client: Connection) -> None:
    delayed = [client.put(b"a", delay=3600) for _ in range(5)]
    for _ in range(2):
        client.put_and_bury()
    client.send("kick 4").expect(KICKED_COUNT(2))
    client.send("kick 4").expect(KICKED_COUNT(4))
    client.send("kick 4").expect(KICKED_COUNT(1))
    client.send("kick 4").expect(KICKED_COUNT(0))
    assert [client.stats_job(job)["kicks"] for job in delayed] == ["1"] * 5


@requirement(
    "kick.buried-in-order",
    "Buried jobs are put into a FIFO linked list and will not be touched by the server again "
    'until a client kicks them with the "kick" command.',
)
def test_kick_takes_the_jobs_that_were_buried_first(client: Connection) -> None:
    jobs = [client.put_and_reserve() for _ in range(30)]
    order = jobs[::2] + jobs[1::2][::-1]
    for n, job in enumerate(order):
        client.send(f"bury {job} {n * 7 % 30}").expect(BURIED)
    client.send("kick 20").expect(KICKED_COUNT(20))
    left = {job for job in jobs if client.state_of(job) == "buried"}
    assert left == set(order[20:])


@requirement(
    "kick.keeps-place",
    "Within each priority, it will choose the one that was received first.",
)
def test_a_kicked_job_returns_to_its_old_place(client: Connection) -> None:
    first = client.put_and_bury()
    delayed = client.put(b"a", delay=3600)
    last = client.put(b"a")
    for bound in (1, 1):
        client.send(f"kick {bound}").expect(KICKED_COUNT(1))
    for job in (first, delayed, last):
        client.reserve().expect(RESERVED(job, b"a"))
