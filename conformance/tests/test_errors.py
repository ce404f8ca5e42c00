"""Section "Protocol", continued: errors, and how the conversation goes on."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Role
from conformance.dialogue.scaled_lines import scaled_length
from conformance.dialogue.scenario import Connect, NewTube
from reference_server.wire import (
    BAD_FORMAT,
    NOT_FOUND,
    NOT_IGNORED,
    UNKNOWN_COMMAND,
    USING,
)


@requirement(
    "error.bad-format-line-too-long",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    r"happen if the line's length exceeds 224 bytes including \r\n",
)
@pytest.mark.parametrize("length", [226, 300, 447, 1000, 5000])
def test_a_line_of_more_than_224_bytes(client: Connection, length: int) -> None:
    # Of a command that every server knows: otherwise that might as well be what is wrong.
    zeros = "0" * (scaled_length(length, client.profile) - 9)
    client.send(f"delete {zeros}").expect(BAD_FORMAT)


@requirement(
    "error.bad-format-line-too-long",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    r"happen if the line's length exceeds 224 bytes including \r\n",
)
def test_a_line_of_224_bytes_is_not_too_long(client: Connection) -> None:
    # A server that refuses each unknown command in the same words says nothing of its length.
    client.raw(b"x\r\n", role=Role("error.unknown-command")).expect(UNKNOWN_COMMAND)
    client.send("x" * (client.profile.max_line - 2)).expect(UNKNOWN_COMMAND)


@requirement(
    "error.long-line-resynchronises",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    r"happen if the line's length exceeds 224 bytes including \r\n",
)
@pytest.mark.parametrize("length", [226, 300, 447, 1000, 5000])
def test_after_a_long_line_the_next_one_is_read(client: Connection, length: int) -> None:
    length = scaled_length(length, client.profile)
    both = client.raw(b"x" * (length - 2) + b"\r\n" + client.ping, replies=2)
    both.expect(BAD_FORMAT)
    both.nth(1).expect(client.pong)


@requirement(
    "error.long-line-resynchronises",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    r"happen if the line's length exceeds 224 bytes including \r\n",
)
def test_a_long_line_that_comes_in_pieces_gets_one_error(
    client: Connection, other: Connection
) -> None:
    for length in (300, 200, 100):
        client.raw(b"x" * scaled_length(length, client.profile), replies=0)
        other.is_in_step()
    client.raw(b"\r\n" + client.ping, replies=2)
    client.receives(BAD_FORMAT, client.pong)


@requirement(
    "error.long-line-resynchronises",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    r"happen if the line's length exceeds 224 bytes including \r\n",
)
@pytest.mark.parametrize("length", [224, 300])
def test_the_end_of_a_long_line_may_come_in_two_pieces(
    client: Connection, other: Connection, length: int
) -> None:
    client.raw(b"x" * scaled_length(length, client.profile) + b"\r", replies=0)
    other.is_in_step()
    client.raw(b"\n" + client.ping, replies=2)
    client.receives(BAD_FORMAT, client.pong)


@requirement(
    "error.connection-survives",
    "If a client violates the protocol (such as by sending a request that is not well-formed "
    "or a command that does not exist) or if the server has an error, the server will reply "
    "with one of the following error messages",
)
@pytest.mark.parametrize("line", ["bogus", "delete x", "use -a", "stats x"])
def test_the_connection_survives_an_error(client: Connection, line: str) -> None:
    job = client.put_and_reserve()
    for _ in range(2):
        client.send(line).any_reply()
        client.raw(client.ping).reply(client.pong.word)
    client.tested.delete(job)


@requirement(
    "error.pipeline-goes-on",
    "If a client violates the protocol (such as by sending a request that is not well-formed "
    "or a command that does not exist) or if the server has an error, the server will reply "
    "with one of the following error messages",
)
def test_errors_in_a_pipeline_leave_their_neighbours_alone(
    connect: Connect, new_tube: NewTube
) -> None:
    client, tube = connect(), new_tube()
    client.takes_pipelines()
    lines = f"delete x\r\nuse {tube}\r\nbogus\r\nput 0 0 60 1\r\n".encode()
    begin = client.raw(lines + b"a\r\nignore default\r\npeek 0\r\n", replies=6)
    # Which error it is, is another requirement's matter.
    begin.nth(0, Role("delete.bad-format", waits=True)).expect(BAD_FORMAT)
    begin.nth(1).expect(USING(tube))
    begin.nth(2, Role("error.unknown-command", waits=True)).expect(UNKNOWN_COMMAND)
    begin.nth(3).reply("INSERTED")
    begin.nth(4).expect(NOT_IGNORED)
    begin.nth(5).expect(NOT_FOUND)


@requirement(
    "error.pipeline-goes-on",
    "If a client violates the protocol (such as by sending a request that is not well-formed "
    "or a command that does not exist) or if the server has an error, the server will reply "
    "with one of the following error messages",
)
@pytest.mark.parametrize(
    ("line", "error", "owner"),
    [
        (b"bogus", "UNKNOWN_COMMAND", "error.unknown-command"),
        (b"delete x", "BAD_FORMAT", "delete.bad-format"),
        (b"delete 0", "NOT_FOUND", "delete.not-found"),
        (b"put 0 0 60 2\r\nabcd", "EXPECTED_CRLF", "put.expected-crlf"),
        (b"ignore %b", "NOT_IGNORED", "ignore.not-ignored"),
    ],
)
def test_after_each_error_in_a_pipeline_the_next_command_is_read(
    client: Connection, line: bytes, error: str, owner: str
) -> None:
    line = line.replace(b"%b", client.tube.encode())
    client.needs(line)
    client.takes_pipelines()
    end = b"" if error == "EXPECTED_CRLF" else b"\r\n"
    both = client.raw((line + end + client.ping) * 3, replies=6)
    # Which error it is, is another requirement's matter; that one is missing is not.
    role = Role(owner, waits=True)
    for number in (0, 2, 4):
        both.nth(number, role).reply(error)
        both.nth(number + 1).expect(client.pong)
