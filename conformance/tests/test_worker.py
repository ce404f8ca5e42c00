"""Section "Worker Commands": reserve, reserve-with-timeout, reserve-job, watch and ignore."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect, NewTube
from reference_server.wire import (
    BAD_FORMAT,
    DEADLINE_SOON,
    DELETED,
    NOT_FOUND,
    NOT_IGNORED,
    RESERVED,
    TIMED_OUT,
    USING,
    WATCHING,
)


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
    waiting = worker.send("reserve")
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
    waiting = [new_worker().send("reserve") for _ in range(5)]
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
        client.reserve().expect(RESERVED(job, b"a"))
    if how in ("kick", "kick-job"):
        client.send(f"bury {job} 0").reply("BURIED")
    waiting = worker.send("reserve")
    client.linger()
    match how:
        case "release":
            client.send(f"release {job} 0 0").reply("RELEASED")
        case "kick" | "delay-kick":
            client.send("kick 1").reply("KICKED")
        case "kick-job":
            client.send(f"kick-job {job}").reply("KICKED")
    waiting.expect(RESERVED(job, b"a"))


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
    "lifecycle.close-releases-jobs",
    'The worker will execute the job; when it is finished the worker will send a "delete" '
    "command to delete the job.",
)
def test_a_job_is_not_lost_that_a_client_gets_who_has_just_left(
    producer: Connection, new_worker: Connect
) -> None:
    _loses_no_job(producer, new_worker, noticed=False)


def _loses_no_job(producer: Connection, new_worker: Connect, *, noticed: bool) -> None:
    """Expects two jobs for those who stay; ``noticed``: one who left is gone before they come."""
    first, second = new_worker(), new_worker()
    first.send("reserve")
    waiting = second.send("reserve")
    producer.linger()
    first.close()
    if noticed:
        producer.linger()
    jobs = producer.put_many([b"a", b"a"])
    third = new_worker()
    given = {int(waiting.reply("RESERVED").args[0])}
    # The server may have noticed only after it had given the first client a job.
    given.add(int(third.send("reserve").reply("RESERVED").args[0]))
    assert given == set(jobs)


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
        worker.send(f"watch {tube}").reply("WATCHING")
        client.send(f"watch {tube}").reply("WATCHING")
    waiting = worker.send("reserve")
    client.linger()
    for tube in reversed(tubes):
        client.send(f"use {tube}").expect(USING(tube))
        job = client.put(b"a")
        if tube == tubes[-1]:
            waiting.expect(RESERVED(job, b"a"))
        else:
            client.reserve().expect(RESERVED(job, b"a"))


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
        client.send(f"use {tube}").expect(USING(tube))
        client.send(f"watch {tube}").reply("WATCHING")
        jobs[pri] = client.put(b"a", pri=pri)
    for pri in range(1, 7):
        client.reserve().expect(RESERVED(jobs[pri], b"a"))


@requirement(
    "reserve.received-first",
    "Within each priority, it will choose the one that was received first.",
)
def test_within_a_priority_the_job_received_first_is_chosen(client: Connection) -> None:
    jobs = client.put_many([b"%d" % n for n in range(40)])
    for n, job in enumerate(jobs):
        client.reserve().expect(RESERVED(job, b"%d" % n))


@requirement(
    "reserve.timeout-zero",
    "A timeout value of 0 will cause the server to immediately return either a response or "
    "TIMED_OUT.",
)
def test_a_timeout_of_zero_answers_at_once(client: Connection) -> None:
    client.send("reserve-with-timeout 0").expect(TIMED_OUT)
    job = client.put(b"a")
    client.send("reserve-with-timeout 0").expect(RESERVED(job, b"a"))


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
    "reserve.deadline-soon-when-asked",
    "If the client issues a reserve command during the safety margin, […] the server will "
    r"respond with: DEADLINE_SOON\r\n",
)
@pytest.mark.parametrize("command", ["reserve", "reserve-with-timeout 0", "reserve-with-timeout 9"])
@pytest.mark.parametrize("ttr", [0, 1])
def test_with_a_ttr_of_one_second_the_margin_begins_at_once(
    client: Connection, command: str, ttr: int
) -> None:
    job = client.put(b"a", ttr=ttr)
    client.reserve().expect(RESERVED(job, b"a"))
    client.send(command).expect(DEADLINE_SOON)


@requirement(
    "reserve.any-watched-tube",
    "When a client reserves a job, it may come from any of the tubes in its watch list.",
)
def test_a_job_may_come_from_any_watched_tube(client: Connection, new_tube: NewTube) -> None:
    for tube in (new_tube(), new_tube()):
        client.send(f"watch {tube}").reply("WATCHING")
        client.send(f"use {tube}").expect(USING(tube))
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
    client.send(f"use {tube}").expect(USING(tube))
    client.put(b"a")
    client.finds_no_job()
    client.send(f"watch {tube}").expect(WATCHING(2))
    client.send(f"ignore {tube}").expect(WATCHING(1))
    client.finds_no_job()


@requirement("reserve.bad-format", r"reserve\r\n")
@pytest.mark.parametrize("line", ["reserve 1", "reserve x"])
def test_a_malformed_reserve(client: Connection, line: str) -> None:
    client.send(line).expect(BAD_FORMAT)


@requirement(
    "reserve.timeout-argument-strict",
    r"reserve-with-timeout <seconds>\r\n […] All integers in the protocol are formatted in "
    "decimal and (unless otherwise indicated) nonnegative.",
)
@pytest.mark.parametrize("argument", ["-1", "x", "", " ", "+1"])
def test_a_timeout_is_a_nonnegative_integer(client: Connection, argument: str) -> None:
    client.send(f"reserve-with-timeout {argument}").expect(BAD_FORMAT)


@requirement(
    "reserve.pipelined-behind-wait",
    "A client can send multiple commands at once, but Beanstalk will not respond to subsequent "
    "commands until it has responded to previous ones.",
)
def test_commands_behind_a_pending_reserve_wait_too(
    worker: Connection, producer: Connection
) -> None:
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
def test_a_client_may_hold_several_jobs(client: Connection, other: Connection) -> None:
    jobs = client.put_many([b"%d" % n for n in range(20)], in_order=True)
    for n, reserve in enumerate(client.each([b"reserve\r\n"] * 20)):
        reserve.expect(RESERVED(jobs[n], b"%d" % n))
    for job in jobs[1::2] + jobs[::2]:
        other.send(f"delete {job}").expect(NOT_FOUND)
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
        client.send(f"use {tube}").expect(USING(tube))
        order.append((pri, client.put(b"%d" % n, pri=pri), b"%d" % n))
    for tube in tubes[1:]:
        client.send(f"watch {tube}").reply("WATCHING")
    for _, job, body in sorted(order):
        client.reserve().expect(RESERVED(job, body))


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
        client.send(f"use {tube}").expect(USING(tube))
        order.append((n % 3, n, client.put(b"%d" % n, pri=n % 3)))
    for tube in tubes[1:]:
        client.send(f"watch {tube}").reply("WATCHING")
    for _, n, job in sorted(order):
        client.reserve().expect(RESERVED(job, b"%d" % n))


@requirement(
    "reserve-job.reserved",
    r'"RESERVED <id> <bytes>\r\n<data>\r\n". See the description for the reserve command.',
)
@pytest.mark.parametrize("state", ["ready", "delayed", "buried"])
def test_reserve_job_takes_a_job_in_any_of_these_states(client: Connection, state: str) -> None:
    job = client.job_in(state)
    client.send(f"reserve-job {job}").expect(RESERVED(job, b"a"))
    assert client.state_of(job) == "reserved"
    client.send(f"delete {job}").reply("DELETED")


@requirement("reserve-job.any-tube", "A job can be reserved by its id.")
def test_reserve_job_does_not_ask_for_a_watched_tube(client: Connection, new_tube: NewTube) -> None:
    client.send(f"use {new_tube()}").reply("USING")
    job = client.put(b"a")
    client.send(f"reserve-job {job}").expect(RESERVED(job, b"a"))


@requirement(
    "reserve-job.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or reserved by a client or is not either '
    "ready, buried or delayed.",
)
def test_reserve_job_of_a_reserved_job(client: Connection, other: Connection) -> None:
    job = client.put(b"a")
    client.reserve().expect(RESERVED(job, b"a"))
    client.send(f"reserve-job {job}").expect(NOT_FOUND)
    other.send(f"reserve-job {job}").expect(NOT_FOUND)


@requirement(
    "reserve-job.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or reserved by a client or is not either '
    "ready, buried or delayed.",
)
@pytest.mark.parametrize("job", [0, 2**63, 2**64 - 1])
def test_reserve_job_of_a_job_that_does_not_exist(client: Connection, job: int) -> None:
    client.send(f"reserve-job {job}").expect(NOT_FOUND)


@requirement("reserve-job.bad-format", r"reserve-job <id>\r\n")
@pytest.mark.parametrize("argument", ["x", "-1", "+0", "0x", str(2**64), ""])
def test_a_malformed_reserve_job(client: Connection, argument: str) -> None:
    client.send(f"reserve-job {argument}").expect(BAD_FORMAT)


@requirement(
    "watch.watching",
    r"WATCHING <count>\r\n <count> is the integer number of tubes currently in the watch list.",
)
def test_watch_counts_the_watched_tubes(connect: Connect, new_tube: NewTube) -> None:
    client = connect()
    for count in range(2, 12):
        client.send(f"watch {new_tube()}").expect(WATCHING(count))


@requirement(
    "watch.many-tubes",
    "A reserve command will take a job from any of the tubes in the watch list.",
)
def test_a_client_may_watch_100_tubes(client: Connection, new_tube: NewTube) -> None:
    tubes = [new_tube() for _ in range(100)]
    lines = [f"watch {tube}\r\n".encode() for tube in tubes]
    for count, watch in enumerate(client.each(lines), 2):
        watch.expect(WATCHING(count))
    assert set(client.send("list-tubes-watched").names()) == {client.tube, *tubes}
    for tube in (tubes[0], tubes[49], tubes[99]):
        client.send(f"use {tube}").expect(USING(tube))
        job = client.put(b"a")
        client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "watch.many-tubes",
    "A reserve command will take a job from any of the tubes in the watch list.",
)
def test_a_client_that_waits_for_100_tubes_is_served_from_any(
    client: Connection, worker: Connection, new_tube: NewTube
) -> None:
    tubes = [new_tube() for _ in range(100)]
    lines = [f"watch {tube}\r\n".encode() for tube in tubes]
    for count, watch in enumerate(worker.each(lines), 2):
        watch.expect(WATCHING(count))
    for tube in (tubes[99], tubes[0], tubes[50]):
        waiting = worker.send("reserve")
        client.send(f"use {tube}").expect(USING(tube))
        client.linger()
        waiting.is_pending()
        job = client.put(b"a")
        waiting.expect(RESERVED(job, b"a"))


@requirement(
    "watch.own-connection-only",
    'The "watch" command adds the named tube to the watch list for the current connection.',
)
def test_watch_does_not_concern_other_clients(
    client: Connection, other: Connection, new_tube: NewTube
) -> None:
    tube = new_tube()
    client.send(f"watch {tube}").expect(WATCHING(2))
    other.send(f"use {tube}").expect(USING(tube))
    other.put(b"a")
    other.finds_no_job()
    assert other.send("list-tubes-watched").names() == [other.tube]


@requirement("watch.twice", "<count> is the integer number of tubes currently in the watch list.")
def test_watching_a_tube_twice_counts_once(client: Connection) -> None:
    client.send(f"watch {client.tube}").expect(WATCHING(1))
    assert client.send("list-tubes-watched").names() == [client.tube]
    assert client.stats_tube()["current-watching"] == "1"


@requirement(
    "watch.name-limit",
    "<tube> is a name at most 200 bytes. It specifies a tube to add to the watch list.",
)
def test_watch_takes_a_name_of_200_bytes(client: Connection) -> None:
    name = client.tube.ljust(200, "n")
    client.send(f"watch {name}").expect(WATCHING(2))
    assert set(client.send("list-tubes-watched").names()) == {client.tube, name}


@requirement("watch.creates-tube", "If the tube doesn't exist, it will be created.")
def test_watch_creates_a_tube(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.send(f"watch {tube}").expect(WATCHING(2))
    assert client.stats_tube(tube)["current-watching"] == "1"


@requirement("watch.bad-format", r"watch <tube>\r\n")
@pytest.mark.parametrize("argument", ["", "-a", "a b", "a!", "n" * 201])
def test_watch_of_what_is_no_name(client: Connection, argument: str) -> None:
    client.send(f"watch {argument}").expect(BAD_FORMAT)
    assert client.send("list-tubes-watched").names() == [client.tube]


@requirement(
    "ignore.watching",
    'It removes the named tube from the watch list for the current connection. […] "WATCHING '
    r'<count>\r\n" to indicate success.',
)
def test_ignore_counts_the_tubes_that_are_left(client: Connection, new_tube: NewTube) -> None:
    tubes = [new_tube(), new_tube()]
    for tube in tubes:
        client.send(f"watch {tube}").reply("WATCHING")
    client.send(f"ignore {tubes[0]}").expect(WATCHING(2))
    client.send(f"ignore {tubes[1]}").expect(WATCHING(1))


@requirement(
    "ignore.takes-effect",
    "It removes the named tube from the watch list for the current connection.",
)
def test_jobs_of_an_ignored_tube_are_not_given(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.put(b"a")
    client.send(f"watch {tube}").expect(WATCHING(2))
    client.send(f"ignore {client.tube}").expect(WATCHING(1))
    client.finds_no_job()
    assert client.send("list-tubes-watched").names() == [tube]


@requirement(
    "ignore.default",
    "It removes the named tube from the watch list for the current connection.",
)
def test_default_can_be_ignored(connect: Connect, tube: str) -> None:
    client = connect()
    client.send(f"watch {tube}").expect(WATCHING(2))
    client.send("ignore default").expect(WATCHING(1))
    assert client.send("list-tubes-watched").names() == [tube]


@requirement("ignore.name-limit", "if the name of a tube exceeds 200 bytes")
def test_ignore_takes_a_name_of_200_bytes(client: Connection) -> None:
    name = client.tube.ljust(200, "n")
    client.send(f"watch {name}").expect(WATCHING(2))
    client.send(f"ignore {name}").expect(WATCHING(1))


@requirement(
    "ignore.creates-no-tube",
    "It removes the named tube from the watch list for the current connection.",
)
def test_ignore_creates_no_tube(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.send(f"ignore {tube}").any_reply()
    client.send(f"stats-tube {tube}").expect(NOT_FOUND)


@requirement(
    "ignore.not-ignored",
    r'"NOT_IGNORED\r\n" if the client attempts to ignore the only tube in its watch list.',
)
def test_the_only_watched_tube_cannot_be_ignored(client: Connection) -> None:
    client.send(f"ignore {client.tube}").expect(NOT_IGNORED)
    assert client.send("list-tubes-watched").names() == [client.tube]


@requirement(
    "ignore.unwatched-tube",
    "<count> is the integer number of tubes currently in the watch list.",
)
def test_ignoring_a_tube_that_is_not_watched_changes_nothing(
    client: Connection, new_tube: NewTube
) -> None:
    client.send(f"ignore {new_tube()}").expect(WATCHING(1))
    assert client.send("list-tubes-watched").names() == [client.tube]


@requirement("ignore.bad-format", r"ignore <tube>\r\n")
@pytest.mark.parametrize("argument", ["", "-a", "a b", "a!", "n" * 201])
def test_ignore_of_what_is_no_name(client: Connection, argument: str) -> None:
    client.send(f"ignore {argument}").expect(BAD_FORMAT)
