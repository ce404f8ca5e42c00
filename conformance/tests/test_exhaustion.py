"""Exhaustion: replies of a server that gets no more memory, and what is left of its jobs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

import pytest

from conformance.catalogue import configured, requirement
from conformance.dialogue.bulk import Bulk, shortfall
from conformance.dialogue.connection import Connection
from conformance.dialogue.growth import LONG
from conformance.dialogue.scenario import Connect
from conformance.dialogue.schedule import Timeline
from conformance.dialogue.shortage import (
    LARGE_SIZES,
    Lack,
    Shortage,
    before_shortage,
    let_calls_succeed,
    reply_in_need,
    short_of_memory,
    within,
)
from conformance.target.resources import Resources
from conformance.target.target import Target
from conformance.verdict import Deviation, NotTestable
from reference_server.commands import COMMANDS
from reference_server.profiles import Profile
from reference_server.wire import DELETED, FOUND, KICKED_COUNT, RESERVED

LACKS = (
    pytest.param(within(0), id="no-growth"),
    pytest.param(within(2**18), id="256-KB"),
    pytest.param(within(2**21), id="2-MB"),
    pytest.param(Resources.refuse_allocations, id="no-allocation"),
)
LARGE = 60_000
"""Bytes of a body that needs memory of its own."""
CALLS = ("read", "readv", "recvfrom", "recvmsg", "write", "writev", "sendto", "sendmsg")
"""The calls by which a server reads from its clients, and writes to them."""
CROWD, SAMPLE = 49_153, 23
"""Jobs with which, and three more, beanstalkd's table is full; one in so many is looked for."""
TUBES, EACH = 8_180, 511
"""Tubes with which, and twelve more, beanstalkd's list is full; of one client who watches some."""
MANY, HELD = 20, 100
"""Jobs or clients for which a queue has to grow, and jobs of one client."""

in_each_way = pytest.mark.parametrize("lack", [LACKS[0], LACKS[-1]])


def _large(server: Target) -> bytes:
    return b"0123456789" * (LARGE // 10 if server.takes(LARGE) else 1)


def _jobs(client: Connection) -> int:
    stats = client.stats()
    return sum(stats.number(f"current-jobs-{state}") for state in ("ready", "buried"))


@requirement(
    "exhaustion.put-out-of-memory",
    r'"OUT_OF_MEMORY\r\n" The server cannot allocate enough memory for the job.',
)
@configured(allocations=True)
@pytest.mark.parametrize("lack", LACKS)
def test_what_is_refused_is_no_job_and_what_is_not_is_one(
    own_server: Target, client: Connection, connect: Connect, resources: Resources, lack: Lack
) -> None:
    with before_shortage():
        before = _jobs(client)
    with short_of_memory(own_server, client, resources, lack) as shortage:
        pass
    shortage.are_there(client)
    there = _jobs(connect()) - before
    inserted = len(shortage.jobs)
    if not inserted <= there <= inserted + shortage.unclear:
        raise Deviation(
            f"{inserted} jobs after {shortage.refused} puts were answered OUT_OF_MEMORY",
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
    with short_of_memory(own_server, client, resources, within(0)) as shortage:
        pass
    if not shortage.buried:
        raise NotTestable("the server answered no put with BURIED when it had no memory")
    for job in shortage.buried:
        client.job_is(job, state="buried")


@requirement(
    "exhaustion.release-buried",
    r'"BURIED\r\n" if the server ran out of memory trying to grow the priority queue data '
    "structure.",
)
@configured(allocations=True)
@in_each_way
def test_a_released_job_is_in_the_state_that_was_told(
    own_server: Target, client: Connection, resources: Resources, lack: Lack
) -> None:
    with before_shortage():
        jobs = [client.put_and_reserve() for _ in range(MANY)]
    with short_of_memory(own_server, client, resources, lack):
        answers = {
            job: reply_in_need(client, client.send(f"release {job} 5 0"), "RELEASED", "BURIED").word
            for job in jobs
        }
    states = {"RELEASED": "ready", "BURIED": "buried"}
    for job, word in answers.items():
        client.job_is(job, **({"state": states[word]} if word in states else {"id": job}))


@requirement(
    "exhaustion.kick-count",
    "<count> is an integer indicating the number of jobs actually kicked.",
)
@configured(allocations=True)
@in_each_way
def test_as_many_jobs_are_kicked_as_was_told(
    own_server: Target, client: Connection, resources: Resources, lack: Lack
) -> None:
    with before_shortage():
        for _ in range(MANY):
            client.job_in("buried")
        before = client.stats().number("current-jobs-buried")
    with short_of_memory(own_server, client, resources, lack) as shortage:
        kick = client.send(f"kick {MANY}")
        reply = reply_in_need(client, kick, "KICKED")
    left = client.stats().number("current-jobs-buried") - len(shortage.buried)
    if reply.word == "KICKED":
        kick.expect(KICKED_COUNT(before - left))


@requirement(
    "exhaustion.in-step",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
@configured(allocations=True)
@in_each_way
def test_behind_a_body_that_was_refused_the_next_command_is_read(
    own_server: Target, client: Connection, resources: Resources, lack: Lack
) -> None:
    with short_of_memory(own_server, client, resources, lack) as shortage:
        for body in (b"stats\r\n" * 500, b"\r\n" * 2000, _large(own_server)):
            shortage.put(client, body)
            ping = client.raw(client.ping)
            reply_in_need(client, ping, client.pong.word)
    client.is_in_step()


@requirement(
    "exhaustion.in-step",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_calls_that_are_interrupted_are_made_again(
    own_server: Target, client: Connection, resources: Resources
) -> None:
    body = _large(own_server)
    resources.fail("EINTR", *CALLS, step=2)
    shortage = Shortage()
    for _ in range(MANY):
        if shortage.put(client, body):
            reply_in_need(client, client.send(client.ask_for_job), "RESERVED")
    for job in shortage.jobs:
        reply_in_need(client, client.send(f"delete {job}"), "DELETED")
    let_calls_succeed(resources)
    client.is_in_step()


@requirement(
    "exhaustion.earlier-jobs",
    "The server never inspects or modifies a job body and always sends it back in its original "
    "form.",
)
@configured(allocations=True)
@in_each_way
def test_jobs_from_before_are_whole_afterwards(
    own_server: Target, client: Connection, resources: Resources, lack: Lack
) -> None:
    body = _large(own_server)
    states = ("buried", "reserved", "delayed", "ready")
    with before_shortage():
        jobs = {client.job_in(state): state for state in states}
        whole = client.put(body, pri=7)
    with short_of_memory(own_server, client, resources, lack):
        pass
    for job, state in jobs.items():
        client.job_is(job, state=state)
        client.tested.peek(job).expect(FOUND(job, b"a"))
    client.tested.peek(whole).expect(FOUND(whole, body))


@requirement(
    "exhaustion.expiry-keeps-jobs",
    "If the worker does not delete, release, or bury the job within <ttr> seconds, the job will "
    "time out and the server will release the job.",
)
@requirement(
    "exhaustion.delay-keeps-jobs",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue.",
)
@requirement(
    "exhaustion.kick-keeps-jobs",
    "The kick command applies only to the currently used tube. It moves jobs into the ready queue.",
)
@requirement(
    "exhaustion.release-keeps-jobs",
    "The release command puts a reserved job back into the ready queue",
)
@configured(allocations=True)
@in_each_way
def test_jobs_that_come_back_without_memory_are_not_lost(
    own_server: Target,
    client: Connection,
    other: Connection,
    connect: Connect,
    new_client: Connect,
    resources: Resources,
    clock: Timeline,
    lack: Lack,
) -> None:
    with before_shortage():
        back = [other.put_and_reserve() for _ in range(MANY)]
        # A client that holds one of these is in its safety margin.
        holders = [new_client() for _ in range(MANY)]
        buried = [client.put_and_bury() for _ in range(MANY)]
        released = [client.put_and_reserve() for _ in range(MANY)]
        late = [holder.put_and_reserve(ttr=1) for holder in holders]
        due = [client.put(b"a", delay=1) for _ in range(MANY)]
        has_kick_job = "kick-job" in client.profile.commands
        delayed = [client.put(b"a", delay=3600) for _ in range(MANY * has_kick_job)]
    # In default: the jobs that fill the memory leave no room in the queue of this tube.
    producer = connect()
    with short_of_memory(own_server, producer, resources, lack):
        other.close()
        for job in released:
            reply_in_need(client, client.send(f"release {job} 0 0"), "RELEASED", "BURIED")
        reply_in_need(client, client.send(f"kick {MANY}"), "KICKED")
        for job in delayed:
            client.send(f"kick-job {job}").any_reply()
        clock.advance(1)
        for holder in holders:
            holder.raw(holder.ping).any_reply()
    for holder in holders:
        # Whether the time of an idle client's job ends is another requirement.
        holder.close()
    for _ in range(2):
        # First those that are buried are kicked, then those that are still delayed.
        client.send(f"kick {9 * MANY}").any_reply()
    jobs = {
        "disconnect": back,
        "kick": [*buried, *delayed],
        "release": released,
        "expiry": late,
        "delay": due,
    }
    for name, part in jobs.items():
        try:
            client.says([(f"peek {job}", FOUND(job, b"a")) for job in part])
        except Deviation as deviation:
            deviation.owner = f"exhaustion.{name}-keeps-jobs"
            raise
    _each_is_given_once(client, jobs)


def _each_is_given_once(client: Connection, jobs: Mapping[str, Sequence[int]]) -> None:
    """Expect that jobs are ready or buried, unless a client has kept them; by how they came back.

    A job may be in no queue though its state says so: then nobody gets it.
    """
    every = [job for part in jobs.values() for job in part]
    for job in every:
        client.eventually(partial(_is_back, client, job), with_ends=True, soon=True)
        if client.state_of(job) == "reserved":
            # A release may have been refused.
            client.send(f"release {job} 0 0").any_reply()
    client.send(f"kick {len(every)}").any_reply()
    given = Counter[int]()
    for _ in range(2 * len(every)):
        reply = client.observe(client.ask_for_job).any_reply()
        if reply.word != "RESERVED":
            break
        job = int(reply.args[0])
        # One that has timed out since is ready, and is given again.
        given[job] += client.send(f"delete {job}").any_reply() == DELETED
    for name, part in jobs.items():
        for job in part:
            if given[job] != 1:
                state = "" if given[job] else f": it is {client.state_of(job)[:100]}"
                observed = f"{given[job]} times{state}"
                deviation = Deviation(f"job {job} given once", observed, conclusive=True)
                deviation.owner = f"exhaustion.{name}-keeps-jobs"
                raise deviation


def _is_back(client: Connection, job: int) -> bool:
    return client.state_of(job) in ("ready", "buried")


@requirement(
    "exhaustion.disconnect-keeps-jobs",
    'The worker will execute the job; when it is finished the worker will send a "delete" command '
    "to delete the job.",
)
@configured(allocations=True)
@in_each_way
def test_jobs_of_a_client_that_leaves_without_memory_are_ready_or_buried(
    own_server: Target,
    client: Connection,
    other: Connection,
    connect: Connect,
    resources: Resources,
    lack: Lack,
) -> None:
    with before_shortage():
        # One after the other: the queue needs room for all only when they come back.
        jobs = [other.put_and_reserve() for _ in range(HELD)]
    # The jobs that fill the memory are in default, and leave no room in the queue of this tube.
    producer = connect()
    with short_of_memory(own_server, producer, resources, lack):
        other.close()
        for _ in range(5):
            reply_in_need(producer, producer.raw(producer.ping), producer.pong.word)
    for job in jobs:
        if not client.eventually(partial(_is_back, client, job), with_ends=True):
            observed = client.state_of(job)
            raise Deviation(f"job {job} of a client that has left ready or buried", observed[:200])
    client.send(f"kick {HELD}").any_reply()
    # Each is given to somebody, and once.
    given = [int(client.reserve().reply("RESERVED").args[0]) for _ in jobs]
    assert sorted(given) == jobs


@requirement(
    "exhaustion.earlier-jobs",
    "The server never inspects or modifies a job body and always sends it back in its original "
    "form.",
)
def test_of_many_jobs_none_is_lost_when_no_more_are_taken(
    own_server: Target, client: Connection, resources: Resources
) -> str:
    bulk = Bulk(client, own_server)
    with before_shortage():
        jobs = bulk.put_some([b"put 5 0 %d 1\r\na\r\n" % LONG] * CROWD, resources)
    with short_of_memory(own_server, client, resources, within(0)) as shortage:
        pass
    shortage.are_there(client)
    some = jobs[::SAMPLE]
    client.says([(f"peek {job}", FOUND(job, b"a")) for job in some])
    if "ready" in client.profile.deletes:
        client.says([(f"delete {job}", DELETED) for job in some])
    shortage.are_there(client)
    return shortfall(len(jobs), CROWD, "jobs at a time")


@requirement(
    "exhaustion.any-command",
    "if the server has an error, the server will reply with one of the following error messages",
)
@configured(allocations=True)
@in_each_way
def test_each_command_is_answered_without_memory(
    own_server: Target,
    client: Connection,
    other: Connection,
    resources: Resources,
    profile: Profile,
    lack: Lack,
) -> None:
    with before_shortage():
        lines = [line for line in _lines(client) if line.partition(" ")[0] in profile.commands]
        for grammar in (COMMANDS[verb] for verb in {line.partition(" ")[0] for line in lines}):
            if grammar.probe is not None:
                other.send(grammar.probe).any_reply()
        for line in [line for line in lines if line.startswith("watch ")][::2]:
            other.send(line).any_reply()
    with short_of_memory(own_server, client, resources, lack):
        for line in lines:
            verb = line.partition(" ")[0]
            reply_in_need(client, client.send(line), *COMMANDS[verb].replies)
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
@configured(allocations=True)
@in_each_way
def test_a_job_that_is_there_is_found_without_memory(
    own_server: Target, client: Connection, resources: Resources, lack: Lack
) -> None:
    body = _large(own_server)
    with before_shortage():
        job = client.put(body)
    with short_of_memory(own_server, client, resources, lack):
        for line in (f"peek {job}", f"stats-job {job}", "peek-ready"):
            if client.profile.commands >= {line.partition(" ")[0]}:
                reply_in_need(client, client.send(line), "FOUND", "OK")
    client.tested.peek(job).expect(FOUND(job, body))


@requirement(
    "exhaustion.reserve-waits",
    "If no job is available to be reserved, beanstalkd will wait to send a response until one "
    "becomes available.",
)
@configured(allocations=True)
@in_each_way
def test_who_begins_to_wait_without_memory_gets_a_job(
    own_server: Target,
    connect: Connect,
    new_client: Connect,
    resources: Resources,
    lack: Lack,
) -> None:
    with before_shortage():
        workers = [new_client() for _ in range(MANY)]
    # In default, where nobody waits.
    producer = connect()
    with short_of_memory(own_server, producer, resources, lack):
        waits = [worker.send("reserve") for worker in workers]
        producer.raw(producer.ping).any_reply()
    client = new_client()
    for _ in workers:
        client.put(b"a")
    for worker, wait in zip(workers, waits, strict=True):
        # A server that cannot note who waits may say so in this way, too.
        reply_in_need(worker, wait, "RESERVED", "TIMED_OUT")


@requirement("exhaustion.new-tube", "Tubes are created on demand whenever they are referenced.")
def test_a_tube_that_was_created_without_memory_is_one_for_all(
    own_server: Target,
    client: Connection,
    worker: Connection,
    connect: Connect,
    resources: Resources,
) -> None:
    names = [f"{client.tube}-{number}" for number in range(TUBES + MANY)]
    made, new = names[:TUBES], names[TUBES:]
    with before_shortage():
        for first in range(0, TUBES, EACH):
            some = made[first : first + EACH]
            Bulk(connect(), own_server).ask("".join(f"watch {tube}\r\n" for tube in some).encode())
    with short_of_memory(own_server, connect(), resources, within(0), LARGE_SIZES):
        watched = [
            tube
            for tube in new
            if reply_in_need(worker, worker.send(f"watch {tube}"), "WATCHING").word == "WATCHING"
        ]
    for tube in watched:
        client.use(tube)
        job = client.put(b"a")
        worker.tested.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "exhaustion.memory-serves-again",
    r'"OUT_OF_MEMORY\r\n" The server cannot allocate enough memory for the job. The client should '
    "try again later.",
)
@configured(allocations=True)
@in_each_way
def test_when_there_is_memory_again_it_serves_as_before(
    own_server: Target,
    client: Connection,
    connect: Connect,
    new_producer: Connect,
    resources: Resources,
    clock: Timeline,
    lack: Lack,
) -> None:
    waits = client.reserve_waiting()
    # In default, where this client does not wait.
    with short_of_memory(own_server, connect(), resources, lack):
        pass
    connect().tested.linger()
    body = _large(own_server)
    job = new_producer().tested.put(body)
    waits.expect(RESERVED(job, body))
    client.tested.release(job, delay=1)
    clock.advance(1)
    client.reserve().expect(RESERVED(job, body))
    client.tested.bury(job)
    client.tested.delete(job)
