"""Section "Worker Commands", continued: delete."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect
from conformance.dialogue.schedule import Timeline
from conformance.verdict import NotApplicable
from reference_server.profiles import Profile
from reference_server.wire import DELETED, NOT_FOUND


@requirement(
    "delete.reserved-by-client",
    "A client can delete jobs that it has reserved, ready jobs, delayed jobs, and jobs that "
    "are buried.",
)
def test_delete_of_a_job_that_the_client_has_reserved(client: Connection) -> None:
    job = client.put_and_reserve()
    client.send(f"delete {job}").expect(DELETED)
    client.finds_no_job()


@requirement(
    "delete.ready",
    "A client can delete jobs that it has reserved, ready jobs, delayed jobs, and jobs that "
    "are buried.",
)
def test_delete_of_a_ready_job(client: Connection, other: Connection) -> None:
    job = client.put(b"a")
    other.send(f"delete {job}").expect(DELETED)
    client.finds_no_job()


@requirement(
    "delete.ready",
    "A client can delete jobs that it has reserved, ready jobs, delayed jobs, and jobs that "
    "are buried.",
)
def test_of_many_ready_jobs_the_deleted_ones_are_not_given(client: Connection) -> None:
    jobs = client.put_many([b"a"] * 32)
    for job in jobs[3::5]:
        client.send(f"delete {job}").expect(DELETED)
    left = {*jobs} - {*jobs[3::5]}
    assert {client.reserve().reply("RESERVED").args[0] for _ in left} == left
    client.finds_no_job()


@requirement(
    "delete.ready",
    "A client can delete jobs that it has reserved, ready jobs, delayed jobs, and jobs that "
    "are buried.",
)
def test_delete_of_an_expired_job_that_is_ready_again(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put_and_reserve(ttr=1)
    clock.advance(1)
    other.comes_back(job)
    client.send(f"delete {job}").expect(DELETED)


@requirement(
    "delete.delayed",
    "A client can delete jobs that it has reserved, ready jobs, delayed jobs, and jobs that "
    "are buried.",
)
def test_delete_of_a_delayed_job(client: Connection, other: Connection) -> None:
    job = client.put(b"a", delay=3600)
    other.send(f"delete {job}").expect(DELETED)
    client.kick(1)
    client.finds_no_job()


@requirement(
    "delete.buried",
    "A client can delete jobs that it has reserved, ready jobs, delayed jobs, and jobs that "
    "are buried.",
)
def test_delete_of_a_buried_job(client: Connection, other: Connection) -> None:
    job = client.put_and_bury()
    other.send(f"delete {job}").expect(DELETED)
    client.kick(1)
    client.finds_no_job()


@requirement(
    "delete.reserved-ready-or-buried",
    "客户端可以删除一个已经被获取的 job，可用的 job，以及被休眠的 job。",
)
def test_delete_is_for_reserved_ready_and_buried_jobs(client: Connection) -> None:
    for state in ("reserved", "ready", "buried"):
        client.send(f"delete {client.job_in(state)}").expect(DELETED)
    delayed = client.put(b"a", delay=3600)
    client.send(f"delete {delayed}").expect(NOT_FOUND)
    assert client.state_of(delayed) == "delayed"


@requirement("delete.entirely", "The delete command removes a job from the server entirely.")
@pytest.mark.parametrize("state", ["ready", "buried", "reserved", "delayed"])
def test_a_deleted_job_is_gone(client: Connection, profile: Profile, state: str) -> None:
    if state not in profile.deletes:
        raise NotApplicable(f"profile {profile.name} has no delete of {state} jobs")
    job = client.job_in(state)
    client.delete(job, state)
    verbs = {"peek", "stats-job", "reserve-job", "kick-job", "touch"}
    for verb in sorted(verbs & profile.commands):
        client.observe(f"{verb} {job}").expect(NOT_FOUND)
    client.kick(9)
    client.finds_no_job()


@requirement(
    "delete.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or is not either reserved by the client, '
    "ready, or buried.",
)
def test_delete_of_a_deleted_job(client: Connection) -> None:
    job = client.put_and_reserve()
    client.delete(job)
    client.send(f"delete {job}").expect(NOT_FOUND)


@requirement(
    "delete.reserved-by-other",
    r'"NOT_FOUND\r\n" if the job does not exist or is not either reserved by the client, '
    "ready, or buried.",
)
def test_delete_of_a_job_that_another_client_has_reserved(
    client: Connection, other: Connection
) -> None:
    job = client.put_and_reserve()
    other.send(f"delete {job}").expect(NOT_FOUND)
    assert client.state_of(job) == "reserved"


@requirement(
    "delete.after-expiry",
    r'"NOT_FOUND\r\n" if the job does not exist or is not either reserved by the client, '
    "ready, or buried. This could happen if the job timed out before the client sent the "
    "delete command.",
)
def test_delete_of_an_expired_job_that_somebody_else_has_reserved(
    client: Connection, new_worker: Connect, clock: Timeline
) -> None:
    job = client.put_and_reserve(ttr=1)
    worker = new_worker()
    clock.advance(1)
    client.comes_back(job)
    worker.hold(job)
    client.send(f"delete {job}").expect(NOT_FOUND)
