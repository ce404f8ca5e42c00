"""Beside the text: commands do the same whatever else there is.

Each dialogue is held beside many clients, tubes and jobs, by a client with a past, when the
producer has left, with large bodies, and in drain mode. It yields when its jobs are put: in drain
mode, a server takes no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import pytest
from _pytest.mark import ParameterSet

from conformance.catalogue import requirement
from conformance.dialogue import circumstances
from conformance.dialogue.circumstances import A_WHILE, Circumstance
from conformance.dialogue.connection import Connection
from conformance.dialogue.drain import drain, is_documented
from conformance.dialogue.scaled_lines import largest_body
from conformance.dialogue.scenario import Connect, NewTube
from conformance.dialogue.schedule import Timeline
from conformance.target.target import Target
from conformance.verdict import NotApplicable
from reference_server.wire import (
    DEADLINE_SOON,
    KICKED,
    NOT_FOUND,
    RESERVED,
)

LARGE = 65_535
"""Bytes of a large body, if the server takes so much."""


class Life(NamedTuple):
    """The parts of a dialogue; all clients are on its tube."""

    client: Connection
    producer: Connection
    """It puts the jobs; often the client. If not, nobody uses their tube when it has left."""
    new_client: Connect
    body: bytes


Dialogue = Callable[[Life], Iterator[None]]
TimedDialogue = Callable[[Life, Timeline], Iterator[None]]
D = TypeVar("D", Dialogue, TimedDialogue)
AT_ONCE: list[ParameterSet] = []
"""Dialogues that take no time."""
IN_TIME: list[ParameterSet] = []
"""Dialogues in which time passes."""


def _is_one_of(dialogues: list[ParameterSet], slug: str, clause: str) -> Callable[[D], D]:
    """Return a decorator that adds a dialogue, which tests a requirement."""

    def add(dialogue: D) -> D:
        dialogues.append(pytest.param(dialogue, marks=requirement(slug, clause), id=slug))
        return dialogue

    return add


# ------------------------------------------------------------ dialogues


@_is_one_of(
    AT_ONCE,
    "put.smaller-priority-first",
    "Jobs with smaller priority values will be scheduled before jobs with larger priorities.",
)
def _smaller_priorities_come_first(life: Life) -> Iterator[None]:
    jobs = {pri: life.producer.put(life.body, pri=pri) for pri in (5, 2, 9)}
    yield
    for _, job in sorted(jobs.items()):
        life.client.reserve().expect(RESERVED(job, life.body))


@_is_one_of(AT_ONCE, "release.new-priority", "<pri> is a new priority to assign to the job.")
def _release_assigns_a_priority(life: Life) -> Iterator[None]:
    first, second = (life.producer.put(life.body, pri=pri) for pri in (1, 5))
    yield
    life.client.hold(first, life.body)
    life.client.release(first, pri=9)
    life.client.reserve().expect(RESERVED(second, life.body))
    life.client.reserve().expect(RESERVED(first, life.body))


@_is_one_of(
    AT_ONCE,
    "bury.fifo",
    "Buried jobs are put into a FIFO linked list",
)
def _buried_jobs_are_kicked_in_order(life: Life) -> Iterator[None]:
    first, second = (life.producer.put(life.body, pri=pri) for pri in (1, 5))
    yield
    life.client.hold(first, life.body)
    life.client.hold(second, life.body)
    for job in (second, first):
        life.client.bury(job, pri=3)
    if life.producer is not life.client:
        life.client.use(life.client.tube)
    for job in (second, first):
        life.client.kick_one()
        life.client.reserve().expect(RESERVED(job, life.body))


@_is_one_of(
    AT_ONCE,
    "lifecycle.close-releases-jobs",
    'The worker will execute the job; when it is finished the worker will send a "delete" '
    "command to delete the job.",
)
def _jobs_of_a_client_that_leaves_are_ready_again(life: Life) -> Iterator[None]:
    job, leaves = life.producer.put(life.body), life.new_client()
    yield
    leaves.hold(job, life.body)
    leaves.reset()
    life.client.becomes(lambda: life.client.state_of(job) == "ready")
    life.client.reserve().expect(RESERVED(job, life.body))


@_is_one_of(
    AT_ONCE,
    "delete.reserved-by-other",
    r'"NOT_FOUND\r\n" if the job does not exist or is not either reserved by the client, ready, '
    "or buried.",
)
def _a_job_is_deleted_by_its_holder_alone(life: Life) -> Iterator[None]:
    job, holder = life.producer.put(life.body), life.new_client()
    yield
    holder.hold(job, life.body)
    life.client.send(f"delete {job}").expect(NOT_FOUND)
    holder.delete(job)


@_is_one_of(
    AT_ONCE,
    "reserve.waits-for-job",
    "If no job is available to be reserved, beanstalkd will wait to send a response until one "
    "becomes available.",
)
def _a_client_waits_for_a_job(life: Life) -> Iterator[None]:
    job = life.producer.put(life.body)
    yield
    life.client.hold(job, life.body)
    waiting = life.new_client().reserve_waiting()
    life.client.linger()
    waiting.is_pending()
    life.client.release(job)
    waiting.expect(RESERVED(job, life.body))


@_is_one_of(
    AT_ONCE,
    "reserve-job.reserved",
    r'"RESERVED <id> <bytes>\r\n<data>\r\n". See the description for the reserve command.',
)
def _a_job_is_named_by_its_id(life: Life) -> Iterator[None]:
    job = life.producer.put(life.body)
    yield
    life.client.reserve_job(job).expect(RESERVED(job, life.body))
    assert life.client.state_of(job) == "reserved"


@_is_one_of(
    AT_ONCE,
    "kick-job.kicked",
    "If the given job id exists and is in a buried or delayed state, it will be moved to the "
    "ready queue of the the same tube where it currently belongs.",
)
def _a_buried_job_is_kicked_by_its_id(life: Life) -> Iterator[None]:
    job = life.producer.put(life.body)
    yield
    life.client.hold(job, life.body)
    life.client.bury(job)
    life.client.send(f"kick-job {job}").expect(KICKED)
    assert life.client.state_of(job) == "ready"


@_is_one_of(
    IN_TIME,
    "put.ttr-expiry-releases",
    "If the worker does not delete, release, or bury the job within <ttr> seconds, the job "
    "will time out and the server will release the job.",
)
def _a_job_times_out(life: Life, clock: Timeline) -> Iterator[None]:
    job, other = life.producer.put(life.body, ttr=2), life.new_client()
    yield
    life.client.hold(job, life.body)
    clock.advance(2)
    assert other.state_of(job) == "ready"
    other.reserve().expect(RESERVED(job, life.body))


@_is_one_of(
    IN_TIME,
    "touch.postpones-expiry",
    "The command postpones the auto release of a reserved job until TTR seconds from when the "
    "command is issued.",
)
def _touch_gives_the_whole_ttr_again(life: Life, clock: Timeline) -> Iterator[None]:
    job = life.producer.put(life.body, ttr=2)
    yield
    life.client.hold(job, life.body)
    clock.advance(1)
    life.client.touch(job)
    clock.advance(1)
    assert life.client.state_of(job) == "reserved"


@_is_one_of(
    IN_TIME,
    "release.ready-after-delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue.",
)
def _a_released_job_is_delayed(life: Life, clock: Timeline) -> Iterator[None]:
    job = life.producer.put(life.body, pri=1, ttr=A_WHILE)
    yield
    life.client.hold(job, life.body)
    life.client.release(job, pri=4, delay=2)
    clock.advance(1)
    assert life.client.state_of(job) == "delayed"
    clock.advance(1)
    assert life.client.state_of(job) == "ready"
    life.client.reserve().expect(RESERVED(job, life.body))


@_is_one_of(
    IN_TIME,
    "reserve.deadline-soon-in-margin",
    "If the client issues a reserve command during the safety margin, […] the server will "
    r"respond with: DEADLINE_SOON\r\n",
)
def _a_client_is_warned_in_its_safety_margin(life: Life, clock: Timeline) -> Iterator[None]:
    job = life.producer.put(life.body, ttr=3)
    yield
    life.client.hold(job, life.body)
    clock.advance(2)
    life.client.reserve_within(9).expect(DEADLINE_SOON)


@_is_one_of(
    IN_TIME,
    "pause-tube.ends",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def _a_pause_ends(life: Life, clock: Timeline) -> Iterator[None]:
    job = life.producer.put(life.body)
    yield
    life.client.pause(2)
    clock.advance(1)
    life.client.finds_no_job()
    clock.advance(1)
    life.client.reserve().expect(RESERVED(job, life.body))


# ------------------------------------------------------------ circumstances


CIRCUMSTANCES = pytest.mark.parametrize(
    ("begin", "size"),
    [
        pytest.param(circumstances.clients, 1, id="clients"),
        pytest.param(circumstances.tubes, 1, id="tubes"),
        pytest.param(circumstances.waiting_clients, 1, id="waiting clients"),
        pytest.param(circumstances.jobs_held, 1, id="jobs held"),
        pytest.param(circumstances.tubes_watched, 1, id="tubes watched"),
        pytest.param(circumstances.past, 1, id="a past"),
        pytest.param(circumstances.leaving_producer, 1, id="a producer that has left"),
        pytest.param(circumstances.nothing, LARGE, id="large bodies"),
    ],
)


@pytest.mark.parametrize("dialogue", AT_ONCE)
@CIRCUMSTANCES
def test_beside_others_a_command_does_the_same(
    server: Target,
    client: Connection,
    new_client: Connect,
    connect: Connect,
    new_tube: NewTube,
    dialogue: Dialogue,
    begin: Circumstance,
    size: int,
) -> None:
    producer = begin(client, connect, new_tube)
    life = Life(client, producer, new_client, largest_body(server, size))
    _hold(dialogue(life), life)


@pytest.mark.parametrize("dialogue", IN_TIME)
@CIRCUMSTANCES
def test_beside_others_time_does_the_same(
    server: Target,
    client: Connection,
    new_client: Connect,
    connect: Connect,
    new_tube: NewTube,
    clock: Timeline,
    dialogue: TimedDialogue,
    begin: Circumstance,
    size: int,
) -> None:
    producer = begin(client, connect, new_tube)
    life = Life(client, producer, new_client, largest_body(server, size))
    _hold(dialogue(life, clock), life)


def _hold(dialogue: Iterator[None], life: Life) -> None:
    """Hold a dialogue to its end; a client that only puts its jobs leaves then."""
    next(dialogue)
    if life.producer is not life.client:
        life.producer.close()
    next(dialogue, None)


def _drained(dialogue: Iterator[None], server: Target, connect: Connect) -> None:
    """Hold a dialogue with a server that begins to drain when the jobs are put."""
    if not is_documented(server.profile):
        raise NotApplicable(f"the text of {server.profile.name} names no drain mode")
    next(dialogue)
    drain(server, connect)
    next(dialogue, None)


@pytest.mark.parametrize("dialogue", AT_ONCE)
def test_in_drain_mode_a_command_does_the_same(
    own_server: Target,
    client: Connection,
    new_client: Connect,
    connect: Connect,
    dialogue: Dialogue,
) -> None:
    _drained(dialogue(Life(client, client, new_client, b"a")), own_server, connect)


@pytest.mark.parametrize("dialogue", IN_TIME)
def test_in_drain_mode_time_does_the_same(
    own_server: Target,
    client: Connection,
    new_client: Connect,
    connect: Connect,
    clock: Timeline,
    dialogue: TimedDialogue,
) -> None:
    _drained(dialogue(Life(client, client, new_client, b"a"), clock), own_server, connect)
