"""Section "Other Commands", continued: kick."""

from collections.abc import Sequence

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import NewTube
from reference_server.wire import KICKED_COUNT, RESERVED


def _count(client: Connection, jobs: Sequence[int], state: str) -> int:
    """Return how many of these jobs are in this state."""
    return list(client.states_of(jobs).values()).count(state)


@requirement(
    "kick.kicked",
    "The kick command applies only to the currently used tube. It moves jobs into the ready queue.",
)
def test_kick_makes_buried_jobs_ready(client: Connection) -> None:
    jobs = [client.put_and_bury() for _ in range(3)]
    client.send("kick 10").reply("KICKED")
    for job in jobs:
        assert client.state_of(job) == "ready"


@requirement(
    "kick.kicked",
    "The kick command applies only to the currently used tube. It moves jobs into the ready queue.",
)
def test_kick_takes_a_bound_of_32_bits(client: Connection) -> None:
    job = client.put_and_bury()
    client.send(f"kick {2**32 - 1}").reply("KICKED")
    assert client.state_of(job) == "ready"


@requirement("kick.used-tube-only", "The kick command applies only to the currently used tube.")
def test_kick_applies_to_the_used_tube_only(client: Connection, new_tube: NewTube) -> None:
    job = client.put_and_bury()
    client.use(new_tube())
    client.tested.kick(1)
    assert client.state_of(job) == "buried"


@requirement(
    "kick.buried-only-if-any",
    "If there are any buried jobs, it will only kick buried jobs.",
)
def test_kick_leaves_delayed_jobs_while_there_are_buried_ones(client: Connection) -> None:
    delayed = client.put(b"a", delay=3600)
    client.put_and_bury()
    client.tested.kick(10)
    assert client.state_of(delayed) == "delayed"


@requirement("kick.otherwise-delayed", "Otherwise it will kick delayed jobs.")
def test_kick_takes_delayed_jobs_by_the_shortest_delay(client: Connection) -> None:
    late, soon = client.put(b"a", delay=3600), client.put(b"b", delay=1800)
    client.tested.kick(1)
    assert (client.state_of(late), client.state_of(soon)) == ("delayed", "ready")
    client.tested.kick(1)
    assert client.state_of(late) == "ready"


@requirement("kick.otherwise-delayed", "Otherwise it will kick delayed jobs.")
def test_30_delayed_jobs_are_kicked_by_the_shortest_delay(client: Connection) -> None:
    jobs = {n * 7 % 30: client.put(b"a", delay=1000 + n * 7 % 30 * 50) for n in range(30)}
    for n in range(30):
        client.tested.kick(1)
        assert client.state_of(jobs[n]) == "ready"


@requirement(
    "kick.bound",
    "<bound> is an integer upper bound on the number of jobs to kick. The server will kick no "
    "more than <bound> jobs.",
)
@pytest.mark.parametrize("bound", [0, 1, 2, 3])
@pytest.mark.parametrize("state", ["buried", "delayed"])
def test_kick_moves_no_more_than_its_bound(client: Connection, state: str, bound: int) -> None:
    jobs = [client.job_in(state) for _ in range(4)]
    client.tested.kick(bound)
    ready_jobs = _count(client, jobs, "ready")
    assert ready_jobs <= bound


@requirement("kick.count", "<count> is an integer indicating the number of jobs actually kicked.")
def test_kick_tells_how_many_jobs_it_has_kicked(client: Connection) -> None:
    jobs = [client.put(b"a", delay=3600) for _ in range(5)]
    jobs += [client.put_and_bury() for _ in range(3)]
    ready = 0
    for _ in range(4):
        count = client.tested.kick(4)
        before, ready = ready, _count(client, jobs, "ready")
        assert count == ready - before


@requirement("kick.count", "<count> is an integer indicating the number of jobs actually kicked.")
def test_kick_tells_that_it_has_kicked_nothing(client: Connection) -> None:
    client.send("kick 10").expect(KICKED_COUNT(0))
    client.put(b"a")
    client.send("kick 10").expect(KICKED_COUNT(0))


@requirement("stats-job.kicks", '"kicks" is the number of times this job has been kicked.')
def test_a_ready_job_is_not_kicked(client: Connection) -> None:
    job = client.put(b"a")
    client.tested.kick(10)
    assert client.stats_job(job)["kicks"] == "0"


@requirement(
    "kick.buried-in-order",
    "Buried jobs are put into a FIFO linked list and will not be touched by the server again "
    'until a client kicks them with the "kick" command.',
)
def test_kick_takes_the_jobs_that_were_buried_first(client: Connection) -> None:
    jobs = [client.put_and_reserve() for _ in range(30)]
    order = jobs[::2] + jobs[1::2][::-1]
    for n, job in enumerate(order):
        client.bury(job, pri=n * 7 % 30)
    client.tested.kick(20)
    states = client.states_of(order)
    assert [job for job in order if states[job] == "buried"] == order[20:]


@requirement(
    "kick.keeps-place",
    "Within each priority, it will choose the one that was received first.",
)
def test_a_kicked_job_returns_to_its_old_place(client: Connection) -> None:
    first = client.put_and_bury()
    delayed = client.put(b"a", delay=3600)
    last = client.put(b"a")
    client.tested.kick(1)
    client.tested.kick(1)
    for job in (first, delayed, last):
        client.reserve().expect(RESERVED(job, b"a"))
