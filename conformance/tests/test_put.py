"""Section "Producer Commands": put."""

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import NewTube
from reference_server.wire import DELETED, EXPECTED_CRLF, FOUND, RESERVED, USING


@requirement(
    "put.inserted",
    r'"INSERTED <id>\r\n" to indicate success. <id> is the integer id of the new job',
)
def test_put_is_answered_with_the_id_of_a_job_that_exists(client: Connection) -> None:
    job = client.put(b"hello")
    client.send(f"peek {job}").expect(FOUND(job, b"hello"))


@requirement(
    "put.inserted",
    r'"INSERTED <id>\r\n" to indicate success. <id> is the integer id of the new job',
)
def test_each_of_many_jobs_exists(client: Connection) -> None:
    for job in client.put_many([b"a"] * 30):
        client.send(f"peek {job}").expect(FOUND(job, b"a"))


@requirement(
    "reserve.id-unique",
    "<id> is the job id -- an integer unique to this job in this instance of beanstalkd.",
)
@requirement(
    "put.inserted",
    r'"INSERTED <id>\r\n" to indicate success. <id> is the integer id of the new job',
)
def test_each_job_has_an_id_of_its_own(client: Connection, other: Connection) -> None:
    jobs = [connection.put(b"a") for connection in (client, other) * 10]
    assert len(set(jobs)) == len(jobs)


@requirement("put.ids-increase", "<id> is the integer id of the new job")
def test_ids_increase(client: Connection, other: Connection) -> None:
    jobs = [connection.put(b"a") for connection in (client, other) * 20]
    for _ in jobs[::3]:
        job = client.reserve().reply("RESERVED").args[0]
        client.send(f"delete {job}").expect(DELETED)
    jobs += client.put_many([b"a"] * 20)
    assert jobs == sorted(set(jobs))


@requirement("put.id-is-taken-with-the-line", "<id> is the integer id of the new job")
def test_the_id_is_taken_when_the_line_comes(alone: None, client: Connection) -> None:
    first = client.put(b"a")
    client.raw(b"put 0 0 60 1\r\naxx").expect(EXPECTED_CRLF)
    assert client.put(b"b") == first + 2


@requirement(
    "put.into-used-tube",
    'It inserts a job into the client\'s currently used tube (see the "use" command below).',
)
def test_put_inserts_into_the_used_tube(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.send(f"use {tube}").expect(USING(tube))
    job = client.put(b"a")
    assert client.stats_job(job)["tube"] == tube


@requirement(
    "put.into-used-tube",
    'It inserts a job into the client\'s currently used tube (see the "use" command below).',
)
def test_watching_a_tube_does_not_change_where_put_inserts(
    client: Connection, new_tube: NewTube
) -> None:
    client.send(f"watch {new_tube()}").reply("WATCHING")
    job = client.put(b"a")
    assert client.stats_job(job)["tube"] == client.tube


@requirement(
    "put.smaller-priority-first",
    "Jobs with smaller priority values will be scheduled before jobs with larger priorities.",
)
def test_jobs_with_smaller_priority_values_come_first(client: Connection) -> None:
    priorities = [5, 1023, 0, 4294967295, 1024, 1, 2**31, 7, 2, 4294967294]
    jobs = {pri: client.put(b"%d" % pri, pri=pri) for pri in priorities}
    for pri in sorted(priorities):
        client.reserve().expect(RESERVED(jobs[pri], b"%d" % pri))
