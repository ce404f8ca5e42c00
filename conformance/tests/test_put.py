"""Section "Producer Commands": put."""

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.malformed import put_without_end
from conformance.dialogue.scenario import Connect, NewTube
from conformance.verdict import NotApplicable
from reference_server.profiles import Profile
from reference_server.wire import FOUND, RESERVED


@requirement(
    "put.inserted",
    r'"INSERTED <id>\r\n" to indicate success. <id> is the integer id of the new job',
)
def test_put_is_answered_with_the_id_of_a_job_that_exists(client: Connection) -> None:
    job = client.tested.put(b"hello")
    client.peek(job).expect(FOUND(job, b"hello"))


@requirement(
    "put.inserted",
    r'"INSERTED <id>\r\n" to indicate success. <id> is the integer id of the new job',
)
def test_each_of_many_jobs_exists(client: Connection) -> None:
    for job in client.tested.put_many([b"a"] * 30):
        client.peek(job).expect(FOUND(job, b"a"))


@requirement(
    "reserve.id-unique",
    "<id> is the job id -- an integer unique to this job in this instance of beanstalkd.",
)
@requirement(
    "put.inserted",
    r'"INSERTED <id>\r\n" to indicate success. <id> is the integer id of the new job',
)
def test_each_job_has_an_id_of_its_own(client: Connection, other: Connection) -> None:
    jobs = [connection.tested.put(b"a") for connection in (client, other) * 10]
    assert len(set(jobs)) == len(jobs)


@requirement(
    "reserve.id-unique",
    "<id> is the job id -- an integer unique to this job in this instance of beanstalkd.",
)
def test_a_new_job_has_the_id_of_no_other_after_one_was_deleted(client: Connection) -> None:
    jobs = {client.tested.put(b"a") for _ in range(3)}
    deleted = client.take_job()
    client.delete(deleted)
    assert client.tested.put(b"a") not in jobs - {deleted}


@requirement("put.ids-increase", "<id> is the integer id of the new job")
def test_ids_increase(client: Connection, other: Connection) -> None:
    jobs = [connection.put(b"a") for connection in (client, other) * 20]
    for _ in jobs[::3]:
        client.delete(int(client.reserve().reply("RESERVED").args[0]))
    jobs += client.put_many([b"a"] * 20)
    assert jobs == sorted(set(jobs))


@requirement("put.id-is-taken-with-the-line", "<id> is the integer id of the new job")
def test_the_id_is_taken_when_the_line_comes(alone: None, client: Connection) -> None:
    first = client.put(b"a")
    put_without_end(client)
    assert client.put(b"b") == first + 2


@requirement(
    "put.into-used-tube",
    'It inserts a job into the client\'s currently used tube (see the "use" command below).',
)
def test_put_inserts_into_the_used_tube(
    client: Connection, connect: Connect, new_tube: NewTube
) -> None:
    tube, worker = new_tube(), connect()
    worker.go_to(f"watch {tube}", "ignore default")
    client.use(tube)
    job = client.put(b"a")
    worker.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "put.into-used-tube",
    'It inserts a job into the client\'s currently used tube (see the "use" command below).',
)
def test_watching_a_tube_does_not_change_where_put_inserts(
    client: Connection, other: Connection, new_tube: NewTube
) -> None:
    client.watch(new_tube())
    job = client.put(b"a")
    other.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "put.smaller-priority-first",
    "Jobs with smaller priority values will be scheduled before jobs with larger priorities.",
)
def test_jobs_with_smaller_priority_values_come_first(client: Connection) -> None:
    _come_by_priority(client, [5, 1023, 10, 70000, 1024, 1, 999999, 7, 2, 1000000])


@requirement(
    "put.priority-limit",
    "<pri> is an integer < 2**32. […] The most urgent priority is 0; the least urgent priority is "
    "4,294,967,295.",
)
def test_the_largest_priority_values_come_last(client: Connection) -> None:
    _come_by_priority(client, [2**31, 0, 2**32 - 1, 2**31 - 1, 2**32 - 2])


def _come_by_priority(client: Connection, priorities: list[int]) -> None:
    jobs = {pri: client.put(b"%d" % pri, pri=pri) for pri in priorities}
    for pri in sorted(priorities):
        client.reserve().expect(RESERVED(jobs[pri], b"%d" % pri))


@requirement(
    "put.smaller-priority-first",
    "Jobs with smaller priority values will be scheduled before jobs with larger priorities.",
)
def test_deleting_jobs_out_of_the_middle_keeps_the_order(
    client: Connection, profile: Profile
) -> None:
    if "ready" not in profile.deletes:
        raise NotApplicable(f"profile {profile.name} has no delete of ready jobs")
    jobs = [client.put(b"a", pri=n * 17 % 32) for n in range(32)]
    order = sorted(range(32), key=lambda n: n * 17 % 32)
    for n in order[3::5]:
        client.delete(jobs[n], "ready")
    for n in (n for n in order if n not in order[3::5]):
        client.reserve().expect(RESERVED(jobs[n], b"a"))
