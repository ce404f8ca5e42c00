"""Section "Worker Commands", continued: delete, release, bury, touch."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect
from conformance.verdict import NotApplicable
from reference_server.profiles import Profile
from reference_server.wire import (
    BAD_FORMAT,
    BURIED,
    DELETED,
    FOUND,
    KICKED_COUNT,
    NOT_FOUND,
    RELEASED,
    RESERVED,
    TOUCHED,
)

NO_ID = ["x", "-1", "+0", "0x", "0.0", str(2**64), "9" * 30, ""]
MISSING = [0, 2**32, 2**63, 2**64 - 1]


@requirement("delete.reserved-by-client")
def test_delete_of_a_job_that_the_client_has_reserved(client: Connection) -> None:
    job = client.put(b"a")
    client.reserve().expect(RESERVED(job, b"a"))
    client.send(f"delete {job}").expect(DELETED)
    client.send(f"peek {job}").expect(NOT_FOUND)


@requirement("delete.ready")
def test_delete_of_a_ready_job(client: Connection, other: Connection) -> None:
    job = client.put(b"a")
    other.send(f"delete {job}").expect(DELETED)
    client.finds_no_job()


@requirement("delete.delayed")
def test_delete_of_a_delayed_job(client: Connection, other: Connection) -> None:
    job = client.put(b"a", delay=3600)
    other.send(f"delete {job}").expect(DELETED)
    client.send("peek-delayed").expect(NOT_FOUND)


@requirement("delete.buried")
def test_delete_of_a_buried_job(client: Connection, other: Connection) -> None:
    job = client.put_and_bury()
    other.send(f"delete {job}").expect(DELETED)
    client.peek_buried().expect(NOT_FOUND)
    client.send("kick 1").expect(KICKED_COUNT(0))


@requirement("delete.entirely")
@pytest.mark.parametrize(
    "state",
    ["ready", "buried", "reserved", pytest.param("delayed", marks=requirement("delete.delayed"))],
)
def test_a_deleted_job_is_gone(client: Connection, profile: Profile, state: str) -> None:
    if state not in profile.deletes:
        raise NotApplicable(f"profile {profile.name} has no delete of {state} jobs")
    job = client.job_in(state)
    client.send(f"delete {job}").expect(DELETED)
    verbs = {"peek", "stats-job", "reserve-job", "kick-job", "touch", "delete"}
    for verb in sorted(verbs & profile.commands):
        client.send(f"{verb} {job}").expect(NOT_FOUND)
    client.finds_no_job()
    client.send("kick 9").expect(KICKED_COUNT(0))
    if profile.has_tubes:
        assert client.stats_tube()[f"current-jobs-{state}"] == "0"


@requirement("delete.reserved-ready-or-buried")
def test_delete_is_for_reserved_ready_and_buried_jobs(client: Connection) -> None:
    for state in ("reserved", "ready", "buried"):
        client.send(f"delete {client.job_in(state)}").expect(DELETED)
    delayed = client.put(b"a", delay=3600)
    client.send(f"delete {delayed}").expect(NOT_FOUND)
    assert client.state_of(delayed) == "delayed"


@requirement("delete.ready")
def test_deleting_jobs_out_of_the_middle_keeps_the_order(client: Connection) -> None:
    jobs = [client.put(b"a", pri=n * 17 % 32) for n in range(32)]
    order = sorted(range(32), key=lambda n: n * 17 % 32)
    for n in order[3::5]:
        client.send(f"delete {jobs[n]}").expect(DELETED)
    for n in (n for n in order if n not in order[3::5]):
        client.reserve().expect(RESERVED(jobs[n], b"a"))


@requirement("delete.not-found")
@pytest.mark.parametrize("job", MISSING)
def test_delete_of_a_job_that_does_not_exist(client: Connection, job: int) -> None:
    client.send(f"delete {job}").expect(NOT_FOUND)


@requirement("delete.not-found")
def test_delete_of_a_deleted_job(client: Connection) -> None:
    job = client.put_and_reserve()
    client.send(f"delete {job}").expect(DELETED)
    client.send(f"delete {job}").expect(NOT_FOUND)


@requirement("delete.reserved-by-other")
def test_delete_of_a_job_that_another_client_has_reserved(
    client: Connection, other: Connection
) -> None:
    job = client.put(b"a")
    client.reserve().expect(RESERVED(job, b"a"))
    other.send(f"delete {job}").expect(NOT_FOUND)
    client.send(f"delete {job}").expect(DELETED)


@requirement("delete.bad-format")
@pytest.mark.parametrize("argument", NO_ID)
def test_a_malformed_delete(client: Connection, argument: str) -> None:
    client.send(f"delete {argument}").expect(BAD_FORMAT)


@requirement("release.released")
def test_release_makes_a_job_ready_for_any_client(client: Connection, other: Connection) -> None:
    job = client.put(b"a")
    client.reserve().expect(RESERVED(job, b"a"))
    client.send(f"release {job} 0 0").expect(RELEASED)
    assert client.state_of(job) == "ready"
    other.reserve().expect(RESERVED(job, b"a"))


@requirement("release.new-priority")
def test_release_assigns_a_new_priority(client: Connection) -> None:
    first, second = client.put(b"a", pri=1), client.put(b"b", pri=5)
    client.reserve().expect(RESERVED(first, b"a"))
    client.send(f"release {first} 9 0").expect(RELEASED)
    client.job_is(first, pri=9)
    client.reserve().expect(RESERVED(second, b"b"))
    client.reserve().expect(RESERVED(first, b"a"))


@requirement("release.priority-limit")
@pytest.mark.parametrize("pri", [0, 1023, 1024, 2**31, 2**32 - 1])
def test_release_takes_a_priority_of_32_bits(client: Connection, pri: int) -> None:
    job = client.put_and_reserve()
    client.send(f"release {job} {pri} 0").expect(RELEASED)
    client.job_is(job, pri=pri)


@requirement("release.delay-limit")
@pytest.mark.parametrize("delay", [1000, 2**31, 2**32 - 1])
def test_release_takes_a_delay_of_32_bits(client: Connection, delay: int) -> None:
    job = client.put_and_reserve()
    client.send(f"release {job} 0 {delay}").expect(RELEASED)
    client.job_is(job, state="delayed", delay=delay)


@requirement("release.keeps-place")
def test_a_released_job_returns_to_its_old_place(client: Connection) -> None:
    jobs = [client.put(b"a", pri=3) for _ in range(5)]
    for job in jobs[:3]:
        client.reserve().expect(RESERVED(job, b"a"))
    for job in (jobs[1], jobs[0], jobs[2]):
        client.send(f"release {job} 3 0").expect(RELEASED)
    for job in jobs:
        client.reserve().expect(RESERVED(job, b"a"))


@requirement("release.delay")
def test_release_with_a_delay_makes_a_job_delayed(client: Connection) -> None:
    job = client.put_and_reserve()
    client.send(f"release {job} 0 3600").expect(RELEASED)
    client.job_is(job, state="delayed", delay=3600)
    client.finds_no_job()


@requirement("release.not-found")
@pytest.mark.parametrize("job", MISSING)
def test_release_of_a_job_that_does_not_exist(client: Connection, job: int) -> None:
    client.send(f"release {job} 0 0").expect(NOT_FOUND)


@requirement("release.not-found")
def test_release_of_a_job_that_is_not_reserved_by_the_client(
    client: Connection, other: Connection
) -> None:
    ready, delayed = client.put(b"a", pri=9), client.put(b"b", delay=3600)
    for job in (ready, delayed, client.put_and_bury(), other.put_and_reserve()):
        client.send(f"release {job} 0 0").expect(NOT_FOUND)


@requirement("release.bad-format")
@pytest.mark.parametrize(
    "arguments",
    [
        *("x 0 0", "-1 0 0", f"{2**64} 0 0", "1 -1 0", f"1 {2**32} 0", "1 0 -1"),
        *("1 0", "1", "1 0 0 0", "1 0x0 0", "1 0 0x"),
    ],
)
def test_a_malformed_release(client: Connection, arguments: str) -> None:
    client.send(f"release {arguments}").expect(BAD_FORMAT)


@requirement("release.bad-format")
def test_a_release_for_too_long(client: Connection, profile: Profile) -> None:
    if not profile.limits_arguments:
        raise NotApplicable(f"profile {profile.name} sets no limit to delays")
    client.send(f"release 1 0 {2**32}").expect(BAD_FORMAT)


@requirement("bury.buried")
def test_bury_makes_a_job_buried(client: Connection) -> None:
    job = client.put(b"a")
    client.reserve().expect(RESERVED(job, b"a"))
    client.send(f"bury {job} 0").expect(BURIED)
    assert client.state_of(job) == "buried"
    client.peek_buried().expect(FOUND(job, b"a"))


@requirement("bury.untouched-until-kick")
def test_a_buried_job_is_given_to_nobody_until_it_is_kicked(client: Connection) -> None:
    job = client.put_and_bury()
    client.finds_no_job()
    client.send("kick 1").expect(KICKED_COUNT(1))
    client.reserve().expect(RESERVED(job, b"a"))


@requirement("bury.fifo")
def test_buried_jobs_leave_in_the_order_in_which_they_were_buried(client: Connection) -> None:
    jobs = [client.put_and_reserve() for _ in range(30)]
    order = jobs[::2] + jobs[1::2][::-1]
    for job in order:
        client.send(f"bury {job} {1000 - job % 7}").expect(BURIED)
    for job in order:
        client.peek_buried().expect(FOUND(job, b"a"))
        client.send("kick 1").expect(KICKED_COUNT(1))


@requirement("bury.new-priority")
def test_bury_assigns_a_new_priority(client: Connection) -> None:
    job = client.put_and_reserve(pri=1)
    client.send(f"bury {job} 9").expect(BURIED)
    client.job_is(job, pri=9)
    second = client.put(b"b", pri=5)
    client.send("kick 1").expect(KICKED_COUNT(1))
    client.reserve().expect(RESERVED(second, b"b"))


@requirement("bury.priority-limit")
@pytest.mark.parametrize("pri", [0, 1023, 1024, 2**31, 2**32 - 1])
def test_bury_takes_a_priority_of_32_bits(client: Connection, pri: int) -> None:
    job = client.put_and_reserve()
    client.send(f"bury {job} {pri}").expect(BURIED)
    client.job_is(job, pri=pri)


@requirement("bury.not-found")
@pytest.mark.parametrize("job", MISSING)
def test_bury_of_a_job_that_does_not_exist(client: Connection, job: int) -> None:
    client.send(f"bury {job} 0").expect(NOT_FOUND)


@requirement("bury.not-found")
def test_bury_of_a_job_that_is_not_reserved_by_the_client(
    client: Connection, other: Connection
) -> None:
    ready, delayed = client.put(b"a", pri=9), client.put(b"b", delay=3600)
    for job in (ready, delayed, client.put_and_bury(), other.put_and_reserve()):
        client.send(f"bury {job} 0").expect(NOT_FOUND)


@requirement("bury.bad-format")
@pytest.mark.parametrize(
    "arguments", ["x 0", "-1 0", f"{2**64} 0", "1 -1", f"1 {2**32}", "1", "1 0 0", "1 0x"]
)
def test_a_malformed_bury(client: Connection, arguments: str) -> None:
    client.send(f"bury {arguments}").expect(BAD_FORMAT)


@requirement("touch.touched")
def test_touch_of_a_job_that_the_client_has_reserved(client: Connection) -> None:
    job = client.put_and_reserve()
    client.send(f"touch {job}").expect(TOUCHED)
    assert client.state_of(job) == "reserved"
    client.send(f"delete {job}").expect(DELETED)


@requirement("touch.not-found")
@pytest.mark.parametrize("job", MISSING)
def test_touch_of_a_job_that_does_not_exist(client: Connection, job: int) -> None:
    client.send(f"touch {job}").expect(NOT_FOUND)


@requirement("touch.not-found")
def test_touch_of_a_job_that_is_not_reserved_by_the_client(
    client: Connection, other: Connection
) -> None:
    ready, delayed = client.put(b"a", pri=9), client.put(b"b", delay=3600)
    for job in (ready, delayed, client.put_and_bury(), other.put_and_reserve()):
        client.send(f"touch {job}").expect(NOT_FOUND)


@requirement("touch.bad-format")
@pytest.mark.parametrize("argument", NO_ID)
def test_a_malformed_touch(client: Connection, argument: str) -> None:
    client.send(f"touch {argument}").expect(BAD_FORMAT)


@requirement("release.not-found", "bury.not-found", "touch.not-found")
def test_a_job_is_not_the_clients_any_more_once_it_let_it_go(
    client: Connection, new_client: Connect
) -> None:
    job = client.put_and_reserve()
    client.send(f"release {job} 0 0").expect(RELEASED)
    for command in (f"release {job} 0 0", f"bury {job} 0", f"touch {job}"):
        client.send(command).expect(NOT_FOUND)
    new_client().reserve().expect(RESERVED(job, b"a"))
