"""Profile 0.6: the codec, the server's options, and targets that others may use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.target.address import ask, visit
from conformance.target.builtin import BuiltIn
from conformance.target.launch import Launched
from reference_server.profiles import NEWEST, PROFILES, Profile
from reference_server.wire import (
    BAD_FORMAT,
    BURIED,
    FOUND,
    JOB_TOO_BIG,
    NOT_FOUND,
    RESERVED,
    UNKNOWN_COMMAND,
    Command,
    Malformed,
    NotAReply,
    Reply,
    ReplyReader,
    Request,
    RequestReader,
    parse_line,
)
from tests.command_line import suite
from tests.servers import REFERENCE_COMMAND

V0_6 = PROFILES["0.6"]


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        (b"peek", Command("peek")),
        (b"peek 7", Command("peek", (7,))),
        (b"peek 7 7", Malformed(BAD_FORMAT)),
        (b"stats", Command("stats")),
        (b"stats 7", Command("stats", (7,))),
        (b"stats x", Malformed(BAD_FORMAT)),
        (b"quit", Malformed(UNKNOWN_COMMAND)),
        (b"reserve-with-timeout 1", Malformed(BAD_FORMAT)),
        (b"use a", Malformed(UNKNOWN_COMMAND)),
        (b"put 0 0 60 65536", Malformed(JOB_TOO_BIG, counts="put")),
    ],
)
def test_what_a_line_means(line: bytes, request_: Request) -> None:
    assert parse_line(line, V0_6) == request_


def test_nothing_is_skipped_behind_a_job_that_is_refused_at_once() -> None:
    reader = RequestReader(V0_6)
    reader.receive(b"put 0 0 60 65536\r\npeek\r\n")
    assert reader.next_request() == Malformed(JOB_TOO_BIG, counts="put")
    assert reader.next_request() == Command("peek")


@pytest.mark.parametrize(
    ("tells_priority", "data", "reply"),
    [
        (True, b"RESERVED 1 2 3\r\nabc\r\n", RESERVED(1, b"abc", 2)),
        (True, b"FOUND 1 2 0\r\n\r\n", FOUND(1, b"", 2)),
        (True, b"RESERVED 1 3\r\nabc\r\n", None),
        (False, b"RESERVED 1 3\r\nabc\r\n", RESERVED(1, b"abc")),
        (False, b"RESERVED 1 2 3\r\nabc\r\n", None),
        (None, b"RESERVED 1 3\r\nabc\r\n", RESERVED(1, b"abc")),
        (None, b"RESERVED 1 2 3\r\nabc\r\n", RESERVED(1, b"abc", 2)),
    ],
)
def test_a_priority_is_read_where_there_is_one(
    tells_priority: bool | None, data: bytes, reply: Reply | None
) -> None:
    reader = ReplyReader(tells_priority)
    reader.receive(data)
    if reply is None:
        with pytest.raises(NotAReply):
            reader.next_reply()
    else:
        assert reader.next_reply() == reply
        assert reply.encode() == data


def test_the_ready_queue_of_the_reference_server_is_as_large_as_it_was_told() -> None:
    command = f"{REFERENCE_COMMAND} --profile 0.6 --max-jobs-ready 1"
    with Launched(command) as server, visit(server.address, 5) as sock:
        assert ask(sock, b"put 0 0 60 0\r\n", 5) == Reply("INSERTED", (1,))
        assert ask(sock, b"put 0 0 60 0\r\n", 5) == BURIED
        assert ask(sock, b"peek 3", 5) == NOT_FOUND


def test_a_server_with_a_small_ready_queue_is_refused() -> None:
    done = suite(f"--launch={REFERENCE_COMMAND} --profile 0.6 --max-jobs-ready 9")
    assert done.returncode == 4
    assert "holds 9 ready jobs at most; the suite needs 1000" in done.stderr + done.stdout
    optional = f"--launch={REFERENCE_COMMAND} --profile 0.6 [--max-jobs-ready {{max_jobs_ready}}]"
    done = suite(optional, "-k", "queue_is_full or limit-max or no_room")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("profile", [V0_6, NEWEST], ids=lambda profile: profile.name)
def test_the_clock_of_the_reference_server_is_moved(profile: Profile) -> None:
    done = suite(
        f"--launch={REFERENCE_COMMAND} --profile {profile.name}",
        *("--clock=fake", "-k", "test_a_delayed_job_is_ready_when_its_delay_is_over"),
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture
def server() -> Iterator[BuiltIn]:
    built_in = BuiltIn(V0_6, real_time=True)
    yield built_in
    built_in.close()


def _target(server: BuiltIn) -> str:
    return "--target={}:{}".format(*server.address)


CHOSEN = "test_one_queue or test_states or test_delete or test_not_found"


def test_a_server_that_others_may_use_is_left_as_it_was(server: BuiltIn) -> None:
    done = suite(_target(server), "-k", CHOSEN)
    assert done.returncode == 0, done.stdout
    with visit(server.address, 5) as sock:
        stats = ask(sock, b"stats", 5).body or b""
    for state in ("ready", "reserved", "delayed", "buried"):
        assert b"\ncurrent-jobs-%b: 0\n" % state.encode() in stats


def test_jobs_of_others_are_not_touched(server: BuiltIn) -> None:
    with visit(server.address, 5) as sock:
        ask(sock, b"put 0 0 60 4\r\nkeep", 5)
    done = suite(_target(server), "-k", CHOSEN)
    assert "needs an empty server" in done.stdout
    assert " passed" not in done.stdout.splitlines()[-2]
    with visit(server.address, 5) as sock:
        assert ask(sock, b"peek 1", 5, tells_priority=True) == FOUND(1, b"keep", 0)
