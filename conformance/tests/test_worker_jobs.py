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


@requirement(
    "delete.reserved-by-client",
    "A client can delete jobs that it has reserved, ready jobs, delayed jobs, and jobs that "
    "are buried.",
)
def test_delete_of_a_job_that_the_client_has_reserved(client: Connection) -> None:
    job = client.put(b"a")
    client.reserve().expect(RESERVED(job, b"a"))
    client.send(f"delete {job}").expect(DELETED)
    client.send(f"peek {job}").expect(NOT_FOUND)


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
    "delete.delayed",
    "A client can delete jobs that it has reserved, ready jobs, delayed jobs, and jobs that "
    "are buried.",
)
def test_delete_of_a_delayed_job(client: Connection, other: Connection) -> None:
    job = client.put(b"a", delay=3600)
    other.send(f"delete {job}").expect(DELETED)
    client.send("peek-delayed").expect(NOT_FOUND)


@requirement(
    "delete.buried",
    "A client can delete jobs that it has reserved, ready jobs, delayed jobs, and jobs that "
    "are buried.",
)
def test_delete_of_a_buried_job(client: Connection, other: Connection) -> None:
    job = client.put_and_bury()
    other.send(f"delete {job}").expect(DELETED)
    client.peek_buried().expect(NOT_FOUND)
    client.send("kick 1").expect(KICKED_COUNT(0))


@requirement("delete.entirely", "The delete command removes a job from the server entirely.")
@pytest.mark.parametrize(
    "state",
    [
        "ready",
        "buried",
        "reserved",
        pytest.param(
            "delayed",
            marks=requirement(
                "delete.delayed",
                "A client can delete jobs that it has reserved, ready jobs, delayed jobs, and "
                "jobs that are buried.",
            ),
        ),
    ],
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


@requirement(
    "delete.ready",
    "A client can delete jobs that it has reserved, ready jobs, delayed jobs, and jobs that "
    "are buried.",
)
def test_deleting_jobs_out_of_the_middle_keeps_the_order(client: Connection) -> None:
    jobs = [client.put(b"a", pri=n * 17 % 32) for n in range(32)]
    order = sorted(range(32), key=lambda n: n * 17 % 32)
    for n in order[3::5]:
        client.send(f"delete {jobs[n]}").expect(DELETED)
    for n in (n for n in order if n not in order[3::5]):
        client.reserve().expect(RESERVED(jobs[n], b"a"))


@requirement(
    "delete.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or is not either reserved by the client, '
    "ready, or buried.",
)
@pytest.mark.parametrize("job", MISSING)
def test_delete_of_a_job_that_does_not_exist(client: Connection, job: int) -> None:
    client.send(f"delete {job}").expect(NOT_FOUND)


@requirement(
    "delete.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or is not either reserved by the client, '
    "ready, or buried.",
)
def test_delete_of_a_deleted_job(client: Connection) -> None:
    job = client.put_and_reserve()
    client.send(f"delete {job}").expect(DELETED)
    client.send(f"delete {job}").expect(NOT_FOUND)


@requirement(
    "delete.reserved-by-other",
    r'"NOT_FOUND\r\n" if the job does not exist or is not either reserved by the client, '
    "ready, or buried.",
)
def test_delete_of_a_job_that_another_client_has_reserved(
    client: Connection, other: Connection
) -> None:
    job = client.put(b"a")
    client.reserve().expect(RESERVED(job, b"a"))
    other.send(f"delete {job}").expect(NOT_FOUND)
    client.send(f"delete {job}").expect(DELETED)


@requirement("delete.bad-format", r"delete <id>\r\n")
@pytest.mark.parametrize("argument", NO_ID)
def test_a_malformed_delete(client: Connection, argument: str) -> None:
    client.send(f"delete {argument}").expect(BAD_FORMAT)


@requirement(
    "release.released",
    "The release command puts a reserved job back into the ready queue (and marks its state as "
    '"ready") to be run by any client.',
)
def test_release_makes_a_job_ready_for_any_client(client: Connection, other: Connection) -> None:
    job = client.put(b"a")
    client.reserve().expect(RESERVED(job, b"a"))
    client.send(f"release {job} 0 0").expect(RELEASED)
    assert client.state_of(job) == "ready"
    other.reserve().expect(RESERVED(job, b"a"))


@requirement("release.new-priority", "<pri> is a new priority to assign to the job.")
def test_release_assigns_a_new_priority(client: Connection) -> None:
    first, second = client.put(b"a", pri=1), client.put(b"b", pri=5)
    client.reserve().expect(RESERVED(first, b"a"))
    client.send(f"release {first} 9 0").expect(RELEASED)
    client.job_is(first, pri=9)
    client.reserve().expect(RESERVED(second, b"b"))
    client.reserve().expect(RESERVED(first, b"a"))


@requirement(
    "release.priority-limit",
    "All integers in the protocol are formatted in decimal and (unless otherwise indicated) "
    "nonnegative.",
)
@pytest.mark.parametrize("pri", [0, 1023, 1024, 2**31, 2**32 - 1])
def test_release_takes_a_priority_of_32_bits(client: Connection, pri: int) -> None:
    job = client.put_and_reserve()
    client.send(f"release {job} {pri} 0").expect(RELEASED)
    client.job_is(job, pri=pri)


@requirement(
    "release.delay-limit",
    "All integers in the protocol are formatted in decimal and (unless otherwise indicated) "
    "nonnegative.",
)
@pytest.mark.parametrize("delay", [1000, 2**31, 2**32 - 1])
def test_release_takes_a_delay_of_32_bits(client: Connection, delay: int) -> None:
    job = client.put_and_reserve()
    client.send(f"release {job} 0 {delay}").expect(RELEASED)
    client.job_is(job, state="delayed", delay=delay)


@requirement(
    "release.keeps-place",
    "Within each priority, it will choose the one that was received first.",
)
def test_a_released_job_returns_to_its_old_place(client: Connection) -> None:
    jobs = [client.put(b"a", pri=3) for _ in range(5)]
    for job in jobs[:3]:
        client.reserve().expect(RESERVED(job, b"a"))
    for job in (jobs[1], jobs[0], jobs[2]):
        client.send(f"release {job} 3 0").expect(RELEASED)
    for job in jobs:
        client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "release.delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready "
    'queue. The job will be in the "delayed" state during this time.',
)
def test_release_with_a_delay_makes_a_job_delayed(client: Connection) -> None:
    job = client.put_and_reserve()
    client.send(f"release {job} 0 3600").expect(RELEASED)
    client.job_is(job, state="delayed", delay=3600)
    client.finds_no_job()


@requirement(
    "release.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
)
@pytest.mark.parametrize("job", MISSING)
def test_release_of_a_job_that_does_not_exist(client: Connection, job: int) -> None:
    client.send(f"release {job} 0 0").expect(NOT_FOUND)


@requirement(
    "release.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
)
def test_release_of_a_job_that_is_not_reserved_by_the_client(
    client: Connection, other: Connection
) -> None:
    ready, delayed = client.put(b"a", pri=9), client.put(b"b", delay=3600)
    for job in (ready, delayed, client.put_and_bury(), other.put_and_reserve()):
        client.send(f"release {job} 0 0").expect(NOT_FOUND)


@requirement("release.bad-format", r"release <id> <pri> <delay>\r\n")
@pytest.mark.parametrize(
    "arguments",
    [
        *("x 0 0", "-1 0 0", f"{2**64} 0 0", "1 -1 0", f"1 {2**32} 0", "1 0 -1"),
        *("1 0", "1", "1 0 0 0", "1 0x0 0", "1 0 0x"),
    ],
)
def test_a_malformed_release(client: Connection, arguments: str) -> None:
    client.send(f"release {arguments}").expect(BAD_FORMAT)


@requirement("release.bad-format", r"release <id> <pri> <delay>\r\n")
def test_a_release_for_too_long(client: Connection, profile: Profile) -> None:
    if not profile.limits_arguments:
        raise NotApplicable(f"profile {profile.name} sets no limit to delays")
    client.send(f"release 1 0 {2**32}").expect(BAD_FORMAT)


@requirement("bury.buried", 'The bury command puts a job into the "buried" state.')
def test_bury_makes_a_job_buried(client: Connection) -> None:
    job = client.put(b"a")
    client.reserve().expect(RESERVED(job, b"a"))
    client.send(f"bury {job} 0").expect(BURIED)
    assert client.state_of(job) == "buried"
    client.peek_buried().expect(FOUND(job, b"a"))


@requirement(
    "bury.untouched-until-kick",
    "Buried jobs are put into a FIFO linked list and will not be touched by the server again "
    'until a client kicks them with the "kick" command.',
)
def test_a_buried_job_is_given_to_nobody_until_it_is_kicked(client: Connection) -> None:
    job = client.put_and_bury()
    client.finds_no_job()
    client.send("kick 1").expect(KICKED_COUNT(1))
    client.reserve().expect(RESERVED(job, b"a"))


@requirement("bury.fifo", "Buried jobs are put into a FIFO linked list")
def test_buried_jobs_leave_in_the_order_in_which_they_were_buried(client: Connection) -> None:
    jobs = [client.put_and_reserve() for _ in range(30)]
    order = jobs[::2] + jobs[1::2][::-1]
    for job in order:
        client.send(f"bury {job} {1000 - job % 7}").expect(BURIED)
    for job in order:
        client.peek_buried().expect(FOUND(job, b"a"))
        client.send("kick 1").expect(KICKED_COUNT(1))


@requirement("bury.new-priority", "<pri> is a new priority to assign to the job.")
def test_bury_assigns_a_new_priority(client: Connection) -> None:
    job = client.put_and_reserve(pri=1)
    client.send(f"bury {job} 9").expect(BURIED)
    client.job_is(job, pri=9)
    second = client.put(b"b", pri=5)
    client.send("kick 1").expect(KICKED_COUNT(1))
    client.reserve().expect(RESERVED(second, b"b"))


@requirement(
    "bury.priority-limit",
    "All integers in the protocol are formatted in decimal and (unless otherwise indicated) "
    "nonnegative.",
)
@pytest.mark.parametrize("pri", [0, 1023, 1024, 2**31, 2**32 - 1])
def test_bury_takes_a_priority_of_32_bits(client: Connection, pri: int) -> None:
    job = client.put_and_reserve()
    client.send(f"bury {job} {pri}").expect(BURIED)
    client.job_is(job, pri=pri)


@requirement(
    "bury.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
)
@pytest.mark.parametrize("job", MISSING)
def test_bury_of_a_job_that_does_not_exist(client: Connection, job: int) -> None:
    client.send(f"bury {job} 0").expect(NOT_FOUND)


@requirement(
    "bury.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
)
def test_bury_of_a_job_that_is_not_reserved_by_the_client(
    client: Connection, other: Connection
) -> None:
    ready, delayed = client.put(b"a", pri=9), client.put(b"b", delay=3600)
    for job in (ready, delayed, client.put_and_bury(), other.put_and_reserve()):
        client.send(f"bury {job} 0").expect(NOT_FOUND)


@requirement("bury.bad-format", r"bury <id> <pri>\r\n")
@pytest.mark.parametrize(
    "arguments", ["x 0", "-1 0", f"{2**64} 0", "1 -1", f"1 {2**32}", "1", "1 0 0", "1 0x"]
)
def test_a_malformed_bury(client: Connection, arguments: str) -> None:
    client.send(f"bury {arguments}").expect(BAD_FORMAT)


@requirement(
    "touch.touched",
    'The "touch" command allows a worker to request more time to work on a job. […] '
    r'"TOUCHED\r\n" to indicate success.',
)
def test_touch_of_a_job_that_the_client_has_reserved(client: Connection) -> None:
    job = client.put_and_reserve()
    client.send(f"touch {job}").expect(TOUCHED)
    assert client.state_of(job) == "reserved"
    client.send(f"delete {job}").expect(DELETED)


@requirement(
    "touch.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
)
@pytest.mark.parametrize("job", MISSING)
def test_touch_of_a_job_that_does_not_exist(client: Connection, job: int) -> None:
    client.send(f"touch {job}").expect(NOT_FOUND)


@requirement(
    "touch.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
)
def test_touch_of_a_job_that_is_not_reserved_by_the_client(
    client: Connection, other: Connection
) -> None:
    ready, delayed = client.put(b"a", pri=9), client.put(b"b", delay=3600)
    for job in (ready, delayed, client.put_and_bury(), other.put_and_reserve()):
        client.send(f"touch {job}").expect(NOT_FOUND)


@requirement("touch.bad-format", r"touch <id>\r\n")
@pytest.mark.parametrize("argument", NO_ID)
def test_a_malformed_touch(client: Connection, argument: str) -> None:
    client.send(f"touch {argument}").expect(BAD_FORMAT)


@requirement(
    "touch.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
)
@requirement(
    "bury.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
)
@requirement(
    "release.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
)
def test_a_job_is_not_the_clients_any_more_once_it_let_it_go(
    client: Connection, new_client: Connect
) -> None:
    job = client.put_and_reserve()
    client.send(f"release {job} 0 0").expect(RELEASED)
    for command in (f"release {job} 0 0", f"bury {job} 0", f"touch {job}"):
        client.send(command).expect(NOT_FOUND)
    new_client().reserve().expect(RESERVED(job, b"a"))
