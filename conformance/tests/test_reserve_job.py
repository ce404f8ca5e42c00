"""Section "Worker Commands", continued: reserve-job."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import NewTube
from conformance.dialogue.schedule import Timeline
from reference_server.wire import (
    NOT_FOUND,
    RESERVED,
)


@requirement(
    "reserve-job.ttr",
    "Once a job is reserved for the client, the client has limited time to run (TTR) the job "
    "before the job times out. When the job times out, the server will put the job back into "
    "the ready queue.",
)
def test_a_job_reserved_by_id_times_out_too(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put(b"a", pri=1, ttr=2)
    client.reserve_job(job).reply("RESERVED")
    same = client.put_and_reserve(ttr=2)
    clock.advance(1)
    assert other.state_of(job) == "reserved"
    clock.advance(1)
    other.comes_back(same)
    assert other.state_of(job) == "ready"


@requirement(
    "reserve-job.reserved",
    r'"RESERVED <id> <bytes>\r\n<data>\r\n". See the description for the reserve command.',
)
@pytest.mark.parametrize("state", ["ready", "delayed", "buried"])
def test_reserve_job_takes_a_job_in_any_of_these_states(client: Connection, state: str) -> None:
    job = client.job_in(state)
    client.reserve_job(job).expect(RESERVED(job, b"a"))
    assert client.state_of(job) == "reserved"


@requirement("reserve-job.any-tube", "A job can be reserved by its id.")
def test_reserve_job_does_not_ask_for_a_watched_tube(client: Connection, new_tube: NewTube) -> None:
    client.use(new_tube())
    job = client.put(b"a")
    client.reserve_job(job).expect(RESERVED(job, b"a"))


@requirement(
    "reserve-job.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or reserved by a client or is not either '
    "ready, buried or delayed.",
)
def test_reserve_job_of_a_reserved_job(client: Connection, other: Connection) -> None:
    job = client.put_and_reserve()
    client.send(f"reserve-job {job}").expect(NOT_FOUND)
    other.send(f"reserve-job {job}").expect(NOT_FOUND)
