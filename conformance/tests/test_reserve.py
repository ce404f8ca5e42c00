"""Section "Worker Commands": reserve."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect, NewTube
from conformance.dialogue.schedule import Timeline
from reference_server.wire import (
    DELETED,
    RESERVED,
    TIMED_OUT,
    USING,
)


def _loses_no_job(producer: Connection, new_worker: Connect, *, noticed: bool) -> None:
    """Expect two jobs for the clients that stay; ``noticed``: the server has seen one leave."""
    first, second = new_worker(), new_worker()
    first.reserve_waiting()
    waiting = second.reserve_waiting()
    producer.linger()
    first.close()
    if noticed:
        producer.linger()
    jobs = producer.put_many([b"a", b"a"])
    third = new_worker()
    given = {int(waiting.reply("RESERVED").args[0])}
    # The server may have noticed only after it had given the first client a job.
    given.add(int(third.reserve_waiting().reply("RESERVED").args[0]))
    assert given == set(jobs)


@requirement(
    "lifecycle.close-releases-jobs",
    'The worker will execute the job; when it is finished the worker will send a "delete" '
    "command to delete the job.",
)
def test_a_job_is_not_lost_that_a_client_gets_who_has_just_left(
    producer: Connection, new_worker: Connect
) -> None:
    _loses_no_job(producer, new_worker, noticed=False)


@requirement(
    "reserve.reserved",
    "the only other response to this command is a successful reservation in the form of a text "
    r"line followed by the job body: RESERVED <id> <bytes>\r\n <data>\r\n",
)
@pytest.mark.parametrize("command", ["reserve", "reserve-with-timeout 0", "reserve-with-timeout 9"])
def test_reserve_gives_a_ready_job(client: Connection, command: str) -> None:
    job = client.put(b"hello")
    client.send(command).expect(RESERVED(job, b"hello"))
    assert client.state_of(job) == "reserved"


@requirement(
    "reserve.reserved",
    "the only other response to this command is a successful reservation in the form of a text "
    r"line followed by the job body: RESERVED <id> <bytes>\r\n <data>\r\n",
)
def test_a_reserved_job_is_not_given_to_anybody_else(client: Connection, other: Connection) -> None:
    job = client.put(b"a")
    client.reserve().expect(RESERVED(job, b"a"))
    other.finds_no_job()
    client.finds_no_job()


@requirement(
    "reserve.waits-for-job",
    "If no job is available to be reserved, beanstalkd will wait to send a response until one "
    "becomes available.",
)
def test_reserve_waits_until_a_job_comes(worker: Connection, producer: Connection) -> None:
    waiting = worker.reserve_waiting()
    producer.linger()
    waiting.is_pending()
    job = producer.put(b"a")
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "reserve.waits-for-job",
    "If no job is available to be reserved, beanstalkd will wait to send a response until one "
    "becomes available.",
)
def test_each_job_is_given_to_one_of_those_who_wait(
    producer: Connection, new_worker: Connect
) -> None:
    waiting = [new_worker().reserve_waiting() for _ in range(5)]
    producer.linger()
    jobs = producer.put_many([b"a"] * 5)
    given = [int(exchange.reply("RESERVED").args[0]) for exchange in waiting]
    assert sorted(given) == sorted(jobs)


@requirement(
    "reserve.waits-for-job",
    "If no job is available to be reserved, beanstalkd will wait to send a response until one "
    "becomes available.",
)
@pytest.mark.parametrize("how", ["release", "kick", "kick-job", "delay-kick"])
def test_a_waiting_client_gets_a_job_that_becomes_ready(
    client: Connection, worker: Connection, how: str
) -> None:
    job = client.put(b"a", delay=3600 if how == "delay-kick" else 0)
    if how != "delay-kick":
        client.hold(job)
    if how in ("kick", "kick-job"):
        client.bury(job)
    waiting = worker.reserve_waiting()
    client.linger()
    match how:
        case "release":
            client.release(job)
        case "kick" | "delay-kick":
            client.kick_one("delayed" if how == "delay-kick" else "buried")
        case "kick-job":
            client.kick_job(job)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "reserve.waits-for-job",
    "If no job is available to be reserved, beanstalkd will wait to send a response until one "
    "becomes available.",
)
def test_a_client_that_waits_for_several_tubes_is_served_once(
    client: Connection, worker: Connection, new_tube: NewTube
) -> None:
    tubes = [client.tube, new_tube(), new_tube()]
    for tube in tubes:
        worker.watch(tube)
        client.watch(tube)
    waiting = worker.reserve_waiting()
    client.linger()
    for tube in reversed(tubes):
        client.use(tube)
        job = client.put(b"a")
        if tube == tubes[-1]:
            waiting.expect(RESERVED(job, b"a"))
        else:
            # It gets nothing that it has not asked for.
            worker.tested.use(tube)
            client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "reserve.waits-for-job",
    "If no job is available to be reserved, beanstalkd will wait to send a response until one "
    "becomes available.",
)
def test_a_reserve_without_timeout_waits_on(
    worker: Connection, producer: Connection, clock: Timeline
) -> None:
    waiting = worker.reserve_waiting()
    clock.advance(3)
    waiting.is_pending()
    job = producer.put(b"a")
    waiting.expect_now(RESERVED(job, b"a"))


@requirement(
    "reserve.waiting-client-that-leaves",
    "If no job is available to be reserved, beanstalkd will wait to send a response until one "
    "becomes available.",
)
def test_a_job_is_not_lost_when_a_client_that_waits_leaves(
    producer: Connection, new_worker: Connect
) -> None:
    _loses_no_job(producer, new_worker, noticed=True)


@requirement(
    "reserve.smallest-priority",
    "If more than one job is ready, beanstalkd will choose the one with the smallest priority "
    "value.",
)
def test_the_smallest_priority_of_all_watched_tubes_is_chosen(
    client: Connection, new_tube: NewTube
) -> None:
    tubes = [client.tube, new_tube(), new_tube()]
    jobs = {}
    for pri, tube in zip([3, 1, 2, 6, 5, 4], tubes * 2, strict=True):
        client.use(tube)
        client.watch(tube)
        jobs[pri] = client.put(b"a", pri=pri)
    for pri in range(1, 7):
        client.reserve().expect(RESERVED(jobs[pri], b"a"))


@requirement(
    "reserve.smallest-priority",
    "If more than one job is ready, beanstalkd will choose the one with the smallest priority "
    "value.",
)
def test_40_jobs_of_four_tubes_come_by_priority(client: Connection, new_tube: NewTube) -> None:
    tubes = [client.tube, new_tube(), new_tube(), new_tube()]
    order = []
    for n in range(40):
        tube, pri = tubes[n * 7 % 4], n * 37 % 41 * 100_000_000
        client.use(tube)
        order.append((pri, client.put(b"%d" % n, pri=pri), b"%d" % n))
    for tube in tubes[1:]:
        client.watch(tube)
    for _, job, body in sorted(order):
        client.reserve().expect(RESERVED(job, body))


@requirement(
    "reserve.received-first",
    "Within each priority, it will choose the one that was received first.",
)
def test_within_a_priority_the_job_received_first_is_chosen(client: Connection) -> None:
    jobs = client.put_many([b"%d" % n for n in range(40)])
    for n, job in enumerate(jobs):
        client.reserve().expect(RESERVED(job, b"%d" % n))


@requirement(
    "reserve.received-first",
    "Within each priority, it will choose the one that was received first.",
)
def test_within_a_priority_jobs_of_all_tubes_come_as_they_were_received(
    client: Connection, new_tube: NewTube
) -> None:
    tubes = [client.tube, new_tube(), new_tube()]
    order = []
    for n in range(36):
        tube = tubes[n * 5 % 3]
        client.use(tube)
        order.append((n % 3, n, client.put(b"%d" % n, pri=n % 3)))
    for tube in tubes[1:]:
        client.watch(tube)
    for _, n, job in sorted(order):
        client.reserve().expect(RESERVED(job, b"%d" % n))


@requirement(
    "reserve.half-closed",
    "if the client's connection is half-closed, the server will respond with TIMED_OUT.",
)
@pytest.mark.parametrize("command", ["reserve", "reserve-with-timeout 1000"])
def test_a_client_that_half_closes_while_it_waits(worker: Connection, command: str) -> None:
    waiting = worker.send(command)
    worker.half_close()
    waiting.expect(TIMED_OUT)
    worker.is_closed_by_target()


@requirement(
    "reserve.any-watched-tube",
    "When a client reserves a job, it may come from any of the tubes in its watch list.",
)
def test_a_job_may_come_from_any_watched_tube(client: Connection, new_tube: NewTube) -> None:
    for tube in (new_tube(), new_tube()):
        client.watch(tube)
        client.use(tube)
        job = client.put(b"a")
        client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "reserve.any-watched-tube",
    "When a client reserves a job, it may come from any of the tubes in its watch list.",
)
def test_a_job_of_a_tube_that_is_not_watched_is_not_given(
    client: Connection, new_tube: NewTube
) -> None:
    tube = new_tube()
    client.use(tube)
    client.put(b"a")
    client.finds_no_job()
    client.watch(tube)
    client.ignore(tube)
    client.finds_no_job()


@requirement(
    "reserve.pipelined-behind-wait",
    "A client can send multiple commands at once, but Beanstalk will not respond to subsequent "
    "commands until it has responded to previous ones.",
)
def test_commands_behind_a_pending_reserve_wait_too(
    worker: Connection, producer: Connection
) -> None:
    worker.takes_pipelines()
    begin = worker.raw(b"reserve\r\nlist-tube-used\r\n", replies=2)
    producer.linger()
    begin.is_pending()
    job = producer.put(b"a")
    begin.expect(RESERVED(job, b"a"))
    begin.nth(1).expect(USING("default"))


@requirement(
    "reserve.several-jobs-on-a-connection",
    "Beanstalk supports reserving multiple jobs on a single TCP connection.",
)
def test_a_client_may_hold_several_jobs(client: Connection) -> None:
    jobs = client.put_many([b"a"] * 20)
    reserved = [each.reply("RESERVED").args[0] for each in client.each([b"reserve\r\n"] * 20)]
    assert sorted(reserved) == sorted(jobs)
    for job in jobs[1::2] + jobs[::2]:
        client.send(f"delete {job}").expect(DELETED)


@requirement(
    "reserve.second-reserve-waits",
    "The client has reserved one job, but there are no other jobs in the tube, so the second "
    "`reserve` command has not been answered yet.",
)
def test_a_second_reserve_waits_for_a_second_job(client: Connection, producer: Connection) -> None:
    job = producer.put(b"this is my cool tweet")
    both = client.each([b"reserve\r\n"] * 2)
    next(both).expect(RESERVED(job, b"this is my cool tweet"))
    waiting = next(both)
    producer.linger()
    waiting.is_pending()
    second = producer.put(b"another")
    waiting.expect(RESERVED(second, b"another"))
