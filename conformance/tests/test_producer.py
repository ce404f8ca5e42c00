"""Section "Producer Commands": put and use."""

import signal

import pytest

from conformance.catalogue import catalogue, configured, requirement
from conformance.dialogue.connection import Connection, eventually
from conformance.dialogue.malformed import refuse, refuse_body
from conformance.dialogue.scenario import Connect, NewTube
from conformance.target.target import Target
from conformance.verdict import NotTestable, TargetLost
from reference_server.profiles import Profile
from reference_server.wire import (
    BAD_FORMAT,
    DELETED,
    DRAINING,
    EXPECTED_CRLF,
    FOUND,
    JOB_TOO_BIG,
    NOT_FOUND,
    RESERVED,
    UNKNOWN_COMMAND,
    USING,
)


@requirement("put.inserted")
def test_put_is_answered_with_the_id_of_a_job_that_exists(client: Connection) -> None:
    job = client.put(b"hello")
    client.send(f"peek {job}").expect(FOUND(job, b"hello"))


@requirement("put.inserted")
def test_each_of_many_jobs_exists(client: Connection) -> None:
    for job in client.put_many([b"a"] * 30):
        client.send(f"peek {job}").expect(FOUND(job, b"a"))


@requirement("put.inserted", "reserve.id-unique")
def test_each_job_has_an_id_of_its_own(client: Connection, other: Connection) -> None:
    jobs = [connection.put(b"a") for connection in (client, other) * 10]
    assert len(set(jobs)) == len(jobs)


@requirement("put.ids-increase")
def test_ids_increase(client: Connection, other: Connection) -> None:
    jobs = [connection.put(b"a") for connection in (client, other) * 20]
    for _ in jobs[::3]:
        job = client.reserve().reply("RESERVED").args[0]
        client.send(f"delete {job}").expect(DELETED)
    jobs += client.put_many([b"a"] * 20)
    assert jobs == sorted(set(jobs))


@requirement("put.id-is-taken-with-the-line")
def test_the_id_is_taken_when_the_line_comes(alone: None, client: Connection) -> None:
    first = client.put(b"a")
    client.raw(b"put 0 0 60 1\r\naxx").expect(EXPECTED_CRLF)
    assert client.put(b"b") == first + 2


@requirement("put.into-used-tube")
def test_put_inserts_into_the_used_tube(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.send(f"use {tube}").expect(USING(tube))
    job = client.put(b"a")
    assert client.stats_job(job)["tube"] == tube


@requirement("put.into-used-tube")
def test_watching_a_tube_does_not_change_where_put_inserts(
    client: Connection, new_tube: NewTube
) -> None:
    client.send(f"watch {new_tube()}").reply("WATCHING")
    job = client.put(b"a")
    assert client.stats_job(job)["tube"] == client.tube


@requirement("put.smaller-priority-first")
def test_jobs_with_smaller_priority_values_come_first(client: Connection) -> None:
    priorities = [5, 1023, 0, 4294967295, 1024, 1, 2**31, 7, 2, 4294967294]
    jobs = {pri: client.put(b"%d" % pri, pri=pri) for pri in priorities}
    for pri in sorted(priorities):
        client.reserve().expect(RESERVED(jobs[pri], b"%d" % pri))


@requirement("put.priority-limit")
@pytest.mark.parametrize("pri", [0, 1, 1023, 1024, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_priority_of_32_bits(client: Connection, pri: int) -> None:
    job = client.put(b"a", pri=pri)
    client.job_is(job, pri=pri)


@requirement("put.priority-limit")
@pytest.mark.parametrize("pri", ["-1", str(2**32), str(2**64), "9" * 30])
def test_a_priority_out_of_range(client: Connection, pri: str) -> None:
    refuse(client, f"put {pri} 0 1 1")


@requirement("put.delay")
def test_a_job_with_a_delay_is_delayed(client: Connection) -> None:
    job = client.put(b"a", delay=3600)
    assert client.state_of(job) == "delayed"
    client.finds_no_job()


@requirement("put.delay-limit")
@pytest.mark.parametrize("delay", [1, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_delay_of_32_bits(client: Connection, delay: int) -> None:
    job = client.put(b"a", delay=delay)
    client.job_is(job, state="delayed", delay=delay)


@requirement("put.delay-limit")
@pytest.mark.parametrize("delay", ["-1", str(2**32), str(2**64)])
def test_a_delay_out_of_range(client: Connection, delay: str) -> None:
    refuse(client, f"put 0 {delay} 1 1")


@requirement("put.ttr-zero-becomes-one")
def test_a_ttr_of_zero_becomes_one(client: Connection) -> None:
    job = client.put(b"a", ttr=0)
    assert client.stats_job(job)["ttr"] == "1"


@requirement("put.ttr-limit")
@pytest.mark.parametrize("ttr", [1, 2, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_ttr_of_32_bits(client: Connection, ttr: int) -> None:
    job = client.put(b"a", ttr=ttr)
    assert client.stats_job(job)["ttr"] == str(ttr)


@requirement("put.ttr-limit")
@pytest.mark.parametrize("ttr", ["-1", str(2**32), str(2**64)])
def test_a_ttr_out_of_range(client: Connection, ttr: str) -> None:
    refuse(client, f"put 0 0 {ttr} 1")


@requirement("put.body-size-excludes-crlf")
@pytest.mark.parametrize("size", [0, 1, 2, 223, 224, 225, 1023, 1024, 4096, 65534])
def test_bodies_of_many_sizes(client: Connection, size: int) -> None:
    body = bytes(n % 251 for n in range(size))
    job = client.put(body)
    client.reserve().expect(RESERVED(job, body))


def _max_job_size(client: Connection) -> int:
    size = client.stats().number("max-job-size")
    if size > 2**26:
        raise NotTestable(f"a max-job-size of {size} bytes is too large to send")
    return size


@requirement("put.body-limit")
def test_a_body_of_max_job_size_is_accepted(client: Connection) -> None:
    body = b"m" * _max_job_size(client)
    job = client.put(body)
    client.reserve().expect(RESERVED(job, body))


@requirement("put.body-limit")
def test_a_body_of_one_byte_more_is_refused(
    client: Connection, other: Connection, profile: Profile
) -> None:
    refuse_body(client, b"m" * (_max_job_size(client) + 1), profile)
    other.send("peek-ready").expect(NOT_FOUND)


@requirement("put.body-limit")
@configured(max_job_size=10)
def test_the_limit_is_what_the_server_was_told(
    own_server: Target, client: Connection, profile: Profile
) -> None:
    client.raw(b"put 0 0 60 10\r\n0123456789\r\n").reply("INSERTED")
    refuse_body(client, b"01234567890", profile)


def _drain(server: Target, connect: Connect) -> None:
    """Puts a server into drain mode, and jobs until it has noticed the signal."""
    server.signal(signal.SIGUSR1)
    put = b"put 9 0 60 1\r\na\r\n"
    try:
        # Where a put is refused at once, its body may be taken for a command.
        drains = eventually(lambda: connect().raw(put, replies=2).any_reply() == DRAINING)
    except TargetLost as lost:
        # Where the text names no signal, a server need not expect one, and the system ends it.
        told = catalogue()["put.draining"].judged_by(server.profile.name).level == "must"
        lost.de_facto = not told and lost.observed.endswith(signal.SIGUSR1.name)
        raise
    assert drains, "put was never answered DRAINING"


@requirement("put.draining")
def test_in_drain_mode_put_is_refused(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    job = client.put(b"a", pri=0)
    _drain(own_server, new_client)
    client.reserve().expect(RESERVED(job, b"a"))
    client.send(f"release {job} 0 0").reply("RELEASED")


@requirement("put.draining-reads-the-body")
def test_in_drain_mode_a_body_is_not_read_as_commands(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    _drain(own_server, new_client)
    client.raw(b"put 0 0 60 5\r\nstats\r\n" + client.ping, replies=2).expect(DRAINING)
    client.receives(client.pong)
    client.raw(b"put 0 0 60 1\r\nbxx").expect(EXPECTED_CRLF, DRAINING)


@requirement("put.draining-stays-in-step")
def test_in_drain_mode_a_body_is_skipped_and_the_next_command_is_read(
    own_server: Target, client: Connection, connect: Connect
) -> None:
    _drain(own_server, connect)
    for body in (b"stats", b"x" * 10, b"bogus\r\nbogus"):
        head = b"put 0 0 60 %d\r\n" % len(body)
        client.raw(head + body + b"\r\n" + client.ping, replies=2)
        client.receives(DRAINING, client.pong)


@requirement("put.draining-keeps-the-connection")
def test_in_drain_mode_whoever_puts_may_go_on(
    own_server: Target, client: Connection, connect: Connect
) -> None:
    job = client.put(b"a")
    _drain(own_server, connect)
    client.raw(b"put 0 0 60 1\r\nb\r\n").expect(DRAINING)
    client.send(f"delete {job}").expect(DELETED)


@requirement("put.draining-keeps-no-job")
def test_in_drain_mode_what_was_refused_is_no_job(
    own_server: Target, connect: Connect, new_client: Connect, new_worker: Connect
) -> None:
    client, waiting = new_client(), new_worker().send("reserve")
    _drain(own_server, connect)
    before = client.stats()
    for delay in (0, 3600):
        client.raw(b"put 0 %d 60 1\r\nb\r\n" % delay).expect(DRAINING)
    client.linger()
    waiting.is_pending()
    after = client.stats()
    for state in ("ready", "reserved", "delayed", "buried"):
        assert after[f"current-jobs-{state}"] == before[f"current-jobs-{state}"]
    new_worker().finds_no_job()


@requirement("put.draining-only-put")
def test_in_drain_mode_new_clients_are_welcome(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    job = client.put(b"a", pri=0)
    _drain(own_server, new_client)
    new_client().reserve().expect(RESERVED(job, b"a"))


@requirement("put.too-big-body-is-skipped")
def test_the_body_of_a_job_that_is_too_big_is_not_read_as_commands(client: Connection) -> None:
    size = _max_job_size(client) + 100
    body = client.ping.ljust(size, b"\n")
    client.raw(b"put 0 0 60 %d\r\n%b\r\n" % (size, body)).expect(JOB_TOO_BIG)
    client.is_in_step()


@requirement("put.too-big-body-needs-no-end")
def test_a_body_that_is_too_big_need_not_end_with_cr_lf(client: Connection) -> None:
    size = _max_job_size(client) + 1
    client.raw(b"put 0 0 60 %d\r\n%bxx" % (size, b"m" * size)).expect(JOB_TOO_BIG)
    client.is_in_step()


@requirement("put.expected-crlf")
@pytest.mark.parametrize("end", [b"xx", b"\n\r", b"\r\r", b"\n\n", b"\rx", b"x\n"])
def test_a_body_that_is_not_followed_by_cr_lf(client: Connection, end: bytes) -> None:
    client.raw(b"put 0 0 60 5\r\nhello" + end).expect(EXPECTED_CRLF)
    client.finds_no_job()


@requirement("put.expected-crlf-skips-body-and-two-bytes")
def test_after_a_bad_end_of_a_body_the_next_command_is_read(client: Connection) -> None:
    both = client.raw(b"put 0 0 60 5\r\nhelloxx" + client.ping, replies=2)
    both.expect(EXPECTED_CRLF)
    both.nth(1).expect(client.pong)


@requirement("put.malformed-line-has-no-body")
def test_after_a_malformed_put_its_body_is_not_a_job(client: Connection) -> None:
    client.send("put 0 0 60").expect(BAD_FORMAT)
    client.send("hello").expect(UNKNOWN_COMMAND)
    client.finds_no_job()


@requirement("put.bad-format")
@pytest.mark.parametrize("size", ["-1", "x", "5x", ""])
def test_a_malformed_size(client: Connection, size: str) -> None:
    client.send(f"put 0 0 60 {size}").expect(BAD_FORMAT)


@requirement("put.size-of-32-bits")
@pytest.mark.parametrize("size", [2**32, 2**32 + 1, 2**64, 10**30])
def test_a_size_of_more_than_32_bits(client: Connection, size: int) -> None:
    client.send(f"put 0 0 60 {size}").expect(BAD_FORMAT)
    client.is_in_step()


@requirement("put.bad-format")
@pytest.mark.parametrize(
    "line", ["put +1 0 60 1", "put 0 +1 60 1", "put 1.5 0 60 1", "put\t0 0 1 1"]
)
def test_a_number_is_made_of_digits(client: Connection, line: str) -> None:
    refuse(client, line, BAD_FORMAT, UNKNOWN_COMMAND)


@requirement("use.using")
def test_use_names_the_tube_now_used(connect: Connect, tube: str) -> None:
    client = connect()
    client.send(f"use {tube}").expect(USING(tube))
    client.send("list-tube-used").expect(USING(tube))


@requirement("use.subsequent-puts")
def test_use_holds_for_all_puts_until_the_next_use(client: Connection, new_tube: NewTube) -> None:
    for tube in (new_tube(), "default", new_tube()):
        client.send(f"use {tube}").expect(USING(tube))
        for _ in range(3):
            job = client.put(b"a", delay=3600)
            assert client.stats_job(job)["tube"] == tube


@requirement("use.subsequent-puts")
def test_use_does_not_move_jobs_that_are_there(client: Connection, new_tube: NewTube) -> None:
    job = client.put(b"a")
    client.send(f"use {new_tube()}").reply("USING")
    assert client.stats_job(job)["tube"] == client.tube


@requirement("use.subsequent-puts")
def test_use_does_not_concern_other_clients(
    client: Connection, other: Connection, new_tube: NewTube
) -> None:
    client.send(f"use {new_tube()}").reply("USING")
    assert client.stats_job(other.put(b"a"))["tube"] == other.tube


@requirement("use.does-not-watch")
def test_use_does_not_watch(client: Connection, new_tube: NewTube) -> None:
    client.send(f"use {new_tube()}").reply("USING")
    assert client.send("list-tubes-watched").names() == [client.tube]
    client.put(b"a")
    client.finds_no_job()


@requirement("use.name-limit")
def test_use_takes_a_name_of_200_bytes(client: Connection) -> None:
    name = client.tube.ljust(200, "n")
    client.send(f"use {name}").expect(USING(name))
    client.send("list-tube-used").expect(USING(name))


@requirement("use.name-limit")
def test_names_are_told_apart_by_their_200th_byte(client: Connection) -> None:
    first, second = client.tube.ljust(199, "n") + "1", client.tube.ljust(199, "n") + "2"
    client.send(f"use {first}").expect(USING(first))
    job = client.put(b"a")
    client.send(f"use {second}").expect(USING(second))
    client.send("peek-ready").expect(NOT_FOUND)
    assert client.stats_job(job)["tube"] == first


@requirement("use.creates-tube")
def test_use_creates_a_tube(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.send(f"use {tube}").expect(USING(tube))
    assert client.stats_tube(tube)["current-using"] == "1"


@requirement("use.bad-format")
@pytest.mark.parametrize("argument", ["", "-a", "a b", "a!", "n" * 201])
def test_use_of_what_is_no_name_changes_nothing(client: Connection, argument: str) -> None:
    client.send(f"use {argument}").expect(BAD_FORMAT)
    client.send("list-tube-used").expect(USING(client.tube))
