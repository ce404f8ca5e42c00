"""Section "Other Commands", continued: quit."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Role
from conformance.dialogue.scenario import Connect
from reference_server.wire import FOUND, RESERVED, USING

SERIALLY = (
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order."
)
UNKNOWN = Role("error.unknown-command")
"""The part of lines that have to be refused before anything else can be seen."""
PEEKS, SIZE = 110, 60_000
"""Replies, more than a target can send while nothing is read, and the size of each."""
WAITING, EARLIER = 12, 4
"""Clients that wait for jobs of another one, and those that have connected before that."""
LINES = 500
"""Long lines that follow them, more than a target may want to read before."""


@requirement(
    "protocol.serial-replies",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_commands_before_quit_are_answered(client: Connection) -> None:
    client.needs(b"quit")
    begin = client.raw(b"bogus\r\nlist-tube-used\r\nquit\r\n", replies=2)
    begin.nth(0, UNKNOWN).any_reply()
    begin.nth(1).expect(USING(client.tube))
    client.is_closed_by_target()


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(b"quit\r\n", marks=requirement("protocol.serial-replies", SERIALLY)),
        pytest.param(b"", marks=requirement("protocol.half-close-is-answered", SERIALLY)),
    ],
)
def test_a_client_that_reads_late_gets_all_replies_before_the_end(
    client: Connection, other: Connection, end: bytes
) -> None:
    if end:
        client.needs(b"quit")
    other.send("x" * 200, UNKNOWN).any_reply()
    body = bytes(n % 251 for n in range(SIZE))
    job = client.put(body)
    lines = b"peek %d\r\n" % job * PEEKS + (b"x" * 200 + b"\r\n") * LINES
    begin = client.raw(lines + end, replies=PEEKS + LINES)
    if not end:
        client.half_close()
    other.synchronise()
    for number in range(PEEKS):
        begin.nth(number).expect(FOUND(job, body))
    for number in range(PEEKS, PEEKS + LINES):
        begin.nth(number).any_reply()
    client.is_closed_by_target()


@requirement("quit.closes", "The quit command simply closes the connection.")
def test_quit_closes_the_connection(client: Connection, other: Connection) -> None:
    client.raw(b"quit\r\n", replies=0)
    client.is_closed_by_target()
    other.is_in_step()


@requirement(
    "reserve.waits-for-job",
    "If no job is available to be reserved, beanstalkd will wait to send a response until one "
    "becomes available.",
)
def test_clients_that_wait_get_jobs_that_are_put_together_with_quit(
    new_client: Connect, new_worker: Connect
) -> None:
    waiting = [new_worker().reserve_waiting() for _ in range(EARLIER)]
    client = new_client()
    client.needs(b"quit")
    waiting += [new_worker().reserve_waiting() for _ in range(WAITING - EARLIER)]
    client.linger()
    client.raw(b"put 0 0 60 1\r\na\r\n" * WAITING + b"quit\r\n", replies=WAITING)
    given = {exchange.reply("RESERVED").args[0] for exchange in waiting}
    assert len(given) == WAITING


@requirement("quit.nothing-behind-it", "The quit command simply closes the connection.")
def test_what_comes_behind_quit_is_not_done(client: Connection, other: Connection) -> None:
    client.raw(b"quit\r\nput 0 0 60 1\r\na\r\nlist-tube-used\r\n", replies=0)
    client.is_closed_by_target()
    other.finds_no_job()


@requirement("quit.lets-jobs-go", "The quit command simply closes the connection.")
def test_jobs_of_a_client_that_quits_are_ready_again(client: Connection, other: Connection) -> None:
    job = client.put_and_reserve()
    client.raw(b"quit\r\n", replies=0)
    client.is_closed_by_target()
    other.becomes(lambda: other.state_of(job) == "ready")
    other.reserve().expect(RESERVED(job, b"a"))
