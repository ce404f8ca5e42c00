"""Section "Worker Commands", continued: the safety margin, and DEADLINE_SOON."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Role
from conformance.dialogue.schedule import Timeline
from reference_server.wire import (
    DEADLINE_SOON,
    DELETED,
    RELEASED,
    RESERVED,
    TOUCHED,
)


@requirement(
    "reserve.deadline-soon-when-asked",
    "If the client issues a reserve command during the safety margin, […] the server will "
    r"respond with: DEADLINE_SOON\r\n",
)
@pytest.mark.parametrize("command", ["reserve", "reserve-with-timeout 0", "reserve-with-timeout 9"])
def test_with_a_ttr_of_one_second_the_margin_begins_at_once(
    client: Connection, command: str
) -> None:
    client.put_and_reserve(ttr=1)
    client.send(command).expect(DEADLINE_SOON)


@requirement(
    "reserve.deadline-soon-in-margin",
    "If the client issues a reserve command during the safety margin, […] the server will "
    r"respond with: DEADLINE_SOON\r\n",
)
@pytest.mark.parametrize("command", ["reserve", "reserve-with-timeout 0", "reserve-with-timeout 9"])
def test_reserve_in_the_safety_margin(client: Connection, clock: Timeline, command: str) -> None:
    client.put_and_reserve(ttr=3)
    client.finds_no_job()
    clock.advance(2)
    client.send(command).expect(DEADLINE_SOON)


@requirement(
    "reserve.deadline-soon-in-margin",
    "If the client issues a reserve command during the safety margin, […] the server will "
    r"respond with: DEADLINE_SOON\r\n",
)
def test_a_client_without_reserved_jobs_is_not_warned(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put_and_reserve(ttr=2)
    clock.advance(1)
    other.finds_no_job()
    client.delete(job)
    client.finds_no_job()


@requirement(
    "reserve.pending-reserve-aborted-by-deadline",
    "if the safety margin arrives while the client is waiting on a reserve command, the server "
    r"will respond with: DEADLINE_SOON\r\n",
)
@pytest.mark.parametrize("command", ["reserve", "reserve-with-timeout 9"])
def test_a_pending_reserve_is_answered_deadline_soon(
    worker: Connection, producer: Connection, clock: Timeline, command: str
) -> None:
    job = producer.put(b"a", ttr=3)
    worker.hold(job)
    waiting = worker.send(command)
    clock.advance(2)
    waiting.expect(DEADLINE_SOON)


@requirement(
    "reserve.deadline-soon-leaves-job",
    "This gives the client a chance to delete or release its reserved job before the server "
    "automatically releases it.",
)
def test_after_deadline_soon_the_job_is_still_the_clients(
    client: Connection, clock: Timeline
) -> None:
    job = client.put_and_reserve(ttr=2)
    waiting = client.wait_for_margin()
    clock.advance(1)
    waiting.expect(DEADLINE_SOON)
    client.send(f"touch {job}").expect(TOUCHED)
    client.send(f"release {job} 0 0").expect(RELEASED)
    client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "reserve.ready-job-in-margin",
    "If the client issues a reserve command during the safety margin, […] the server will "
    r"respond with: DEADLINE_SOON\r\n",
)
def test_reserve_in_the_margin_while_there_is_a_ready_job(
    client: Connection, clock: Timeline
) -> None:
    held, ready = client.put(b"a", ttr=2), client.put(b"b", pri=1, ttr=60)
    client.hold(held)
    clock.advance(1)
    client.reserve().expect(RESERVED(ready, b"b"), DEADLINE_SOON)


@requirement(
    "reserve.ready-job-in-margin-is-given",
    "the last second is kept by the server as a safety margin, during which the client will "
    "not be made to wait for another job.",
)
def test_a_ready_job_is_given_in_the_margin_too(client: Connection, clock: Timeline) -> None:
    held, ready = client.put(b"a", ttr=2), client.put(b"b", pri=1, ttr=60)
    client.hold(held)
    clock.advance(1)
    client.reserve().expect(RESERVED(ready, b"b"))


@requirement(
    "reserve.deadline-soon-beats-timeout",
    "if the safety margin arrives while the client is waiting on a reserve command, the server "
    r"will respond with: DEADLINE_SOON\r\n",
)
def test_when_timeout_and_margin_come_together(client: Connection, clock: Timeline) -> None:
    job = client.put(b"a", ttr=3)
    both = client.raw(b"reserve\r\nreserve-with-timeout 2\r\n", replies=2)
    both.expect(RESERVED(job, b"a"))
    clock.advance(2)
    both.nth(1).expect(DEADLINE_SOON)


@requirement(
    "reserve.several-jobs-earliest-deadline",
    "If a worker has a reserved a job that reaches 1 second left in its time to run, any "
    "pending reserve commands will abort with the message DEADLINE_SOON.",
)
@pytest.mark.parametrize("ttrs", [(7, 3, 5), (3, 5, 7), (7, 5, 3)])
def test_of_several_jobs_the_earliest_deadline_counts(
    client: Connection, clock: Timeline, ttrs: tuple[int, ...]
) -> None:
    jobs = {ttr: client.put(b"a", pri=pri, ttr=ttr) for pri, ttr in enumerate(ttrs)}
    for ttr in ttrs:
        client.hold(jobs[ttr])
    waiting = client.reserve_waiting()
    clock.advance(2)
    waiting.expect(DEADLINE_SOON)
    client.delete(jobs[3])
    waiting = client.reserve_waiting()
    clock.advance(2)
    waiting.expect(DEADLINE_SOON)


@requirement(
    "reserve.pipelined-behind-wait",
    "A client can send multiple commands at once, but Beanstalk will not respond to subsequent "
    "commands until it has responded to previous ones.",
)
@requirement(
    "reserve.deadline-unblocks-connection",
    "This unblocks the connection, and now Beanstalk immediately processes the delete command.",
)
@pytest.mark.parametrize("ttr", [30, 3])
def test_the_exchange_of_seed_001(
    worker: Connection, producer: Connection, clock: Timeline, ttr: int
) -> None:
    tweet = b"this is my cool tweet"
    job = producer.put(tweet, ttr=ttr)
    both = worker.raw(b"reserve\r\nreserve\r\n", replies=2)
    both.expect(RESERVED(job, tweet))
    delete = worker.send(f"delete {job}", Role("reserve.deadline-unblocks-connection"))
    producer.linger()
    both.nth(1, Role("reserve.pipelined-behind-wait")).is_pending()
    clock.advance(ttr - 1)
    # That the margin ends it, is another requirement's matter.
    both.nth(1, Role("reserve.pending-reserve-aborted-by-deadline")).expect(DEADLINE_SOON)
    delete.expect(DELETED)
