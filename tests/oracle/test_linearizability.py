"""The search for an order in which clients that work at the same time were served."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import pytest

from conformance.oracle.concurrent_history import ConcurrentHistory
from conformance.oracle.diagnosis import step_of
from conformance.oracle.linearizability import Explanation, Misplaced
from conformance.oracle.states import State
from conformance.oracle.violation import Violation
from conformance.verdict import Inconclusive, OutcomeKind, Step
from reference_server.profiles import NEWEST, PROFILES, Profile
from reference_server.wire import (
    DELETED,
    FOUND,
    INSERTED,
    NOT_FOUND,
    NOT_IGNORED,
    RELEASED,
    RESERVED,
    TIMED_OUT,
    Reply,
)

PUT = b"put 0 0 60 1\r\na\r\n"
RESERVE = b"reserve-with-timeout 0\r\n"
WAIT = b"reserve\r\n"


def _history(*events: tuple[int, bytes | Reply], profile: Profile = NEWEST) -> ConcurrentHistory:
    """Return the history of what clients 1, 2 and 3 have sent (bytes) and heard, in order."""
    history = ConcurrentHistory(profile)
    for conn in (1, 2, 3):
        history.connect(conn)
    for now, (conn, event) in enumerate(events):
        if isinstance(event, bytes):
            history.sent(conn, event, now)
        else:
            history.heard(conn, event, now, now)
    return history


@pytest.mark.parametrize(
    "events",
    [
        # The put may have come first, or the reserve.
        [(1, PUT), (2, RESERVE), (1, INSERTED(1)), (2, RESERVED(1, b"a"))],
        [(1, PUT), (2, RESERVE), (1, INSERTED(1)), (2, TIMED_OUT)],
        [(2, WAIT), (1, PUT), (1, INSERTED(1)), (2, RESERVED(1, b"a"))],
        # Of two that wait either may get it; ids need not come in the order of sending.
        [(2, WAIT), (3, WAIT), (1, PUT), (1, INSERTED(1)), (3, RESERVED(1, b"a"))],
        [(1, PUT), (2, PUT), (1, INSERTED(2)), (2, INSERTED(1))],
        # What is heard late may have happened early.
        [
            *((1, PUT), (1, INSERTED(1)), (2, RESERVE), (1, b"delete 1\r\n"), (1, NOT_FOUND)),
            *((3, b"peek 1\r\n"), (3, FOUND(1, b"a")), (2, RESERVED(1, b"a"))),
        ],
    ],
)
def test_an_order_is_found(events: Sequence[tuple[int, bytes | Reply]]) -> None:
    Explanation(_history(*events)).find()


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([(1, PUT), (1, INSERTED(1)), (2, RESERVE), (2, TIMED_OUT)], "RESERVED 1"),
        ([(2, RESERVE), (2, RESERVED(1, b"a")), (1, PUT), (1, INSERTED(1))], "TIMED_OUT"),
        (
            [
                *((1, PUT), (1, INSERTED(1)), (2, RESERVE), (3, RESERVE)),
                *((2, RESERVED(1, b"a")), (3, RESERVED(1, b"a"))),
            ],
            "TIMED_OUT",
        ),
    ],
)
def test_there_is_no_order(events: Sequence[tuple[int, bytes | Reply]], expected: str) -> None:
    with pytest.raises(Violation, match=expected):
        Explanation(_history(*events)).find()


def test_who_waits_to_the_end_is_owed_the_job() -> None:
    history = _history((2, WAIT), (1, PUT), (1, INSERTED(1)))
    with pytest.raises(Violation, match=r"expected RESERVED 1 .* observed nothing"):
        Explanation(history).find()
    history.heard(2, RESERVED(1, b"a"), 3, 3)
    Explanation(history).find()


def test_a_reply_may_get_lost_with_the_connection_of_a_client_that_left() -> None:
    history = _history((2, WAIT), (1, PUT), (1, INSERTED(1)))
    history.leaves(2, 3)
    history.ended(2)
    history.sent(1, RESERVE, 4)
    history.heard(1, RESERVED(1, b"a"), 5, 5)
    Explanation(history).find()


def test_a_job_may_get_lost_with_the_connection_and_come_back() -> None:
    history = _history((1, PUT), (1, INSERTED(1)), (2, WAIT))
    history.leaves(2, 3)
    history.ended(2)
    for now, reply in ((4, NOT_FOUND), (6, DELETED)):
        history.sent(1, b"delete 1\r\n", now)
        history.heard(1, reply, now + 1, now)
    Explanation(history).find()


def _half_closed(history: ConcurrentHistory, conn: int, now: int) -> None:
    """Let a client that waits half-close its connection, and get TIMED_OUT for that."""
    history.leaves(conn, now)
    history.ended(conn)
    history.heard(conn, TIMED_OUT, now + 1, now + 1)


def test_a_job_may_come_after_the_end_of_a_client_that_has_waited() -> None:
    history = _history((2, WAIT))
    _half_closed(history, 2, 1)
    history.sent(1, PUT, 3)
    history.heard(1, INSERTED(1), 4, 4)
    Explanation(history).find()


def test_what_was_sent_behind_a_reserve_comes_after_the_end_of_the_wait() -> None:
    history = _history((2, WAIT + b"kick-job 1\r\n"))
    _half_closed(history, 2, 1)
    history.heard(2, NOT_FOUND, 3, 3)
    Explanation(history).find()


def test_a_client_that_has_waited_until_its_end_was_owed_the_job_of_before() -> None:
    history = _history((2, WAIT), (1, PUT), (1, INSERTED(1)))
    _half_closed(history, 2, 3)
    with pytest.raises(Violation, match=r"expected RESERVED 1 .* observed TIMED_OUT"):
        Explanation(history).find()


def test_no_state_is_copied_where_the_likely_order_explains_all() -> None:
    events: list[tuple[int, bytes | Reply]] = []
    for job in range(1, 20):
        events += [(1, PUT), (2, RESERVE), (3, RESERVE), (1, INSERTED(job))]
        events += [(2, RESERVED(job, b"a")), (3, TIMED_OUT)]
    with patch.object(State, "saved", autospec=True, side_effect=State.saved) as saved:
        Explanation(_history(*events)).find()
    assert saved.call_count == 1, "the first state alone"


TWO_JOBS = ((1, PUT), (1, INSERTED(1)), (1, PUT), (1, INSERTED(2)), (2, RESERVE))


def test_a_job_that_came_back_may_be_anywhere_in_its_priority() -> None:
    came_back = ((2, RESERVED(1, b"a")), (2, b"release 1 0 0\r\n"), (2, RELEASED))
    with pytest.raises(Misplaced, match=r"expected RESERVED 1 .* observed RESERVED 2 "):
        Explanation(_history(*TWO_JOBS, *came_back, (2, RESERVE), (2, RESERVED(2, b"a")))).find()


def test_others_are_in_the_order_in_which_they_were_received() -> None:
    with pytest.raises(Violation, match="expected RESERVED 1 ") as raised:
        Explanation(_history(*TWO_JOBS, (2, RESERVED(2, b"a")))).find()
    assert not isinstance(raised.value, Misplaced)


@pytest.mark.parametrize("request_", [RESERVE, b"peek 1\r\n", b"stats-job 1\r\n"])
def test_a_reply_that_nobody_has_heard_has_no_place(request_: bytes) -> None:
    with pytest.raises(Violation, match="observed nothing"):
        Explanation(_history((1, PUT), (1, INSERTED(1)), (2, request_))).find()


def test_all_orders_are_tried_if_the_model_has_a_choice() -> None:
    # Before 1.8, nobody has said whether a put that fails is counted.
    history = _history((1, b"put 0 0 60 1\r\nabc"), profile=PROFILES["1.5"])
    history.leaves(1, 1)
    history.ended(1)
    history.sent(2, PUT, 2)
    history.sent(3, b"put 5 0 60 1\r\nb\r\n" + RESERVE, 3)
    for conn, reply in (3, INSERTED(1)), (3, RESERVED(1, b"b")), (2, INSERTED(2)):
        history.heard(conn, reply, 4, 4)
    Explanation(history).find()


def test_too_much_at_once_is_no_verdict() -> None:
    history = ConcurrentHistory()
    for conn in range(1, 31):
        history.connect(conn)
        history.sent(conn, PUT + RESERVE, conn)
        history.heard(conn, INSERTED(conn), 100 + conn, 0)
        history.heard(conn, RESERVED(99, b"a"), 200 + conn, 0)
    with pytest.raises(Inconclusive):
        Explanation(history).find()


def test_a_violation_is_about_the_command_that_was_answered() -> None:
    history = _history((1, b"ignore nobody\r\nlist-tube-used\r\n"), (2, WAIT), (1, NOT_IGNORED))
    with pytest.raises(Violation) as caught:
        Explanation(history).find()
    step = Step(OutcomeKind.WRONG_REPLY, "ignore", ("WATCHING",), "NOT_IGNORED")
    assert step_of(caught.value) == step
