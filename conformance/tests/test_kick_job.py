"""Section "Other Commands", continued: kick-job."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect, NewTube
from conformance.dialogue.schedule import Timeline
from reference_server.wire import (
    KICKED,
    NOT_FOUND,
    RESERVED,
)


@requirement(
    "kick-job.kicked",
    "If the given job id exists and is in a buried or delayed state, it will be moved to the "
    "ready queue of the the same tube where it currently belongs.",
)
@pytest.mark.parametrize("state", ["buried", "delayed"])
def test_kick_job_makes_a_job_ready(client: Connection, state: str) -> None:
    job = client.job_in(state)
    client.send(f"kick-job {job}").expect(KICKED)
    assert client.state_of(job) == "ready"
    client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "kick-job.kicked",
    "If the given job id exists and is in a buried or delayed state, it will be moved to the "
    "ready queue of the the same tube where it currently belongs.",
)
def test_kick_job_takes_one_job_only(client: Connection) -> None:
    first, second = client.put(b"a", delay=3600), client.put(b"b", delay=3600)
    client.send(f"kick-job {second}").expect(KICKED)
    assert (client.state_of(first), client.state_of(second)) == ("delayed", "ready")


@requirement(
    "kick-job.kicked",
    "If the given job id exists and is in a buried or delayed state, it will be moved to the "
    "ready queue of the the same tube where it currently belongs.",
)
def test_a_kicked_job_does_not_become_ready_a_second_time(
    client: Connection, clock: Timeline
) -> None:
    job = client.put(b"a", delay=2)
    client.kick_job(job)
    client.reserve().expect(RESERVED(job, b"a"))
    clock.advance(2)
    assert client.state_of(job) == "reserved"
    client.peek_ready().expect(NOT_FOUND)


@requirement(
    "kick-job.same-tube",
    "it will be moved to the ready queue of the the same tube where it currently belongs.",
)
def test_kick_job_leaves_a_job_in_its_tube(client: Connection, new_tube: NewTube) -> None:
    job = client.put_and_bury()
    client.use(new_tube())
    client.kick_job(job)
    assert client.stats_job(job)["tube"] == client.tube
    client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "kick-job.any-tube",
    "The kick-job command is a variant of kick that operates with a single job identified by "
    "its job id.",
)
def test_kick_job_does_not_ask_for_the_used_tube(client: Connection, connect: Connect) -> None:
    for job in (client.put_and_bury(), client.put(b"a", delay=3600)):
        connect().send(f"kick-job {job}").expect(KICKED)
        assert client.state_of(job) == "ready"


@requirement(
    "kick-job.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or is not in a kickable state.',
)
def test_kick_job_of_a_job_that_cannot_be_kicked(client: Connection, other: Connection) -> None:
    reserved = other.put_and_reserve()
    ready = client.put(b"a")
    for job in (ready, reserved):
        client.send(f"kick-job {job}").expect(NOT_FOUND)
