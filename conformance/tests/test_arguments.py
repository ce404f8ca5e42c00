"""Section "Protocol", continued: lines of any command and their replies, as tables.

A row has a requirement, its clause, and lines that differ in their arguments alone. What numbers
may look like is in `test_numbers`. If a server accepts a malformed line, it must not find a job of
others: ids are 0, or that of a job of the test's own, `{job}`, which the command would find, so
that the line deserves one error alone.
"""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.malformed import completed, refuse
from conformance.oracle.underspecification import must_be_malformed
from reference_server.profiles import Profile
from reference_server.wire import (
    BAD_FORMAT,
    KICKED_COUNT,
    NOT_FOUND,
    TIMED_OUT,
    UNKNOWN_COMMAND,
    Reply,
)

BARE = (
    *("list-tube-used", "list-tubes", "list-tubes-watched", "peek-buried", "peek-delayed"),
    *("peek-ready", "reserve", "stats"),
)
"""Commands without arguments."""
NO_ID = ("x", "{job}x", str(2**64), "")
NO_NAME = ("", "-a", "a b", "a!", "n" * 201)

MALFORMED = (
    (
        "protocol.name-no-leading-hyphen",
        "but they may not begin with a hyphen.",
        ("use -a", "watch -a", "ignore -a"),
    ),
    (
        "protocol.name-at-least-one-character",
        "Each name must be at least one character long.",
        ("use ", "watch ", "ignore ", "stats-tube "),
    ),
    (
        "protocol.blank-at-the-end",
        r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
        "happen […] if the command line is mal-formed in any other way.",
        (
            *(f"{verb} " for verb in BARE),
            *("delete {job} ", "release {job} 0 0 ", "bury {job} 0 ", "use default "),
        ),
    ),
    (
        "error.bad-format-name-too-long",
        r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
        "happen […] if the name of a tube exceeds 200 bytes",
        (
            *(f"{verb} {'n' * 201}" for verb in ("use", "watch", "ignore", "stats-tube")),
            f"pause-tube {'n' * 201} 0",
        ),
    ),
    (
        "error.bad-format-non-numeric",
        r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
        "happen […] if non-numeric characters occur where an integer is expected",
        (
            *("delete x", "touch x", "peek x", "kick x", "kick-job x", "stats-job x"),
            "reserve-job x",
            *("release x 0 0", "release {job} x 0", "release {job} 0 x", "bury x 0"),
            *("bury {job} x", "put x 0 1 1", "put 0 x 1 1", "put 0 0 x 1", "put 0 0 1 x"),
            "pause-tube {tube} x",
        ),
    ),
    (
        "put.bad-format",
        r"put <pri> <delay> <ttr> <bytes>\r\n <data>\r\n",
        ("put 0 0 60 -1", "put 0 0 60 x", "put 0 0 60 5x", "put 0 0 60 "),
    ),
    ("reserve.bad-format", r"reserve\r\n", ("reserve 1", "reserve x")),
    (
        "reserve.timeout-argument-strict",
        r"reserve-with-timeout <seconds>\r\n […] All integers in the protocol are formatted in "
        "decimal and (unless otherwise indicated) nonnegative.",
        tuple(f"reserve-with-timeout {timeout}" for timeout in ("-1", "x", "")),
    ),
    (
        "reserve-job.bad-format",
        r"reserve-job <id>\r\n",
        tuple(f"reserve-job {job}" for job in NO_ID),
    ),
    ("delete.bad-format", r"delete <id>\r\n", tuple(f"delete {job}" for job in NO_ID)),
    (
        "release.bad-format",
        r"release <id> <pri> <delay>\r\n",
        (
            *("release x 0 0", "release -1 0 0", f"release {2**64} 0 0", "release {job} -1 0"),
            *(f"release {{job}} {2**32} 0", "release {job} 0 -1", "release {job} 0"),
            *("release {job}", "release {job} 0 0 0", "release {job} 0x0 0", "release {job} 0 0x"),
        ),
    ),
    (
        "bury.bad-format",
        r"bury <id> <pri>\r\n",
        (
            *("bury x 0", "bury -1 0", f"bury {2**64} 0", "bury {job} -1"),
            *(f"bury {{job}} {2**32}", "bury {job}", "bury {job} 0 0", "bury {job} 0x"),
        ),
    ),
    ("touch.bad-format", r"touch <id>\r\n", tuple(f"touch {job}" for job in NO_ID)),
    ("ignore.bad-format", r"ignore <tube>\r\n", tuple(f"ignore {name}" for name in NO_NAME)),
    (
        "peek.bad-format",
        r'"peek <id>\r\n" - return job <id>.',
        (*(f"peek {job}" for job in NO_ID), "peek-ready 1", "peek-delayed 1", "peek-buried x"),
    ),
    ("kick.bad-format", r"kick <bound>\r\n", ("kick x", "kick ,", "kick -")),
    ("kick-job.bad-format", r"kick-job <id>\r\n", tuple(f"kick-job {job}" for job in NO_ID)),
    ("stats-job.bad-format", r"stats-job <id>\r\n", tuple(f"stats-job {job}" for job in NO_ID)),
    (
        "stats-tube.bad-format",
        r"stats-tube <tube>\r\n",
        ("stats-tube ", "stats-tube {tube} b", f"stats-tube {'n' * 201}"),
    ),
    ("list-tubes.bad-format", r"list-tubes\r\n", ("list-tubes a", "list-tubes 1")),
    ("list-tube-used.bad-format", r"list-tube-used\r\n", ("list-tube-used a", "list-tube-used 1")),
    (
        "list-tubes-watched.bad-format",
        r"list-tubes-watched\r\n",
        ("list-tubes-watched a", "list-tubes-watched 1"),
    ),
    (
        "pause-tube.delay-limit",
        "<delay> is an integer number of seconds < 2**32",
        tuple(f"pause-tube {{tube}} {delay}" for delay in ("-1", "x", "1x", "")),
    ),
)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=requirement(slug, clause), id=f"{slug}: {line}")
        for slug, clause, lines in MALFORMED
        for line in lines
    ],
)
def test_a_malformed_line(client: Connection, line: str) -> None:
    refuse(client, completed(client, line))


WRONG_NUMBER = (
    (
        "error.bad-format-argument-count",
        r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
        "happen […] if the wrong number of arguments are present",
        (BAD_FORMAT,),
        (
            *("put 0 0 1", "put 0 0", "release {job} 0", "release {job}", "bury {job}"),
            *("put 0 0 1 1 1", "release {job} 0 0 0", "bury {job} 0 0"),
            *("pause-tube {tube}", "pause-tube {tube} 0 0", "delete {job} 0", "touch {job} 0"),
            *("peek {job} 0", "kick-job {job} 0", "stats-job {job} 0", "reserve-job {job} 0"),
            *("use a b", "watch a b", "ignore a b", "stats-tube {tube} b"),
            *(f"{verb} 1" for verb in BARE),
        ),
    ),
    (
        "error.bad-format-or-unknown-without-argument",
        r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
        "happen […] if the wrong number of arguments are present",
        (BAD_FORMAT, UNKNOWN_COMMAND),
        (
            *("put", "use", "reserve-with-timeout", "reserve-job", "delete", "release", "bury"),
            *("touch", "watch", "ignore", "peek", "kick", "kick-job", "stats-job", "stats-tube"),
            "pause-tube",
        ),
    ),
    ("stats.bad-format", r"stats\r\n", (BAD_FORMAT,), ("stats x", "stats 1", "stats 1 2")),
)


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        pytest.param(line, allowed, marks=requirement(slug, clause), id=f"{slug}: {line}")
        for slug, clause, allowed, lines in WRONG_NUMBER
        for line in lines
    ],
)
def test_the_wrong_number_of_arguments(
    client: Connection, profile: Profile, line: str, allowed: tuple[Reply, ...]
) -> None:
    must_be_malformed(line, profile)
    refuse(client, completed(client, line), *allowed)


REPLIES = (
    (
        "protocol.several-blanks",
        r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed.',
        (NOT_FOUND,),
        (
            *("delete  0", "release   0  0   0", "bury  0  0", "touch  0", "peek  0"),
            "kick-job  0",
        ),
    ),
    (
        "protocol.tab-is-no-blank",
        r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
        "happen […] if the command line is mal-formed in any other way.",
        (BAD_FORMAT, UNKNOWN_COMMAND),
        (
            *("delete\t{job}", "delete \t{job}", "release {job}\t0 0", "release {job} 0\t0"),
            *("bury {job}\t0", "put 0\t0 1 1", "put\t0 0 1 1"),
        ),
    ),
    (
        "protocol.plus-sign",
        "All integers in the protocol are formatted in decimal",
        (BAD_FORMAT,),
        (
            *("put +1 0 60 1", "put 0 +1 60 1", "delete +{job}", "touch +{job}"),
            *("release {job} +1 0", "bury {job} +1", "pause-tube {tube} +1"),
        ),
    ),
    (
        "protocol.plus-sign",
        "All integers in the protocol are formatted in decimal",
        (BAD_FORMAT, KICKED_COUNT(0)),
        ("kick +1",),
    ),
    (
        "protocol.plus-sign",
        "All integers in the protocol are formatted in decimal",
        (BAD_FORMAT, TIMED_OUT),
        ("reserve-with-timeout +0",),
    ),
    (
        "error.unknown-command",
        r'"UNKNOWN_COMMAND\r\n" The client sent a command that the server does not know.',
        (UNKNOWN_COMMAND,),
        ("bogus", "get a", "lists", "x" * 50),
    ),
    (
        "error.commands-are-lower-case",
        r'"UNKNOWN_COMMAND\r\n" The client sent a command that the server does not know.',
        (UNKNOWN_COMMAND,),
        ("PUT 0 0 1 1", "Use a", "STATS", "Reserve", "list-Tubes"),
    ),
    (
        "error.empty-line",
        r'"UNKNOWN_COMMAND\r\n" The client sent a command that the server does not know.',
        (UNKNOWN_COMMAND,),
        ("", " ", " use a", "\t"),
    ),
    (
        "error.word-without-argument",
        r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
        "happen […] if the wrong number of arguments are present",
        (UNKNOWN_COMMAND,),
        ("delete", "put", "use"),
    ),
    (
        "error.word-without-argument",
        r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed. This can '
        "happen […] if the wrong number of arguments are present",
        (BAD_FORMAT,),
        ("reserve-job", "stats-job", "pause-tube"),
    ),
    (
        "put.bad-format",
        r"put <pri> <delay> <ttr> <bytes>\r\n <data>\r\n",
        (BAD_FORMAT, UNKNOWN_COMMAND),
        ("put 1.5 0 60 1",),
    ),
    (
        "stats-tube.bad-format",
        r"stats-tube <tube>\r\n",
        (BAD_FORMAT, NOT_FOUND),
        ("stats-tube -a", "stats-tube a!"),
    ),
    (
        "pause-tube.bad-format",
        r"pause-tube <tube-name> <delay>\r\n",
        (BAD_FORMAT, UNKNOWN_COMMAND),
        ("pause-tube", "pause-tube {tube}", "pause-tube {tube},0"),
    ),
    (
        "pause-tube.bad-format",
        r"pause-tube <tube-name> <delay>\r\n",
        (BAD_FORMAT, NOT_FOUND),
        ("pause-tube -a 0", "pause-tube a! 0"),
    ),
)


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        pytest.param(line, allowed, marks=requirement(slug, clause), id=f"{slug}: {line}")
        for slug, clause, allowed, lines in REPLIES
        for line in lines
    ],
)
def test_a_line_and_its_reply(client: Connection, line: str, allowed: tuple[Reply, ...]) -> None:
    refuse(client, completed(client, line), *allowed)
