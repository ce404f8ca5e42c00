"""The oracle: what it allows, and what it does not."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from conformance.oracle.fast_gear import FastGear
from conformance.oracle.oracle import Oracle
from conformance.oracle.states import State
from conformance.oracle.violation import Violation
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.session import Session
from conformance.random_testing.steps import Ask
from conformance.reading import parse
from conformance.target.builtin import BuiltIn
from conformance.target.launch import Launched
from conformance.target.limits import Limits
from conformance.target.target import Remote
from reference_server import stats
from reference_server.profiles import NEWEST
from reference_server.state import SECOND
from reference_server.wire import (
    DELETED,
    FOUND,
    INSERTED,
    NOT_FOUND,
    PAUSED,
    RESERVED,
    TIMED_OUT,
    USING,
    Reply,
)
from tests.proxy import proxy
from tests.servers import (
    REFERENCE_COMMAND,
)

PUT = b"put 0 0 60 1\r\na\r\n"


def _oracle(clients: int = 1) -> Oracle:
    oracle = Oracle()
    for number in range(1, clients + 1):
        oracle.connect(number)
    return oracle


def ask(oracle: Oracle, conn: int, data: bytes, reply: Reply, now: float = 0.0) -> None:
    """Return a command and its reply at the same point of time, in seconds."""
    oracle.sent(conn, data, round(now * SECOND))
    oracle.received(conn, reply, round(now * SECOND))


def _seen_early(asked: bytes, id: int) -> Oracle:
    """Return an oracle of a client that has sent this and a put, and one told of its job."""
    oracle = _oracle(2)
    oracle.sent(1, b"reserve\r\n", 0)
    oracle.sent(2, asked + PUT, 0)
    oracle.received(1, RESERVED(id, b"a"), 0)
    return oracle


def test_what_the_model_does_is_allowed_whatever_the_ids() -> None:
    oracle = _oracle()
    ask(oracle, 1, PUT, INSERTED(7))
    ask(oracle, 1, PUT, INSERTED(1000))
    ask(oracle, 1, b"reserve\r\n", RESERVED(7, b"a"))
    ask(oracle, 1, b"delete 1000\r\n", DELETED)
    ask(oracle, 1, b"delete 1000\r\n", NOT_FOUND)
    assert oracle.most_states == 1


@pytest.mark.parametrize(("first", "second"), [(70, 77), (3, 2), (2, 3), (1, 2), (1, 77)], ids=str)
def test_a_job_may_be_seen_before_its_id_is_told(first: int, second: int) -> None:
    oracle = _seen_early(b"put 0 9 60 1\r\nb\r\n", second)
    oracle.received(2, INSERTED(first), 0)
    oracle.received(2, INSERTED(second), 0)
    ask(oracle, 1, b"delete %d\r\n" % second, DELETED)
    ask(oracle, 2, b"peek %d\r\n" % first, FOUND(first, b"b"))
    ask(oracle, 2, b"peek-delayed\r\n", FOUND(first, b"b"))


@pytest.mark.parametrize(
    ("ids", "named", "reply"),
    [
        ((7, 9), 1, NOT_FOUND),
        ((7, 9), 2, NOT_FOUND),
        ((1, 2), 1, DELETED),
        ((2, 4), 2, DELETED),
    ],
    ids=str,
)
def test_a_client_may_name_an_id_before_it_is_told(
    ids: tuple[int, int], named: int, reply: Reply
) -> None:
    puts = b"put 0 9 60 1\r\nb\r\nput 0 8 60 1\r\nc\r\n"
    oracle = _seen_early(puts + b"delete %d\r\n" % named, 99)
    for told in (*map(INSERTED, ids), reply, INSERTED(99)):
        oracle.received(2, told, 0)


def test_what_was_deleted_before_its_id_was_told_is_gone() -> None:
    oracle = _seen_early(b"put 0 9 60 1\r\nb\r\ndelete 1\r\ndelete 1\r\n", 2)
    oracle.received(2, INSERTED(1), 0)
    oracle.received(2, DELETED, 0)
    with pytest.raises(Violation, match="expected NOT_FOUND"):
        oracle.received(2, DELETED, 0)


def test_a_guess_that_was_told_is_none() -> None:
    oracle = _seen_early(b"put 0 9 60 1\r\nb\r\n", 2)
    oracle.received(2, INSERTED(1), 0)
    oracle.received(2, INSERTED(2), 0)
    with pytest.raises(Violation, match="expected DELETED"):
        ask(oracle, 2, b"delete 1\r\n", NOT_FOUND)


def test_an_id_that_was_seen_stays() -> None:
    oracle = _seen_early(b"", 77)
    with pytest.raises(Violation):
        oracle.received(2, INSERTED(78), 0)


def test_a_violation_says_what_was_expected() -> None:
    oracle = _oracle()
    ask(oracle, 1, PUT, INSERTED(7))
    with pytest.raises(Violation) as caught:
        ask(oracle, 1, b"reserve\r\n", RESERVED(7, b"b"))
    assert caught.value.expected == (r"RESERVED 7 1\r\na\r\n",)
    assert caught.value.observed == r"RESERVED 7 1\r\nb\r\n"


def test_a_reply_that_nobody_asked_for() -> None:
    with pytest.raises(Violation, match="no reply without a request"):
        _oracle().received(1, DELETED, 0)


def test_a_reply_that_does_not_come() -> None:
    oracle = _oracle()
    oracle.sent(1, b"peek-ready\r\n", 0)
    with pytest.raises(Violation, match=r"expected NOT_FOUND.*, observed nothing"):
        oracle.quiet(SECOND)
    oracle = _oracle()
    oracle.sent(1, b"reserve\r\n", 0)
    oracle.quiet(SECOND)


@pytest.mark.parametrize("served", [(1, 2), (2, 1)])
def test_of_two_who_wait_either_may_be_served(served: tuple[int, int]) -> None:
    oracle = _oracle(3)
    for conn in (1, 2):
        oracle.sent(conn, b"reserve\r\n", 0)
    oracle.quiet(0)
    oracle.sent(3, PUT, 0)
    oracle.received(served[0], RESERVED(5, b"a"), 0)
    oracle.received(3, INSERTED(5), 0)
    with pytest.raises(Violation, match="no reply yet"):
        oracle.received(served[1], RESERVED(5, b"a"), 0)


@pytest.mark.parametrize("reply", [FOUND(5, b"a"), NOT_FOUND])
def test_commands_in_flight_together_may_be_handled_in_any_order(reply: Reply) -> None:
    oracle = _oracle(2)
    oracle.sent(1, PUT, 0)
    oracle.sent(2, b"peek 5\r\n", 0)
    oracle.received(1, INSERTED(5), 0)
    oracle.received(2, reply, 0)
    ask(oracle, 2, b"peek 5\r\n", FOUND(5, b"a"))


@pytest.mark.parametrize(
    ("at", "allowed"), [(0.9, "N"), (1.1, "FN"), (1.2, "FN"), (1.3, "F"), (9.0, "F")]
)
def test_a_timer_fires_within_its_lateness(at: float, allowed: str) -> None:
    for word, reply in (("F", FOUND(5, b"a")), ("N", NOT_FOUND)):
        oracle = _oracle()
        ask(oracle, 1, b"put 0 1 60 1\r\na\r\n", INSERTED(5))
        if word in allowed:
            ask(oracle, 1, b"peek-ready\r\n", reply, at)
        else:
            with pytest.raises(Violation):
                ask(oracle, 1, b"peek-ready\r\n", reply, at)


def test_an_alarm_in_haste_is_judged_again() -> None:
    gear = FastGear(Oracle(), guess_ids=True)
    gear.do("connect", 0, 1)
    assert gear.sent(1, PUT, 0)
    assert list(gear.owed(1)) == [INSERTED(1)]
    gear.do("received", 5, 1, INSERTED(77), 0)
    assert not gear.owed(1)
    # What was handled when it was sent is handled when it is answered.
    gear.sent(1, b"peek 77\r\n", SECOND)
    with pytest.raises(Violation, match=r"FOUND 77 1\\r\\na") as caught:
        gear.do("received", 6, 1, NOT_FOUND, SECOND)
    assert caught.value.mark == 6


def test_where_nothing_is_open_no_state_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = _oracle()
    oracle.optimistic = True
    monkeypatch.setattr(State, "saved", lambda _: pytest.fail("it was copied"))
    for job in (1, 2):
        ask(oracle, 1, PUT, INSERTED(job))
        # From the second on, with a deadline that is far.
        ask(oracle, 1, b"reserve\r\n", RESERVED(job, b"a"))
    ask(oracle, 1, b"reserve-with-timeout 0\r\n", TIMED_OUT)


@pytest.mark.parametrize(
    ("at", "allowed"), [(2.95, False), (3.05, True), (3.8, True), (3.95, True)]
)
def test_a_job_that_a_timer_gives_away_may_be_had_since_it_was_due(
    at: float, allowed: bool
) -> None:
    oracle = _oracle(3)
    ask(oracle, 1, b"put 0 2 1 1\r\na\r\n", INSERTED(1))
    oracle.sent(2, b"reserve\r\n", 0)
    # It is due at 2.
    oracle.moved(SECOND, round(2.9 * SECOND))
    oracle.received(2, RESERVED(1, b"a"), round(2.9 * SECOND))
    oracle.sent(3, b"reserve\r\n", round(2.9 * SECOND))
    oracle.moved(round(2.9 * SECOND), round(at * SECOND))
    if allowed:
        oracle.received(3, RESERVED(1, b"a"), round(at * SECOND))
    else:
        with pytest.raises(Violation, match="no reply yet"):
            oracle.received(3, RESERVED(1, b"a"), round(at * SECOND))


def _given_away(reserved: float) -> Oracle:
    """Return an oracle of a client that got a job at 2.01 or 2.3 s, and waits at 4.31 s.

    The delay of the job has ended at 2 s, and its safety margin begins 2 s after the reservation.
    The clock moves first to just past a timer, then past the allowed lateness.
    """
    oracle = _oracle(2)
    ask(oracle, 1, b"put 0 2 3 1\r\na\r\n", INSERTED(1))
    oracle.sent(2, b"reserve\r\n", 0)
    now = 0
    for move in (2.01, 2.3):
        oracle.moved(now, round(move * SECOND))
        now = round(move * SECOND)
        if move == reserved:
            oracle.received(2, RESERVED(1, b"a"), now)
    ask(oracle, 2, b"list-tube-used\r\n", USING("default"), 2.3)
    oracle.sent(2, b"reserve\r\n", round(2.3 * SECOND))
    oracle.moved(round(2.3 * SECOND), round(4.02 * SECOND))
    oracle.moved(round(4.02 * SECOND), round(4.31 * SECOND))
    return oracle


def test_the_margin_of_a_job_that_was_given_away_late_begins_late() -> None:
    oracle = _given_away(reserved=2.3)
    oracle.quiet(round(4.31 * SECOND))
    oracle.moved(round(4.31 * SECOND), round(4.6 * SECOND))
    with pytest.raises(Violation, match="expected DEADLINE_SOON"):
        oracle.quiet(round(4.6 * SECOND))


def test_the_margin_of_a_job_that_was_given_away_in_time_begins_in_time() -> None:
    with pytest.raises(Violation, match="expected DEADLINE_SOON"):
        _given_away(reserved=2.01).quiet(round(4.31 * SECOND))


def test_a_pause_of_no_time_may_be_over_at_once() -> None:
    for reply in (RESERVED(5, b"a"), TIMED_OUT):
        oracle = _oracle()
        ask(oracle, 1, PUT, INSERTED(5))
        ask(oracle, 1, b"pause-tube default 0\r\n", PAUSED)
        ask(oracle, 1, b"reserve-with-timeout 0\r\n", reply)


def test_the_end_of_a_connection_needs_a_reason() -> None:
    with pytest.raises(Violation, match="the end of the connection"):
        _oracle().ended(1, 0)
    oracle = _oracle()
    oracle.sent(1, b"quit\r\n", 0)
    oracle.ended(1, 0)
    oracle = _oracle()
    oracle.sent(1, b"reserve\r\n", 0)
    oracle.half_close(1, 0)
    oracle.received(1, TIMED_OUT, 0)
    oracle.ended(1, 0)


def test_quit_behind_a_reserve_that_waits_is_not_read_until_that_is_over() -> None:
    oracle = _oracle()
    oracle.sent(1, b"reserve-with-timeout 5\r\n", 0)
    oracle.sent(1, b"quit\r\n", 0)
    oracle.quiet(SECOND)
    oracle.received(1, TIMED_OUT, 5 * SECOND)
    oracle.ended(1, 5 * SECOND)
    oracle = _oracle()
    oracle.sent(1, b"reserve-with-timeout 5\r\n", 0)
    oracle.sent(1, b"quit\r\n", 0)
    oracle.half_close(1, SECOND)
    with pytest.raises(Violation, match="expected TIMED_OUT"):
        copy.deepcopy(oracle).quiet(SECOND)
    oracle.received(1, TIMED_OUT, SECOND)
    oracle.ended(1, SECOND)


@pytest.mark.parametrize("said", [b"", b"quit\r\n"])
@pytest.mark.parametrize("end", [Oracle.half_close, Oracle.close])
def test_a_put_behind_a_reserve_that_waits_is_handled_when_its_client_leaves(
    end: Callable[[Oracle, int, int], None], said: bytes
) -> None:
    oracle = _oracle(2)
    oracle.sent(1, b"reserve-with-timeout 2000\r\n" + PUT + said, 0)
    oracle.sent(2, b"reserve\r\n", 0)
    end(oracle, 1, 500 * SECOND)
    oracle.received(2, RESERVED(1, b"a"), 500 * SECOND)
    assert {state.model.jobs[1].deadline // SECOND for state in oracle.states} == {560}


def test_statistics_are_compared_by_what_they_say() -> None:
    oracle = _oracle()
    ask(oracle, 1, PUT, INSERTED(5))
    keys = (
        b"id: 5\ntube: 'default'\nstate: ready\npri: 0\nage: 1\ndelay: 0\nttr: 60\ntime-left: 9\n"
    )
    counts = b"file: 0\nreserves: 0\ntimeouts: 0\nreleases: 0\nburies: 0\nkicks: %d\n"
    ask(oracle, 1, b"stats-job 5\r\n", Reply("OK", (), keys + counts % 0))
    with pytest.raises(Violation):
        ask(oracle, 1, b"stats-job 5\r\n", Reply("OK", (), keys + counts % 1))


@pytest.mark.parametrize(
    "form",
    [
        lambda lines: lines,
        lambda lines: lines[::-1],
        lambda lines: [b"---", *lines],
        lambda lines: [b"---", b"{" + b", ".join(lines) + b"}"],
        lambda lines: [lines[0], b"tube: >-", b"  default", *lines[2:]],
    ],
    ids=["plain", "reversed", "marked", "flow", "folded"],
)
@pytest.mark.parametrize("kicks", [0, 1])
def test_statistics_may_have_any_form(
    form: Callable[[list[bytes]], list[bytes]], kicks: int
) -> None:
    oracle = _oracle()
    ask(oracle, 1, PUT, INSERTED(5))
    document = stats.job(oracle.model, oracle.model.jobs[5])
    lines = document.replace(b"kicks: 0", b"kicks: %d" % kicks).split(b"\n")[1:-1]
    told = Reply("OK", (), b"\n".join(form(lines)) + b"\n")
    if kicks:
        with pytest.raises(Violation, match="expected OK with kicks: 0, observed OK with kicks: 1"):
            ask(oracle, 1, b"stats-job 5\r\n", told)
    else:
        ask(oracle, 1, b"stats-job 5\r\n", told)


@pytest.mark.parametrize("timeout", [5.0, 0.05])
def test_many_replies_may_take_longer_than_one(timeout: float) -> None:
    with Launched(REFERENCE_COMMAND) as server, proxy(server.address, 0.0, 0.006) as (host, port):
        session = Session(Remote(f"{host}:{port}", Limits(reply=timeout)), NEWEST)
        # On an idle machine, a reply takes a tenth of a second.
        for _ in range(55):
            session.ask(1, b"list-tube-used\r\n")
        if timeout < 0.1:
            # Not for ever.
            with pytest.raises(Violation, match="observed nothing"):
                session.flush()
        else:
            session.flush()
        session.abandon()


def test_what_says_nothing_is_not_in_the_transcript() -> None:
    target = BuiltIn()
    session = Exploration(1, 1).session(target)
    for text in (b"", b"peek 1\r\n"):
        session.take(Ask(1, text, apart=True))
    session.flush()
    session.abandon()
    target.close()
    said = session.transcript.render()
    assert "peek 1" in said
    assert parse(said).render() == said
