"""Section "Protocol", continued: how lines end, and how the arguments of every command are read."""

from collections.abc import Iterator

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.malformed import refuse
from conformance.dialogue.scenario import Connect, NewTube
from conformance.oracle.underspecification import is_free
from conformance.verdict import Deviation, NotApplicable
from reference_server.profiles import Profile
from reference_server.wire import (
    BAD_FORMAT,
    JOB_TOO_BIG,
    KICKED_COUNT,
    NOT_FOUND,
    PAUSED,
    TIMED_OUT,
    UNKNOWN_COMMAND,
    USING,
    Reply,
)

COMMANDS = (
    *("put {} 0 60 1", "put 0 {} 60 1", "put 0 0 {} 1", "put 0 0 60 {}"),
    *("reserve-job {}", "delete {}", "release {} 0 0", "release 0 {} 0", "release 0 0 {}"),
    *("bury {} 0", "bury 0 {}", "touch {}", "peek {}", "kick-job {}", "stats-job {}"),
    "pause-tube {tube} {}",
)
"""Each integer of each command, but for the two that some versions read as C does.

A server that takes what is malformed must find nobody's job by it: all ids are or begin with 0.
"""
BARE = (
    *("list-tube-used", "list-tubes", "list-tubes-watched", "peek-buried", "peek-delayed"),
    *("peek-ready", "reserve", "stats"),
)


@requirement(
    "protocol.line-ends-with-crlf",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    r"happen if the line does not end with \r\n",
)
def test_a_line_feed_alone_does_not_end_a_line(client: Connection) -> None:
    lines = client.ping.strip() + b"\n" + client.ping + client.ping
    client.raw(lines, replies=2).expect(BAD_FORMAT, UNKNOWN_COMMAND)
    client.receives(client.pong)


@requirement(
    "protocol.integers-are-decimal",
    "All integers in the protocol are formatted in decimal",
)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("number", ["0x0", "0e3", "0.0", "0_0", "0,0", "\u0660"])
def test_an_integer_is_made_of_decimal_digits(
    client: Connection, command: str, number: str
) -> None:
    refuse(client, command.format(number, tube=client.tube))


@requirement(
    "protocol.integers-are-nonnegative",
    "All integers in the protocol are formatted in decimal and (unless otherwise indicated) "
    "nonnegative.",
)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("number", ["-1", "+0"])
def test_an_integer_has_no_sign(client: Connection, command: str, number: str) -> None:
    refuse(client, command.format(number, tube=client.tube))


@requirement(
    "protocol.leading-zeros",
    "All integers in the protocol are formatted in decimal and (unless otherwise indicated) "
    "nonnegative.",
)
@pytest.mark.parametrize("verb", ["delete", "touch", "peek", "kick-job", "stats-job"])
def test_an_id_may_have_leading_zeros(client: Connection, verb: str) -> None:
    client.send(f"{verb} 000{2**63 - 1}").expect(NOT_FOUND)


@requirement(
    "protocol.leading-zeros",
    "All integers in the protocol are formatted in decimal and (unless otherwise indicated) "
    "nonnegative.",
)
def test_the_numbers_of_put_may_have_leading_zeros(client: Connection) -> None:
    job = int(client.raw(b"put 007 00 0060 0001\r\na\r\n").reply("INSERTED").args[0])
    client.job_is(job, state="ready", pri=7, delay=0, ttr=60)
    client.send(f"pause-tube {client.tube} 00").expect(PAUSED)


@requirement(
    "protocol.several-blanks",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed.',
)
@pytest.mark.parametrize(
    "line", ["delete  0", "release   0  0   0", "bury  0  0", "touch  0", "peek  0", "kick-job  0"]
)
def test_several_blanks_may_be_before_a_number(client: Connection, line: str) -> None:
    client.send(line).expect(NOT_FOUND)


@requirement(
    "protocol.several-blanks",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed.',
)
def test_several_blanks_may_be_between_the_numbers_of_put(client: Connection) -> None:
    job = int(client.raw(b"put  7  3600   60    1\r\na\r\n").reply("INSERTED").args[0])
    client.job_is(job, state="delayed", pri=7, delay=3600, ttr=60)
    client.send("kick  1").expect(KICKED_COUNT(1))


@requirement(
    "protocol.tab-is-no-blank",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    "happen […] if the command line is mal-formed in any other way.",
)
@pytest.mark.parametrize(
    "line",
    ["delete\t0", "delete \t0", "release 0\t0 0", "release 0 0\t0", "bury 0\t0", "put 0\t0 1 1"],
)
def test_a_tab_does_not_separate(client: Connection, line: str) -> None:
    refuse(client, line, BAD_FORMAT, UNKNOWN_COMMAND)


@requirement(
    "protocol.blank-at-the-end",
    r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
    "happen […] if the command line is mal-formed in any other way.",
)
@pytest.mark.parametrize("line", [*BARE, "delete 0", "release 0 0 0", "bury 0 0", "use default"])
def test_a_blank_at_the_end(client: Connection, line: str) -> None:
    client.send(f"{line} ").expect(BAD_FORMAT)


@requirement(
    "protocol.name-ends-at-white-space",
    "They are terminated by white space (either a space char or end of line).",
)
def test_a_name_ends_at_a_blank(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.send(f"use {tube}").expect(USING(tube))
    client.send(f"pause-tube {tube} 1000").expect(PAUSED)
    assert client.stats_tube(tube)["pause"] == "1000"
    client.send(f"pause-tube {tube}x 1000").expect(NOT_FOUND)


@requirement("protocol.name-case-counts", "They may contain letters (A-Z and a-z)")
def test_tubes_whose_names_differ_in_case_are_different(client: Connection) -> None:
    lower, upper = f"{client.tube}-tube", f"{client.tube}-TUBE"
    client.send(f"use {lower}").expect(USING(lower))
    client.put(b"a")
    client.send(f"use {upper}").expect(USING(upper))
    client.send("peek-ready").expect(NOT_FOUND)
    assert client.stats_tube(lower)["current-jobs-ready"] == "1"


def _other_bytes(profile: Profile) -> Iterator[bytes]:
    # A CR or LF is the line's end, not the name's matter; NUL ends a line in C.
    for byte in range(1, 256):
        if byte not in profile.name_chars and byte not in b"\r\n":
            yield bytes([byte])


@requirement(
    "protocol.name-characters",
    "Names, in this protocol, are ASCII strings. They may contain letters (A-Z and a-z), "
    'numerals (0-9), hyphen ("-"), plus ("+"), slash ("/"), semicolon (";"), dot ("."), '
    'dollar-sign ("$"), underscore ("_"), and parentheses ("(" and ")")',
)
@pytest.mark.parametrize(
    ("form", "errors"),
    [
        *((form, [BAD_FORMAT]) for form in (b"use a%bb", b"watch %ba", b"ignore a%b")),
        (b"stats-tube a%bb", [BAD_FORMAT, NOT_FOUND]),
    ],
)
def test_no_other_byte_may_be_in_a_name(
    client: Connection, profile: Profile, form: bytes, errors: list[Reply]
) -> None:
    for line in client.each([form % byte + b"\r\n" for byte in _other_bytes(profile)]):
        line.expect(*errors)


@requirement(
    "protocol.name-characters",
    "Names, in this protocol, are ASCII strings. They may contain letters (A-Z and a-z), "
    'numerals (0-9), hyphen ("-"), plus ("+"), slash ("/"), semicolon (";"), dot ("."), '
    'dollar-sign ("$"), underscore ("_"), and parentheses ("(" and ")")',
)
def test_each_byte_that_may_be_in_a_name(client: Connection, profile: Profile) -> None:
    names = [f"{client.tube}{chr(byte)}" for byte in profile.name_chars]
    lines = [f"use {name}\r\n".encode() for name in names]
    for name, line in zip(names, client.each(lines), strict=True):
        line.expect(USING(name))


@requirement(
    "error.commands-are-lower-case",
    r'"UNKNOWN_COMMAND\r\n" The client sent a command that the server does not know.',
)
@pytest.mark.parametrize("line", ["PUT 0 0 1 1", "Use a", "STATS", "Reserve", "list-Tubes"])
def test_a_command_in_capitals_is_unknown(client: Connection, line: str) -> None:
    client.send(line).expect(UNKNOWN_COMMAND)


@requirement(
    "error.empty-line",
    r'"UNKNOWN_COMMAND\r\n" The client sent a command that the server does not know.',
)
@pytest.mark.parametrize("line", ["", " ", " use a", "\t"])
def test_a_line_that_begins_with_no_command_is_unknown(client: Connection, line: str) -> None:
    client.send(line).expect(UNKNOWN_COMMAND)


@requirement(
    "reserve.longest-timeout",
    "A positive value of timeout will limit the amount of time the client will block on the "
    "reserve request until a job becomes available.",
)
def test_a_timeout_of_31_bits(worker: Connection, producer: Connection) -> None:
    waiting = worker.reserve_within(2**31 - 1)
    producer.linger()
    waiting.is_pending()
    job = producer.put(b"a")
    assert waiting.reply("RESERVED").args[0] == job


@requirement(
    "protocol.half-close-is-answered",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_commands_sent_before_a_half_close_are_all_answered(client: Connection) -> None:
    lines = b"put 0 0 60 1\r\na\r\nreserve\r\nreserve\r\nlist-tube-used\r\n"
    begin = client.raw(lines, replies=4)
    client.half_close()
    job = begin.reply("INSERTED").args[0]
    assert begin.nth(1).reply("RESERVED").args[0] == job
    begin.nth(2).expect(TIMED_OUT)
    begin.nth(3).expect(USING(client.tube))
    client.is_closed_by_target()


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


@requirement(
    "error.pipeline-goes-on",
    "If a client violates the protocol (such as by sending a request that is not well-formed "
    "or a command that does not exist) or if the server has an error, the server will reply "
    "with one of the following error messages",
)
@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"bogus", "UNKNOWN_COMMAND"),
        (b"delete x", "BAD_FORMAT"),
        (b"delete 0", "NOT_FOUND"),
        (b"put 0 0 60 2\r\nabcd", "EXPECTED_CRLF"),
        (b"ignore %b", "NOT_IGNORED"),
        (b"reserve-with-timeout 0", "TIMED_OUT"),
    ],
)
def test_after_each_error_in_a_pipeline_the_next_command_is_read(
    client: Connection, line: bytes, error: str
) -> None:
    line = line.replace(b"%b", client.tube.encode())
    client.needs(line)
    end = b"" if error == "EXPECTED_CRLF" else b"\r\n"
    both = client.raw((line + end + client.ping) * 3, replies=6)
    for number in (0, 2, 4):
        both.nth(number).reply(error)
        both.nth(number + 1).expect(client.pong)
