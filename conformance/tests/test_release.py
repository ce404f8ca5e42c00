"""Section "Worker Commands", continued: release."""

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect, NewTube
from conformance.dialogue.schedule import Timeline
from conformance.verdict import NotApplicable
from reference_server.profiles import Profile
from reference_server.wire import BAD_FORMAT, RELEASED, RESERVED


@requirement(
    "release.released",
    "The release command puts a reserved job back into the ready queue (and marks its state as "
    '"ready") to be run by any client.',
)
def test_release_makes_a_job_ready_for_any_client(client: Connection, other: Connection) -> None:
    job = client.put_and_reserve()
    client.send(f"release {job} 0 0").expect(RELEASED)
    assert client.state_of(job) == "ready"
    other.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "release.released",
    "The release command puts a reserved job back into the ready queue (and marks its state as "
    '"ready") to be run by any client.',
)
def test_a_job_is_released_into_a_tube_that_no_client_refers_to(
    client: Connection, new_tube: NewTube, new_worker: Connect
) -> None:
    job, tube, other = client.put_and_reserve(), client.tube, new_tube()
    client.go_to(f"use {other}", f"watch {other}", f"ignore {tube}")
    client.send(f"release {job} 0 0").expect(RELEASED)
    new_worker().reserve().expect(RESERVED(job, b"a"))


@requirement("release.new-priority", "<pri> is a new priority to assign to the job.")
def test_release_assigns_a_new_priority(client: Connection) -> None:
    first, second = client.put(b"a", pri=1), client.put(b"b", pri=5)
    client.hold(first)
    client.release(first, pri=9)
    client.reserve().expect(RESERVED(second, b"b"))
    client.reserve().expect(RESERVED(first, b"a"))


@requirement(
    "release.keeps-place",
    "Within each priority, it will choose the one that was received first.",
)
def test_a_released_job_returns_to_its_old_place(client: Connection) -> None:
    jobs = [client.put(b"a", pri=3) for _ in range(5)]
    for job in jobs[:3]:
        client.reserve().expect(RESERVED(job, b"a"))
    for job in (jobs[1], jobs[0], jobs[2]):
        client.release(job, pri=3)
    for job in jobs:
        client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "release.delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready "
    'queue. The job will be in the "delayed" state during this time.',
)
def test_release_with_a_delay_makes_a_job_delayed(client: Connection) -> None:
    job = client.put_and_reserve()
    client.release(job, delay=3600)
    client.job_is(job, state="delayed", delay=3600)
    client.finds_no_job()


@requirement(
    "release.ready-after-delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue.",
)
def test_a_job_released_with_a_delay_is_ready_when_it_is_over(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put_and_reserve()
    client.release(job, delay=2)
    clock.advance(1)
    other.finds_no_job()
    clock.advance(1)
    other.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "release.ready-after-delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready queue.",
)
def test_a_client_that_waits_gets_a_released_job_when_its_delay_is_over(
    client: Connection, worker: Connection, clock: Timeline
) -> None:
    job = client.put_and_reserve()
    client.release(job, delay=1)
    waiting = worker.reserve_waiting()
    clock.advance(1)
    waiting.expect(RESERVED(job, b"a"))


@requirement("release.bad-format", r"release <id> <pri> <delay>\r\n")
def test_a_release_for_too_long(client: Connection, profile: Profile) -> None:
    if not profile.limits_arguments:
        raise NotApplicable(f"profile {profile.name} sets no limit to delays")
    client.send(f"release 1 0 {2**32}").expect(BAD_FORMAT)
