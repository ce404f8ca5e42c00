"""Section "Producer Commands", continued: the body of put."""

import pytest

from conformance.catalogue import configured, requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Role
from conformance.dialogue.malformed import refuse, refuse_body
from conformance.dialogue.scaled_lines import largest_body
from conformance.target.target import Target
from conformance.verdict import NotTestable
from reference_server.profiles import Profile
from reference_server.wire import (
    BAD_FORMAT,
    CRLF,
    EXPECTED_CRLF,
    JOB_TOO_BIG,
    NOT_FOUND,
    RESERVED,
    UNKNOWN_COMMAND,
)

_REFUSED = Role("put.body-limit")


@requirement(
    "put.body-size-excludes-crlf",
    "<bytes> is an integer indicating the size of the job body, not including the trailing "
    r'"\r\n".',
)
@pytest.mark.parametrize("size", [0, 1, 2, 223, 224, 225, 1023, 1024, 4096, 65534])
def test_bodies_of_many_sizes(server: Target, client: Connection, size: int) -> None:
    body = bytes(n % 251 for n in range(len(largest_body(server, size))))
    job = client.tested.put(body)
    client.reserve().expect(RESERVED(job, body))


def _max_job_size(client: Connection) -> int:
    size = client.stats().number("max-job-size")
    if size > 2**26:
        raise NotTestable(f"a max-job-size of {size} bytes is too large to send")
    return size


@requirement(
    "put.body-limit",
    r'"JOB_TOO_BIG\r\n" The client has requested to put a job with a body larger than '
    "max-job-size bytes.",
)
def test_a_body_of_max_job_size_is_accepted(client: Connection) -> None:
    body = b"m" * _max_job_size(client)
    job = client.tested.put(body)
    client.reserve().expect(RESERVED(job, body))


@requirement(
    "put.body-limit",
    r'"JOB_TOO_BIG\r\n" The client has requested to put a job with a body larger than '
    "max-job-size bytes.",
)
def test_a_body_of_one_byte_more_is_refused(
    client: Connection, other: Connection, profile: Profile
) -> None:
    refuse_body(client, b"m" * (_max_job_size(client) + 1), profile)
    other.peek_ready().expect(NOT_FOUND)


@requirement(
    "put.body-limit",
    r'"JOB_TOO_BIG\r\n" The client has requested to put a job with a body larger than '
    "max-job-size bytes.",
)
@configured(max_job_size=10)
def test_the_limit_is_what_the_server_was_told(
    own_server: Target, client: Connection, profile: Profile
) -> None:
    client.raw(b"put 0 0 60 10\r\n0123456789\r\n").reply("INSERTED")
    refuse_body(client, b"01234567890", profile)


@requirement(
    "put.too-big-body-is-skipped",
    r'"JOB_TOO_BIG\r\n" The client has requested to put a job with a body larger than '
    "max-job-size bytes.",
)
def test_the_body_of_a_job_that_is_too_big_is_not_read_as_commands(client: Connection) -> None:
    size = _max_job_size(client) + 100
    body = client.ping.ljust(size, b"\n")
    put = b"put 0 0 60 %d\r\n%b\r\n" % (size, body)
    client.raw(put, role=_REFUSED).expect(JOB_TOO_BIG)
    client.is_in_step()


@requirement(
    "put.too-big-body-is-skipped",
    r'"JOB_TOO_BIG\r\n" The client has requested to put a job with a body larger than '
    "max-job-size bytes.",
)
def test_what_comes_with_a_body_that_is_too_big_is_read(client: Connection) -> None:
    size = _max_job_size(client) + 1
    put = b"put 0 0 60 %d\r\n%b\r\n" % (size, b"m" * size)
    both = client.raw(put + client.ping, replies=2, role=_REFUSED)
    both.expect(JOB_TOO_BIG)
    both.nth(1).expect(client.pong)


@requirement(
    "put.too-big-body-needs-no-end",
    r'"JOB_TOO_BIG\r\n" The client has requested to put a job with a body larger than '
    "max-job-size bytes.",
)
def test_a_body_that_is_too_big_need_not_end_with_cr_lf(client: Connection) -> None:
    size = _max_job_size(client) + 1
    put = b"put 0 0 60 %d\r\n%b" % (size, b"m" * size)
    client.raw(put + CRLF, role=_REFUSED).expect(JOB_TOO_BIG)
    client.raw(put + b"xx").expect(JOB_TOO_BIG)
    client.is_in_step()


@requirement(
    "put.expected-crlf",
    r'"EXPECTED_CRLF\r\n" The job body must be followed by a CR-LF pair, that is, "\r\n". '
    "These two bytes are not counted in the job size given by the client in the put command "
    "line.",
)
@pytest.mark.parametrize("end", [b"xx", b"\n\r", b"\r\r", b"\n\n", b"\rx", b"x\n"])
def test_a_body_that_is_not_followed_by_cr_lf(
    client: Connection, other: Connection, end: bytes
) -> None:
    # A server that reads on to the end of a line finds one; what follows the body may be a command.
    client.raw(b"put 0 0 60 5\r\nhello" + end + client.ping, replies=2).expect(EXPECTED_CRLF)
    other.finds_no_job()


@requirement(
    "put.expected-crlf-skips-body-and-two-bytes",
    r'"EXPECTED_CRLF\r\n" The job body must be followed by a CR-LF pair, that is, "\r\n".',
)
def test_after_a_bad_end_of_a_body_the_next_command_is_read(client: Connection) -> None:
    put = b"put 0 0 60 5\r\nhelloxx"
    both = client.raw(put + client.ping, replies=2, role=Role("put.expected-crlf"))
    both.expect(EXPECTED_CRLF)
    both.nth(1).expect(client.pong)


@requirement(
    "put.size-of-32-bits",
    "<bytes> is an integer indicating the size of the job body, not including the trailing "
    r'"\r\n".',
)
@pytest.mark.parametrize("size", [2**32, 2**32 + 1, 2**64, 10**30])
def test_a_size_of_more_than_32_bits(client: Connection, size: int) -> None:
    client.send(f"put 0 0 60 {size}").expect(BAD_FORMAT)
    client.is_in_step()


@requirement(
    "put.malformed-line-has-no-body",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed.',
)
def test_after_a_malformed_put_its_body_is_not_a_job(client: Connection) -> None:
    client.send("put 0 0 60", Role("put.bad-format")).expect(BAD_FORMAT)
    client.send("hello").expect(UNKNOWN_COMMAND)
    client.finds_no_job()


@requirement(
    "put.bad-format",
    r"put <pri> <delay> <ttr> <bytes>\r\n <data>\r\n",
)
@configured(max_job_size=10)
def test_a_malformed_put_of_the_largest_size(own_server: Target, client: Connection) -> None:
    refuse(client, "put 0 0 60 10 10")
