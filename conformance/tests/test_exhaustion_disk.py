"""Exhaustion: jobs of a server that cannot write its binlog."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from conformance.catalogue import configured, requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.growth import LONG
from conformance.dialogue.scenario import Connect
from conformance.dialogue.shortage import (
    Shortage,
    before_shortage,
    let_calls_succeed,
    reply_in_need,
    short_of_memory,
)
from conformance.target.resources import FAULTS, Resources
from conformance.target.target import Target
from conformance.target.transport import wait_for
from conformance.verdict import Deviation, NotTestable, Outage, OutcomeKind, TargetLost
from reference_server.commands import COMMANDS
from reference_server.profiles import Profile
from reference_server.wire import FOUND, NOT_FOUND

_SIGNAL = "SIGXFSZ"
BODY = b"0123456789" * 100
LARGE = BODY * 60
MANY = 30
"""Jobs of a kind whose changes fill a small file."""
PARTS = [0.005, 0.03, 0.1, 0.3] * 9
"""Parts of its allocations that fail when a server starts; which of them, is a matter of chance."""
DESCRIPTORS = range(4, 12)
"""Numbers of descriptors with which a server starts, or does not."""
STARTS, FEWEST = 1.0, 8
"""Seconds after which it is not tried again, and the times that it is tried in any case."""
OF_THE_RUNTIME = 2
"""Crashes at starts without memory that may be those of a runtime; CPython has one in 700."""
A_FILE = 10 * 2**20
"""Bytes of a file that a server may make at once, and that is full when another one is needed."""


Limit = Callable[[Resources], object]
"""It lets a server write no more, at once or later."""


def _up_to(size: int) -> Limit:
    """Let nothing be written into files beyond a size in bytes."""
    return lambda resources: resources.limit_files(size)


_nothing = _up_to(0)


def _no_new_file(resources: Resources) -> None:
    """Let no file be opened or get room."""
    resources.fail("ENOSPC", "open", "openat", "creat", "fallocate")


def _no_sync(resources: Resources) -> None:
    """Let nothing that was written be brought to the disk."""
    resources.fail("EIO", "fsync", "fdatasync", "msync", "sync_file_range")


@contextlib.contextmanager
def _full(
    server: Target,
    client: Connection,
    resources: Resources,
    limit: Limit = _nothing,
    body: bytes = BODY,
) -> Iterator[None]:
    """Let a server have no room on its disk, for a while.

    Raises NotTestable if a signal ends it, if it takes no such job before, or if it made none of
    the system calls that were to fail.
    """
    with before_shortage():
        client.put(body)
    limit(resources)
    try:
        yield
    except TargetLost as lost:
        if _SIGNAL in lost.observed or _SIGNAL in server.said():
            raise NotTestable(
                f"{_SIGNAL} has ended the server, which was started with it ignored: a full disk"
                " sends no signal"
            ) from lost
        raise
    let_calls_succeed(resources)


@requirement(
    "exhaustion.disk-put",
    "during normal operation, append new jobs and changes in state to the binlog.",
)
@configured(binlog=True, heedless=True)
@pytest.mark.parametrize(
    "room", [pytest.param(0, id="at-once"), pytest.param(100_000, id="in-a-record")]
)
def test_jobs_that_were_taken_while_the_disk_was_full_are_kept(
    own_server: Target, client: Connection, connect: Connect, resources: Resources, room: int
) -> None:
    shortage = _filled(own_server, client, resources, _up_to(room), BODY, room)
    _are_kept(own_server, connect, shortage)


@requirement(
    "exhaustion.disk-new-file",
    "during normal operation, append new jobs and changes in state to the binlog.",
)
@configured(binlog=True, heedless=True)
@pytest.mark.parametrize(
    "limit",
    [pytest.param(_up_to(A_FILE - 1), id="smaller"), pytest.param(_no_new_file, id="none")],
)
def test_jobs_that_were_taken_while_there_was_no_room_for_another_file_are_kept(
    own_server: Target, client: Connection, connect: Connect, resources: Resources, limit: Limit
) -> None:
    own_server.needs_body(len(LARGE))
    shortage = _filled(own_server, client, resources, limit, LARGE, A_FILE)
    _are_kept(own_server, connect, shortage)


def _filled(
    server: Target, client: Connection, resources: Resources, limit: Limit, body: bytes, room: int
) -> Shortage:
    """Return the answers to puts of more than ``room`` bytes, while there is no more."""
    shortage = Shortage()
    with _full(server, client, resources, limit, body):
        for _ in range(room // len(body) + 20):
            shortage.put(client, body)
    return shortage


@requirement(
    "exhaustion.disk-put",
    "during normal operation, append new jobs and changes in state to the binlog.",
)
@configured(binlog=True, heedless=True)
def test_jobs_that_were_taken_while_nothing_could_be_synced_are_kept(
    own_server: Target, client: Connection, connect: Connect, resources: Resources
) -> None:
    shortage, puts = Shortage(), []
    with _may_give_up():
        with _full(own_server, client, resources, _no_sync):
            for _ in range(3):
                puts.append(shortage.sent(client, BODY))
                # It may sync a little later, or answer only when that can be done.
                wait_for([], own_server.limits.soon)
        for put in puts:
            shortage.is_taken(client, put, BODY)
    _are_kept(own_server, connect, shortage)


@contextlib.contextmanager
def _may_give_up() -> Iterator[None]:
    """Let a server exit, as some do that cannot sync; a signal that ends it is a crash."""
    try:
        yield
    except TargetLost as lost:
        if lost.outage.signal or lost.outage.kind is not OutcomeKind.CRASHED:
            raise


def _are_kept(server: Target, connect: Connect, shortage: Shortage) -> None:
    """Expect that a server has the jobs that it has taken when it is started again."""
    server.restart()
    client = connect()
    lost = [job for job in shortage.jobs if client.tested.peek(job).any_reply() == NOT_FOUND]
    if lost:
        raise Deviation(
            "all jobs that were answered with an id",
            f"{len(lost)} of {len(shortage.jobs)} lost, the first is {lost[0]}",
        )
    shortage.are_there(client)


@requirement(
    "exhaustion.disk-delete",
    "during normal operation, append new jobs and changes in state to the binlog.",
)
@configured(binlog=True, heedless=True)
def test_a_job_that_was_deleted_while_the_disk_was_full_does_not_come_back(
    own_server: Target, client: Connection, connect: Connect, resources: Resources
) -> None:
    with before_shortage():
        jobs = client.put_many([BODY] * 5)
    with _full(own_server, client, resources):
        deletes = [(job, client.send(f"delete {job}")) for job in jobs]
        # It may be answered only when it can be written.
        wait_for([client.transport], own_server.limits.soon)
    words = {job: reply_in_need(client, delete, "DELETED").word for job, delete in deletes}
    own_server.restart()
    client = connect()
    for job, word in words.items():
        if word == "DELETED":
            client.tested.peek(job).expect(NOT_FOUND)


@requirement(
    "exhaustion.disk-earlier-jobs",
    "Use a binlog to keep jobs on persistent storage in directory path.",
)
@configured(binlog=True, heedless=True)
def test_jobs_from_before_are_kept_when_the_disk_was_full(
    own_server: Target, client: Connection, connect: Connect, resources: Resources
) -> None:
    with before_shortage():
        buried = client.put_and_bury()
        jobs = {client.put(BODY, pri=7): "ready", client.put(BODY, delay=LONG): "delayed"}
    with _full(own_server, client, resources):
        for _ in range(5):
            Shortage().put(client, BODY)
    own_server.restart()
    client = connect()
    for job, state in {**jobs, buried: "buried"}.items():
        client.job_is(job, state=state)
        client.tested.peek(job).expect(FOUND(job, b"a" if job == buried else BODY))


@requirement(
    "exhaustion.disk-earlier-jobs",
    "Use a binlog to keep jobs on persistent storage in directory path.",
)
@configured(binlog=True, heedless=True)
def test_a_job_is_kept_that_was_buried_when_the_disk_was_full(
    own_server: Target, client: Connection, connect: Connect, resources: Resources
) -> None:
    with before_shortage():
        job = client.put_and_reserve(ttr=LONG)
    with _full(own_server, client, resources):
        bury = client.send(f"bury {job} 5")
        # It may be answered only when it can be written.
        wait_for([client.transport], own_server.limits.soon)
    reply_in_need(client, bury, "BURIED")
    own_server.restart()
    connect().tested.peek(job).expect(FOUND(job, b"a"))


@requirement(
    "exhaustion.disk-earlier-jobs",
    "Use a binlog to keep jobs on persistent storage in directory path.",
)
@configured(binlog=True, allocations=True)
def test_jobs_that_change_without_memory_are_kept(
    own_server: Target,
    client: Connection,
    connect: Connect,
    resources: Resources,
    profile: Profile,
) -> None:
    with before_shortage():
        held = client.put_many([b"a"] * MANY, ttr=LONG)
        for _ in held:
            client.reserve().reply("RESERVED")
        others = [client.job_in(state) for state in ("buried", "delayed") for _ in range(MANY)]
    lines = [
        *(f"bury {job} 5" for job in held[::2]),
        *(f"release {job} 5 {LONG}" for job in held[1::2]),
        *[f"kick {MANY}"] * 3,
        *(f"kick-job {job}" for job in others if "kick-job" in profile.commands),
    ]
    with short_of_memory(own_server, client, resources, Resources.refuse_allocations):
        for line in lines:
            reply_in_need(client, client.send(line), *COMMANDS[line.partition(" ")[0]].replies)
    own_server.restart()
    connect().says([(f"peek {job}", FOUND(job, b"a")) for job in (*held, *others)])


@requirement(
    "exhaustion.disk-earlier-jobs",
    "Use a binlog to keep jobs on persistent storage in directory path.",
)
@configured(binlog=True, allocations=True)
@pytest.mark.parametrize(
    ("start", "degrees", "most"),
    [
        pytest.param(Resources.try_with_descriptors, DESCRIPTORS, 0, id="descriptors"),
        pytest.param(Resources.try_with_allocations, PARTS, OF_THE_RUNTIME, id="allocations"),
    ],
)
def test_jobs_are_kept_when_a_server_cannot_start(
    own_server: Target,
    client: Connection,
    connect: Connect,
    resources: Resources,
    start: Callable[[Resources, float], Outage | None],
    degrees: Sequence[float],
    most: int,
) -> None:
    with before_shortage():
        jobs = {client.job_in(state): state for state in ("buried", "delayed", "ready")}
        jobs |= dict.fromkeys(client.put_many([b"a"] * 2 * MANY), "ready")
    end = time.monotonic() + STARTS
    crashes = 0
    for number, degree in enumerate(degrees):
        if number >= FEWEST and time.monotonic() > end:
            break
        outage = start(resources, degree)
        if outage is None:
            continue
        crashes += outage.signal in FAULTS
        if crashes > most or outage.kind is OutcomeKind.HANGS:
            raise Deviation("a server that starts, or ends with a message", str(outage))
    own_server.restart()
    again = connect()
    again.says([(f"peek {job}", FOUND(job, b"a")) for job in jobs])
    for job, state in jobs.items():
        again.job_is(job, state=state)


@requirement(
    "exhaustion.disk-serves-again",
    "Upon startup, beanstalkd will recover any binlog that is present in path, then, during "
    "normal operation, append new jobs and changes in state to the binlog.",
)
@configured(binlog=True, heedless=True)
def test_when_the_disk_has_room_again_jobs_are_kept(
    own_server: Target, client: Connection, connect: Connect, resources: Resources
) -> None:
    with _full(own_server, client, resources):
        for _ in range(5):
            Shortage().put(client, BODY)
    job = client.tested.put(BODY)
    own_server.restart()
    connect().tested.peek(job).expect(FOUND(job, BODY))
