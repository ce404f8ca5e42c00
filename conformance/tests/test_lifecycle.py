"""Section "Job Lifecycle": new jobs, and the jobs of a client that leaves."""

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect
from reference_server.wire import RESERVED


@requirement("lifecycle.starts-ready", "After the put command, a job typically starts out ready.")
def test_a_new_job_is_ready(client: Connection) -> None:
    job = client.put(b"a")
    assert client.state_of(job) == "ready"


@requirement(
    "lifecycle.close-releases-jobs",
    'The worker will execute the job; when it is finished the worker will send a "delete" '
    "command to delete the job.",
)
def test_jobs_of_a_client_that_leaves_are_ready_again(
    client: Connection, new_worker: Connect
) -> None:
    jobs = client.put_many([b"a", b"b"], in_order=True)
    worker = new_worker()
    worker.hold(jobs[0], b"a")
    worker.hold(jobs[1], b"b")
    client.finds_no_job()
    worker.half_close()
    worker.is_closed_by_target()
    client.becomes(lambda: {client.state_of(job) for job in jobs} == {"ready"})
    client.reserve().expect(RESERVED(jobs[0], b"a"))
    client.reserve().expect(RESERVED(jobs[1], b"b"))
    assert client.stats_job(jobs[0])["timeouts"] == "0"
    assert client.stats_job(jobs[0])["releases"] == "0"


@requirement(
    "lifecycle.close-releases-jobs",
    'The worker will execute the job; when it is finished the worker will send a "delete" '
    "command to delete the job.",
)
def test_jobs_of_a_client_whose_connection_breaks_are_ready_again(
    client: Connection, new_worker: Connect
) -> None:
    job = client.put(b"a")
    worker = new_worker()
    worker.hold(job)
    worker.reset()
    client.becomes(lambda: client.state_of(job) == "ready")
    client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "lifecycle.close-releases-jobs",
    'The worker will execute the job; when it is finished the worker will send a "delete" '
    "command to delete the job.",
)
def test_a_client_that_waits_gets_the_job_of_a_client_that_leaves(
    client: Connection, worker: Connection
) -> None:
    job = client.put_and_reserve()
    waiting = worker.reserve_waiting()
    client.linger()
    client.half_close()
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "lifecycle.close-releases-jobs",
    'The worker will execute the job; when it is finished the worker will send a "delete" '
    "command to delete the job.",
)
def test_delayed_and_buried_jobs_stay_what_they_are_when_their_maker_leaves(
    client: Connection, new_client: Connect
) -> None:
    maker = new_client()
    delayed, buried = maker.put(b"a", delay=3600), maker.put(b"b")
    maker.hold(buried, b"b")
    maker.bury(buried)
    maker.half_close()
    maker.is_closed_by_target()
    assert client.state_of(delayed) == "delayed"
    assert client.state_of(buried) == "buried"


@requirement(
    "lifecycle.close-keeps-place",
    "Within each priority, it will choose the one that was received first.",
)
def test_jobs_of_a_client_that_leaves_return_to_their_old_place(
    client: Connection, new_worker: Connect
) -> None:
    jobs = client.put_many([b"a"] * 5)
    worker = new_worker()
    for job in jobs[:3]:
        worker.reserve().expect(RESERVED(job, b"a"))
    worker.half_close()
    worker.is_closed_by_target()
    client.becomes(lambda: {client.state_of(job) for job in jobs} == {"ready"})
    for job in jobs:
        client.reserve().expect(RESERVED(job, b"a"))
