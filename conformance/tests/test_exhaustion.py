"""Exhaustion: replies of a server that gets no more memory, and what is left of its jobs."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect
from conformance.dialogue.schedule import Timeline
from conformance.dialogue.shortage import before_shortage, reply_in_need, run_short
from conformance.target.resources import Resources
from conformance.target.target import Target
from conformance.verdict import Deviation, NotTestable
from reference_server.commands import COMMANDS
from reference_server.profiles import Profile
from reference_server.wire import BURIED, DELETED, FOUND, RELEASED, RESERVED

SPARE = (0, 2**18, 2**21)
"""Bytes by which a server may grow at most, one after the other."""
LARGE = 60_000
"""Bytes of a body that needs memory of its own."""


def _large(server: Target) -> bytes:
    return b"0123456789" * (LARGE // 10 if server.takes(LARGE) else 1)


def _jobs(client: Connection) -> int:
    stats = client.stats()
    return sum(stats.number(f"current-jobs-{state}") for state in ("ready", "buried"))


@requirement(
    "exhaustion.put-out-of-memory",
    r'"OUT_OF_MEMORY\r\n" The server cannot allocate enough memory for the job.',
)
@pytest.mark.parametrize("spare", SPARE)
def test_what_is_refused_is_no_job_and_what_is_not_is_one(
    own_server: Target, client: Connection, connect: Connect, resources: Resources, spare: int
) -> None:
    before = _jobs(client)
    shortage = run_short(own_server, client, resources, spare)
    resources.lift()
    shortage.are_there(client)
    there = _jobs(connect()) - before
    told = len(shortage.jobs)
    if not told <= there <= told + shortage.unclear:
        raise Deviation(
            f"{told} jobs after {shortage.refused} puts were answered OUT_OF_MEMORY",
            f"{there} jobs",
        )


@requirement(
    "exhaustion.put-buried",
    r'"BURIED <id>\r\n" if the server ran out of memory trying to grow the priority queue data '
    "structure.",
)
def test_a_job_that_was_buried_for_want_of_memory_is_buried(
    own_server: Target, client: Connection, resources: Resources
) -> None:
    shortage = run_short(own_server, client, resources)
    resources.lift()
    if not shortage.buried:
        raise NotTestable("the server answered no put with BURIED when it had no memory")
    for job in shortage.buried:
        client.job_is(job, state="buried")


@requirement(
    "exhaustion.release-buried",
    r'"BURIED\r\n" if the server ran out of memory trying to grow the priority queue data '
    "structure.",
)
def test_a_released_job_is_in_the_state_that_was_told(
    own_server: Target, client: Connection, resources: Resources
) -> None:
    with before_shortage():
        jobs = [client.put_and_reserve() for _ in range(20)]
    run_short(own_server, client, resources)
    told = {
        job: reply_in_need(client, client.send(f"release {job} 5 0"), "RELEASED", "BURIED").word
        for job in jobs
    }
    resources.lift()
    states = {"RELEASED": "ready", "BURIED": "buried"}
    for job, word in told.items():
        client.job_is(job, **({"state": states[word]} if word in states else {"id": job}))


@requirement(
    "exhaustion.in-step",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_behind_a_body_that_was_refused_the_next_command_is_read(
    own_server: Target, client: Connection, resources: Resources
) -> None:
    shortage = run_short(own_server, client, resources)
    for body in (b"stats\r\n" * 500, b"\r\n" * 2000, _large(own_server)):
        shortage.put(client, body)
        ping = client.raw(client.ping)
        reply_in_need(client, ping, client.pong.word)
    resources.lift()
    client.is_in_step()


@requirement(
    "exhaustion.earlier-jobs",
    "The server never inspects or modifies a job body and always sends it back in its original "
    "form.",
)
def test_jobs_from_before_are_whole_afterwards(
    own_server: Target, client: Connection, resources: Resources
) -> None:
    body = _large(own_server)
    states = ("buried", "reserved", "delayed", "ready")
    with before_shortage():
        jobs = {client.job_in(state): state for state in states}
        whole = client.put(body, pri=7)
    run_short(own_server, client, resources)
    resources.lift()
    for job, state in jobs.items():
        client.job_is(job, state=state)
        client.send(f"peek {job}").expect(FOUND(job, b"a"))
    client.send(f"peek {whole}").expect(FOUND(whole, body))


@requirement(
    "exhaustion.any-command",
    "if the server has an error, the server will reply with one of the following error messages",
)
def test_each_command_is_answered_without_memory(
    own_server: Target,
    client: Connection,
    other: Connection,
    resources: Resources,
    profile: Profile,
) -> None:
    with before_shortage():
        lines = [line for line in _lines(client) if line.partition(" ")[0] in profile.commands]
        for grammar in (COMMANDS[verb] for verb in {line.partition(" ")[0] for line in lines}):
            if grammar.probe is not None:
                other.send(grammar.probe).any_reply()
    run_short(own_server, client, resources)
    for line in lines:
        verb = line.partition(" ")[0]
        reply_in_need(client, client.send(line), *COMMANDS[verb].replies)
    resources.lift()
    client.raw(client.ping).reply(client.pong.word)


def _lines(client: Connection) -> list[str]:
    """Return commands of all kinds, about jobs that there are."""
    held, ready = client.put_and_reserve(), client.put(b"a", pri=5)
    tubes = [
        f"{verb} {client.tube[:20]}-{number}" for verb in ("use", "watch") for number in range(9)
    ]
    return [
        *tubes,
        *("list-tubes", "list-tubes-watched", "list-tube-used", "stats", f"stats-job {ready}"),
        *(f"stats-tube {client.tube}", f"peek {ready}", "peek-ready", "peek-delayed"),
        *("peek-buried", f"touch {held}", f"release {held} 5 0", "reserve-with-timeout 0"),
        *(f"bury {held} 5", "kick 1", f"pause-tube {client.tube} 0", f"delete {ready}"),
        *(f"ignore {client.tube}", f"kick-job {held}", f"reserve-job {held}"),
    ]


@requirement(
    "exhaustion.not-found",
    '"NOT_FOUND\\r\\n" if the requested job doesn\'t exist or there are no jobs in the requested '
    "state.",
)
def test_a_job_that_is_there_is_found_without_memory(
    own_server: Target, client: Connection, resources: Resources
) -> None:
    body = _large(own_server)
    with before_shortage():
        job = client.put(body)
    run_short(own_server, client, resources)
    for line in (f"peek {job}", f"stats-job {job}", "peek-ready"):
        if client.profile.commands >= {line.partition(" ")[0]}:
            reply_in_need(client, client.send(line), "FOUND", "OK")
    resources.lift()
    client.send(f"peek {job}").expect(FOUND(job, body))


@requirement(
    "exhaustion.memory-serves-again",
    r'"OUT_OF_MEMORY\r\n" The server cannot allocate enough memory for the job. The client should '
    "try again later.",
)
def test_when_there_is_memory_again_it_serves_as_before(
    own_server: Target,
    client: Connection,
    connect: Connect,
    new_producer: Connect,
    resources: Resources,
    clock: Timeline,
) -> None:
    waits = client.send("reserve")
    # In default, where this client does not wait.
    run_short(own_server, connect(), resources)
    resources.lift()
    body = _large(own_server)
    job = new_producer().put(body)
    waits.expect(RESERVED(job, body))
    client.send(f"release {job} 0 1").expect(RELEASED)
    clock.advance(1)
    client.reserve().expect(RESERVED(job, body))
    client.send(f"bury {job} 0").expect(BURIED)
    client.send(f"delete {job}").expect(DELETED)
