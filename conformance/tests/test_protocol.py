"""Section "Protocol": order, names, bodies, and the errors that any command may get."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.malformed import refuse
from conformance.dialogue.scenario import Connect, NewTube
from conformance.oracle.underspecification import must_be_malformed
from reference_server.profiles import Profile
from reference_server.wire import (
    BAD_FORMAT,
    DELETED,
    FOUND,
    KICKED_COUNT,
    NOT_FOUND,
    NOT_IGNORED,
    RESERVED,
    UNKNOWN_COMMAND,
    USING,
    WATCHING,
    Reply,
)

NO_ARGUMENTS = (
    *("list-tube-used", "list-tubes", "list-tubes-watched", "peek-buried", "peek-delayed"),
    *("peek-ready", "reserve", "stats"),
)
NOBODYS = "pause-tube conformance-none"
"""A server that takes what is malformed must find nobody's tube by it; nor jobs: no id is 0."""


@requirement(
    "protocol.serial-replies",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_replies_come_in_the_order_of_the_commands(connect: Connect, tube: str) -> None:
    client = connect()
    client.raw(f"use {tube}\r\nwatch {tube}\r\nbogus\r\nignore default\r\n".encode(), replies=4)
    client.receives(USING(tube), WATCHING(2), UNKNOWN_COMMAND, WATCHING(1))


@requirement(
    "protocol.serial-replies",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_a_long_pipeline_is_answered_completely_and_in_order(client: Connection) -> None:
    jobs = client.put_many([b"%d" % n for n in range(200)], in_order=True)
    both = b"".join(b"reserve\r\ndelete %d\r\n" % job for job in jobs)
    begin = client.raw(both, replies=400)
    for n, job in enumerate(jobs):
        begin.nth(2 * n).expect(RESERVED(job, b"%d" % n))
        begin.nth(2 * n + 1).expect(DELETED)


@requirement(
    "protocol.serial-replies",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_two_clients_do_not_get_each_others_replies(client: Connection, other: Connection) -> None:
    first, second = client.raw(client.ping), other.send("kick 0")
    second.expect(KICKED_COUNT(0))
    first.expect(client.pong)


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
    client.send(f"peek {job}").expect(FOUND(int(job), b"hello"))


@requirement(
    "protocol.any-segmentation",
    "The beanstalk protocol runs over TCP using ASCII encoding.",
)
def test_a_body_may_come_with_the_next_command(client: Connection) -> None:
    both = client.raw(b"put 0 0 60 5\r\nhello\r\n" + client.ping, replies=2)
    both.reply("INSERTED")
    both.nth(1).expect(client.pong)


@requirement(
    "protocol.name-characters",
    "Names, in this protocol, are ASCII strings. They may contain letters (A-Z and a-z), "
    'numerals (0-9), hyphen ("-"), plus ("+"), slash ("/"), semicolon (";"), dot ("."), '
    'dollar-sign ("$"), underscore ("_"), and parentheses ("(" and ")")',
)
@pytest.mark.parametrize("name", ["aZ09", "a-b", "+", "/", ";", ".", "$", "_", "(", ")", "0", "a-"])
def test_a_name_may_contain(connect: Connect, profile: Profile, name: str) -> None:
    client = connect()
    is_name = set(name.encode()) <= set(profile.name_chars)
    client.send(f"use {name}").expect(USING(name) if is_name else BAD_FORMAT)


@requirement(
    "protocol.name-characters",
    "Names, in this protocol, are ASCII strings. They may contain letters (A-Z and a-z), "
    'numerals (0-9), hyphen ("-"), plus ("+"), slash ("/"), semicolon (";"), dot ("."), '
    'dollar-sign ("$"), underscore ("_"), and parentheses ("(" and ")")',
)
@pytest.mark.parametrize("byte", [b"!", b"#", b",", b":", b"@", b"[", b"{", b"~", b"\x80"])
def test_a_name_may_not_contain(client: Connection, byte: bytes) -> None:
    client.send(b"use a" + byte + b"b").expect(BAD_FORMAT)


@requirement("protocol.name-no-leading-hyphen", "but they may not begin with a hyphen.")
@pytest.mark.parametrize("verb", ["use", "watch", "ignore"])
def test_a_name_may_not_begin_with_a_hyphen(client: Connection, verb: str) -> None:
    client.send(f"{verb} -a").expect(BAD_FORMAT)


@requirement(
    "protocol.name-at-least-one-character",
    "Each name must be at least one character long.",
)
@pytest.mark.parametrize("verb", ["use", "watch", "ignore", "stats-tube"])
def test_a_name_may_not_be_empty(client: Connection, verb: str) -> None:
    client.send(f"{verb} ").expect(BAD_FORMAT)


@requirement(
    "protocol.body-opaque",
    "Each job body is an opaque sequence of bytes. The server never inspects or modifies a job "
    "body and always sends it back in its original form.",
)
def test_a_body_may_contain_every_byte(client: Connection) -> None:
    body = bytes(range(256))
    job = client.put(body)
    client.send(f"peek {job}").expect(FOUND(job, body))
    client.reserve().expect(RESERVED(job, body))


@requirement(
    "protocol.body-opaque",
    "Each job body is an opaque sequence of bytes. The server never inspects or modifies a job "
    "body and always sends it back in its original form.",
)
@pytest.mark.parametrize("body", [b"", b"\r\n", b"\r\n\r\n", b"delete 1\r\n", b"\r", b"\0"])
def test_a_body_is_given_back_as_it_was(client: Connection, body: bytes) -> None:
    job = client.put(body)
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
    "error.unknown-command",
    r'"UNKNOWN_COMMAND\r\n" The client sent a command that the server does not know.',
)
@pytest.mark.parametrize("line", ["bogus", "get a", "lists", "x" * 50])
def test_an_unknown_command(client: Connection, line: str) -> None:
    client.send(line).expect(UNKNOWN_COMMAND)


@requirement(
    "error.bad-format-line-too-long",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    r"happen if the line's length exceeds 224 bytes including \r\n",
)
@pytest.mark.parametrize("length", [226, 300, 447, 1000, 5000])
def test_a_line_of_more_than_224_bytes(client: Connection, length: int) -> None:
    # Of a command that every server knows: otherwise that might as well be what is wrong.
    client.send(f"delete {'0' * (length - 9)}").expect(BAD_FORMAT)


@requirement(
    "error.long-line-resynchronises",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    r"happen if the line's length exceeds 224 bytes including \r\n",
)
@pytest.mark.parametrize("length", [226, 300, 447, 1000, 5000])
def test_after_a_long_line_the_next_one_is_read(client: Connection, length: int) -> None:
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
        client.raw(b"x" * length, replies=0)
        other.is_in_step()
    client.raw(b"\r\n" + client.ping, replies=2)
    client.receives(BAD_FORMAT, client.pong)


@requirement(
    "error.bad-format-line-too-long",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    r"happen if the line's length exceeds 224 bytes including \r\n",
)
def test_a_line_of_224_bytes_is_not_too_long(client: Connection) -> None:
    client.send("x" * 222).expect(UNKNOWN_COMMAND)


@requirement(
    "error.bad-format-name-too-long",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    "happen […] if the name of a tube exceeds 200 bytes",
)
@pytest.mark.parametrize("verb", ["use", "watch", "ignore", "stats-tube"])
def test_a_name_of_201_bytes(client: Connection, verb: str) -> None:
    client.send(f"{verb} {'n' * 201}").expect(BAD_FORMAT)


@requirement(
    "error.bad-format-name-too-long",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    "happen […] if the name of a tube exceeds 200 bytes",
)
def test_a_name_of_201_bytes_to_pause(client: Connection) -> None:
    client.send(f"pause-tube {'n' * 201} 0").expect(BAD_FORMAT)


@requirement(
    "error.bad-format-non-numeric",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    "happen […] if non-numeric characters occur where an integer is expected",
)
@pytest.mark.parametrize(
    "line",
    [
        *("delete x", "touch x", "peek x", "kick x", "kick-job x", "stats-job x", "reserve-job x"),
        *("release x 0 0", "release 0 x 0", "release 0 0 x", "bury x 0", "bury 0 x"),
        *("put x 0 1 1", "put 0 x 1 1", "put 0 0 x 1", "put 0 0 1 x", f"{NOBODYS} x"),
    ],
)
def test_a_letter_where_a_number_is_expected(client: Connection, line: str) -> None:
    refuse(client, line)


@requirement(
    "error.bad-format-argument-count",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    "happen […] if the wrong number of arguments are present",
)
@pytest.mark.parametrize(
    "line",
    [
        *("put 0 0 1", "put 0 0", "release 0 0", "release 0", "bury 0"),
        *("put 0 0 1 1 1", "release 0 0 0 0", "bury 0 0 0", NOBODYS, f"{NOBODYS} 0 0"),
        *("delete 0 0", "touch 0 0", "peek 0 0", "kick-job 0 0", "stats-job 0 0"),
        *("use a b", "watch a b", "ignore a b", "stats-tube a b", "reserve-job 0 0"),
        *(f"{verb} 1" for verb in NO_ARGUMENTS),
    ],
)
def test_the_wrong_number_of_arguments(client: Connection, profile: Profile, line: str) -> None:
    must_be_malformed(line, profile)
    refuse(client, line)


@requirement(
    "error.bad-format-or-unknown-without-argument",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    "happen […] if the wrong number of arguments are present",
)
@pytest.mark.parametrize(
    "verb",
    [
        *("put", "use", "reserve-with-timeout", "reserve-job", "delete", "release", "bury"),
        *("touch", "watch", "ignore", "peek", "kick", "kick-job", "stats-job", "stats-tube"),
        "pause-tube",
    ],
)
def test_a_command_word_without_its_argument(
    client: Connection, profile: Profile, verb: str
) -> None:
    must_be_malformed(verb, profile)
    client.send(verb).expect(BAD_FORMAT, UNKNOWN_COMMAND)


@requirement(
    "error.word-without-argument",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    "happen […] if the wrong number of arguments are present",
)
@pytest.mark.parametrize(
    ("verb", "reply"),
    [
        *(("delete", UNKNOWN_COMMAND), ("put", UNKNOWN_COMMAND), ("use", UNKNOWN_COMMAND)),
        *(("reserve-job", BAD_FORMAT), ("stats-job", BAD_FORMAT), ("pause-tube", BAD_FORMAT)),
    ],
)
def test_a_command_word_alone_is_malformed_if_another_command_begins_it(
    client: Connection, verb: str, reply: Reply
) -> None:
    client.send(verb).expect(reply)


@requirement(
    "error.connection-survives",
    "If a client violates the protocol (such as by sending a request that is not well-formed "
    "or a command that does not exist) or if the server has an error, the server will reply "
    "with one of the following error messages",
)
@pytest.mark.parametrize("line", ["bogus", "delete x", "put 0 0 1", "use -a", "stats x"])
def test_the_connection_survives_an_error(client: Connection, line: str) -> None:
    job = client.put(b"a")
    client.send(line).expect(BAD_FORMAT, UNKNOWN_COMMAND)
    client.reserve().expect(RESERVED(job, b"a"))
    client.send(line).expect(BAD_FORMAT, UNKNOWN_COMMAND)
    client.send(f"delete {job}").expect(DELETED)


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
    lines = f"delete x\r\nuse {tube}\r\nbogus\r\nput 0 0 60 1\r\n".encode()
    begin = client.raw(lines + b"a\r\nignore default\r\npeek 0\r\n", replies=6)
    begin.expect(BAD_FORMAT)
    begin.nth(1).expect(USING(tube))
    begin.nth(2).expect(UNKNOWN_COMMAND)
    begin.nth(3).reply("INSERTED")
    begin.nth(4).expect(NOT_IGNORED)
    begin.nth(5).expect(NOT_FOUND)
