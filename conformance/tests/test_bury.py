"""Section "Worker Commands", continued: bury."""

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from reference_server.wire import BURIED, FOUND, RESERVED


@requirement("bury.buried", 'The bury command puts a job into the "buried" state.')
def test_bury_makes_a_job_buried(client: Connection) -> None:
    job = client.put_and_reserve()
    client.send(f"bury {job} 0").expect(BURIED)
    client.finds_no_job()
    client.peek_buried().expect(FOUND(job, b"a"))


@requirement(
    "bury.untouched-until-kick",
    "Buried jobs are put into a FIFO linked list and will not be touched by the server again "
    'until a client kicks them with the "kick" command.',
)
def test_a_buried_job_is_given_to_nobody_until_it_is_kicked(client: Connection) -> None:
    job = client.put_and_bury()
    client.finds_no_job()
    client.kick_one()
    client.reserve().expect(RESERVED(job, b"a"))


@requirement("bury.fifo", "Buried jobs are put into a FIFO linked list")
def test_buried_jobs_leave_in_the_order_in_which_they_were_buried(client: Connection) -> None:
    jobs = [client.put_and_reserve() for _ in range(30)]
    order = jobs[::2] + jobs[1::2][::-1]
    for job in order:
        client.bury(job, pri=1000 - job % 7)
    for job in order:
        client.kick_one()
        assert client.state_of(job) == "ready"


@requirement("bury.new-priority", "<pri> is a new priority to assign to the job.")
def test_bury_assigns_a_new_priority(client: Connection) -> None:
    job = client.put_and_reserve(pri=1)
    client.bury(job, pri=9)
    second = client.put(b"b", pri=5)
    client.kick_one()
    client.reserve().expect(RESERVED(second, b"b"))
