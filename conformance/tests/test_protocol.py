"""Section "Protocol": the order of replies, lines, integers, bodies and connections."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Role
from conformance.dialogue.scenario import Connect
from conformance.oracle.underspecification import is_free
from conformance.verdict import Deviation, NotApplicable
from reference_server.profiles import Profile
from reference_server.wire import (
    BAD_FORMAT,
    DELETED,
    FOUND,
    JOB_TOO_BIG,
    KICKED_COUNT,
    RESERVED,
    TIMED_OUT,
    UNKNOWN_COMMAND,
    USING,
    Reply,
)


@requirement(
    "protocol.serial-replies",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_replies_come_in_the_order_of_the_commands(connect: Connect, tube: str) -> None:
    first, client = connect(), connect()
    use, watch, ignore = f"use {tube}", f"watch {tube}", "ignore default"
    # One after the other, each of them is answered as it should be.
    using = first.prepare(use).reply("USING")
    watching, left = (first.prepare(line).reply("WATCHING") for line in (watch, ignore))
    lines = f"{use}\r\n{watch}\r\n".encode() + client.ping + f"{ignore}\r\n".encode()
    begin = client.raw(lines, replies=4)
    begin.expect(using)
    begin.nth(1).expect(watching)
    begin.nth(2).any_reply()
    begin.nth(3).expect(left)


@requirement(
    "protocol.serial-replies",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_commands_behind_a_reserve_that_does_not_wait_are_answered(client: Connection) -> None:
    line = b"reserve-with-timeout 0\r\n"
    client.needs(line)
    begin = client.raw((line + client.ping) * 3, replies=6)
    for number in (0, 2, 4):
        begin.nth(number, Role("reserve.timeout-zero", waits=True)).reply("TIMED_OUT")
        begin.nth(number + 1).expect(client.pong)


@requirement(
    "protocol.serial-replies",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_a_long_pipeline_is_answered_completely_and_in_order(client: Connection) -> None:
    jobs = client.put_many([b"%d" % n for n in range(200)])
    client.reserve_many(200)
    both = b"".join(b"peek %d\r\ndelete %d\r\n" % (job, job) for job in jobs)
    begin = client.raw(both, replies=400)
    for n, job in enumerate(jobs):
        begin.nth(2 * n).expect(FOUND(job, b"%d" % n))
        begin.nth(2 * n + 1).expect(DELETED)


@requirement(
    "protocol.serial-replies",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_two_clients_do_not_get_each_others_replies(client: Connection, other: Connection) -> None:
    first, second = client.raw(client.ping), other.send("kick 1")
    second.reply("KICKED")
    first.expect(client.pong)


@requirement(
    "protocol.serial-replies",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_each_command_is_answered_once(client: Connection) -> None:
    for job in (client.put_and_reserve(), client.put_and_reserve()):
        client.raw(client.ping).expect(client.pong)
        client.delete(job)
        client.raw(client.ping).expect(client.pong)


@requirement(
    "protocol.serial-replies",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_statistics_are_answered_once(client: Connection) -> None:
    for _ in range(2):
        client.observe("stats").any_reply()
        client.raw(client.ping).expect(client.pong)


@requirement(
    "protocol.half-close-is-answered",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_commands_sent_before_a_half_close_are_all_answered(client: Connection) -> None:
    lines = b"put 0 0 60 1\r\na\r\nreserve\r\nreserve\r\nreserve\r\nlist-tube-used\r\n"
    begin = client.raw(lines, replies=5)
    client.half_close()
    job = begin.reply("INSERTED").args[0]
    assert begin.nth(1).reply("RESERVED").args[0] == job
    begin.nth(2).expect(TIMED_OUT)
    begin.nth(3).expect(TIMED_OUT)
    begin.nth(4).expect(USING(client.tube))
    client.is_closed_by_target()


@requirement(
    "stats.answered-to-a-probe",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_the_probe_that_monitoring_sends_is_answered(connect: Connect) -> None:
    """Send what ``echo -e "stats\\r\\n" | nc`` sends: another line is begun, and never ended."""
    client = connect()
    asked = client.raw(b"stats\r\n\n")
    client.half_close()
    asked.dictionary()
    assert [reply for reply in client.rest() if reply not in (BAD_FORMAT, UNKNOWN_COMMAND)] == []


@requirement(
    "protocol.line-ends-with-crlf",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    r"happen if the line does not end with \r\n",
)
def test_a_line_feed_alone_does_not_end_a_line(client: Connection) -> None:
    client.raw(client.ping.strip() + b"\n" + client.ping).expect(BAD_FORMAT, UNKNOWN_COMMAND)
    client.is_in_step()


@requirement(
    "protocol.several-blanks",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed.',
)
def test_several_blanks_may_be_between_the_numbers_of_put(client: Connection) -> None:
    job = int(client.raw(b"put  7  3600   60    1\r\na\r\n").reply("INSERTED").args[0])
    client.job_is(job, state="delayed", pri=7, delay=3600, ttr=60)
    client.send("kick  1").expect(KICKED_COUNT(1))


@requirement(
    "protocol.any-segmentation",
    "The beanstalk protocol runs over TCP using ASCII encoding.",
)
def test_a_command_may_come_in_two_pieces(client: Connection, other: Connection) -> None:
    for cut in range(1, len(client.ping)):
        client.raw(client.ping[:cut], replies=0)
        other.is_in_step()
        client.raw(client.ping[cut:]).expect(client.pong)


@requirement(
    "protocol.any-segmentation",
    "The beanstalk protocol runs over TCP using ASCII encoding.",
)
def test_a_command_may_come_byte_by_byte(client: Connection) -> None:
    client.synchronise()
    for byte in client.ping[:-1]:
        client.raw(bytes([byte]), replies=0)
    client.raw(b"\n").expect(client.pong)


@requirement(
    "protocol.any-segmentation",
    "The beanstalk protocol runs over TCP using ASCII encoding.",
)
def test_a_body_may_come_apart_from_its_line(client: Connection) -> None:
    client.raw(b"put 0 0 60 5\r\nhe", replies=0)
    job = client.raw(b"llo\r\n").reply("INSERTED").args[0]
    client.peek(int(job)).expect(FOUND(int(job), b"hello"))


@requirement(
    "protocol.any-segmentation",
    "The beanstalk protocol runs over TCP using ASCII encoding.",
)
def test_a_body_may_come_with_the_next_command(client: Connection) -> None:
    both = client.raw(b"put 0 0 60 5\r\nhello\r\n" + client.ping, replies=2)
    both.reply("INSERTED")
    both.nth(1).expect(client.pong)


@requirement(
    "protocol.body-opaque",
    "Each job body is an opaque sequence of bytes. The server never inspects or modifies a job "
    "body and always sends it back in its original form.",
)
def test_a_body_may_contain_every_byte(client: Connection) -> None:
    body = bytes(range(256))
    job = client.tested.put(body)
    client.peek(job).expect(FOUND(job, body))
    client.reserve().expect(RESERVED(job, body))


@requirement(
    "protocol.body-opaque",
    "Each job body is an opaque sequence of bytes. The server never inspects or modifies a job "
    "body and always sends it back in its original form.",
)
@pytest.mark.parametrize("body", [b"", b"\r\n", b"\r\n\r\n", b"delete 1\r\n", b"\r", b"\0"])
def test_a_body_is_given_back_as_it_was(client: Connection, body: bytes) -> None:
    job = client.tested.put(body)
    client.reserve().expect(RESERVED(job, body))


@requirement(
    "protocol.close-ends-connection",
    "simply close the TCP connection when it no longer has use for the server.",
)
def test_a_client_may_simply_close(client: Connection, other: Connection) -> None:
    client.put(b"a")
    client.half_close()
    client.is_closed_by_target()
    other.is_in_step()


@requirement(
    "protocol.incomplete-put-is-dropped",
    'The client may issue the "quit" command, or simply close the TCP connection when it no '
    "longer has use for the server.",
)
@pytest.mark.parametrize(
    ("sent", "refused"),
    [
        (b"put 0 0", []),
        (b"put 0 0 60 5\r\n", []),
        (b"put 0 0 60 5\r\nhello", []),
        (b"put 0 0 60 99999999\r\nhello", [JOB_TOO_BIG]),
    ],
)
def test_a_put_that_is_never_complete_makes_no_job(
    client: Connection,
    new_producer: Connect,
    profile: Profile,
    sent: bytes,
    refused: list[Reply],
) -> None:
    if is_free(sent, profile):
        raise NotApplicable(f"profile {profile.name} refuses it at once")
    producer = new_producer()
    producer.raw(sent, replies=0)
    producer.half_close()
    # What is too big may be refused before its body has come.
    allowed = " or ".join(["no reply", *map(str, refused)])
    replies = producer.rest()
    if replies not in ([], refused):
        said = " ".join(map(str, replies))
        raise Deviation(f"{allowed}, and the end of the connection", said, conclusive=True)
    client.finds_no_job()
    if profile.has_tubes:
        assert client.stats_tube()["total-jobs"] == "0"
