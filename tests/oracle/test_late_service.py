"""Clients that wait may be served a moment late, when another client may have got the job."""

from __future__ import annotations

import pytest

from conformance.oracle.judge import Judge
from conformance.oracle.violation import Violation
from reference_server.state import SECOND

PUT, INSERTED = b"put 0 0 60 1\r\na\r\n", b"INSERTED 1\r\n"
RESERVED, FOUND = b"RESERVED 1 1\r\na\r\n", b"FOUND 1 1\r\na\r\n"
MARGIN = SECOND // 100
"""The most that the clocks of target and tester may differ, in nanoseconds."""


@pytest.fixture
def judge() -> Judge:
    """Return the judge of a conversation in which the first client waits for the job of another."""
    judge = Judge()
    for conn in (1, 2, 3):
        judge.connect(conn)
    judge.sent(1, b"reserve\r\n", 0)
    judge.quiet(0, 0)
    _ask(judge, 2, PUT, INSERTED)
    return judge


def _ask(
    judge: Judge, conn: int, command: bytes, reply: bytes, now: int = 0, mark: int = 0
) -> None:
    judge.sent(conn, command, now)
    judge.received(conn, reply, now, mark)


@pytest.mark.parametrize("at", [0, SECOND // 4])
def test_a_job_may_be_ready_for_a_moment_though_a_client_waits(judge: Judge, at: int) -> None:
    _ask(judge, 2, b"peek-ready\r\n", FOUND, at)
    judge.received(1, RESERVED, at)
    judge.quiet(at, 1)
    _ask(judge, 2, b"peek-ready\r\n", b"NOT_FOUND\r\n", at)


def test_another_client_may_get_the_job(judge: Judge) -> None:
    _ask(judge, 3, b"reserve-with-timeout 0\r\n", RESERVED)
    judge.quiet(0, 1)
    with pytest.raises(Violation, match=r"expected no reply yet, observed RESERVED 1"):
        judge.received(1, RESERVED, 0, mark=1)


def test_the_client_that_waits_gets_the_job_after_that(judge: Judge) -> None:
    _ask(judge, 3, b"reserve-with-timeout 0\r\n", RESERVED)
    _ask(judge, 2, PUT, b"INSERTED 2\r\n")
    judge.received(1, b"RESERVED 2 1\r\na\r\n", 0)
    judge.quiet(SECOND, 1)


def test_a_client_that_waits_is_served_in_the_end(judge: Judge) -> None:
    _ask(judge, 2, b"peek-ready\r\n", FOUND)
    with pytest.raises(Violation, match=r"expected RESERVED 1 .*, observed nothing"):
        judge.quiet(0, 1)


def test_a_moment_is_as_long_as_a_timer_may_be_late(judge: Judge) -> None:
    with pytest.raises(Violation, match=r"expected NOT_FOUND.*, observed FOUND 1"):
        _ask(judge, 2, b"peek-ready\r\n", FOUND, SECOND // 4 + MARGIN)


def test_what_is_allowed_in_neither_way_is_shown_where_it_is_seen(judge: Judge) -> None:
    _ask(judge, 3, b"reserve-with-timeout 0\r\n", RESERVED)
    with pytest.raises(Violation, match=r"expected NOT_FOUND.*, observed DELETED"):
        _ask(judge, 2, b"delete 1\r\n", b"DELETED\r\n", mark=1)
