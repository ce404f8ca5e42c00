"""Clients at work at the same time: the search for an order, the ledger of jobs, the crowd."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from random import Random

import pytest

from conformance.oracle.invariants import Asked, Ledger, NotReleased, Told
from conformance.oracle.linearizability import History
from conformance.oracle.oracle import Violation
from conformance.random_testing.concurrent_clients import Crowd, NotEnded
from conformance.random_testing.exploration import Exploration
from conformance.target.builtin import BuiltIn
from conformance.target.launch import Launched
from conformance.target.target import LaunchedTarget, Remote, Target
from conformance.tests import test_overlap
from conformance.transcript import Transcript
from conformance.verdict import Deviation, Inconclusive
from reference_server.faults import FAULTS, Fault
from reference_server.faults.overlap import HandedToTwo
from reference_server.faults.worker import WaitsOn
from reference_server.model import Model
from reference_server.profiles import NEWEST, PROFILES, Profile
from reference_server.wire import (
    DELETED,
    FOUND,
    INSERTED,
    NOT_FOUND,
    RELEASED,
    RESERVED,
    TIMED_OUT,
    Command,
    Reply,
    Request,
    RequestReader,
)
from tests.proxy import proxy
from tests.servers import BEANSTALKD_COMMAND, REFERENCE_COMMAND, needs_beanstalkd

PUT = b"put 0 0 60 1\r\na\r\n"
RESERVE = b"reserve-with-timeout 0\r\n"
WAIT = b"reserve\r\n"


def _history(*events: tuple[int, bytes | Reply]) -> History:
    """What clients 1, 2 and 3 have sent (bytes) and heard, one after the other."""
    history = History()
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
    _history(*events).explain()


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
        _history(*events).explain()


def test_who_waits_to_the_end_is_owed_the_job() -> None:
    history = _history((2, WAIT), (1, PUT), (1, INSERTED(1)))
    with pytest.raises(Violation, match=r"expected RESERVED 1 .* observed nothing"):
        history.explain()
    history.heard(2, RESERVED(1, b"a"), 3, 3)
    history.explain()


def test_a_reply_may_get_lost_with_the_connection_of_a_client_that_left() -> None:
    history = _history((2, WAIT), (1, PUT), (1, INSERTED(1)))
    history.leaves(2, 3)
    history.ended(2)
    history.sent(1, RESERVE, 4)
    history.heard(1, RESERVED(1, b"a"), 5, 5)
    history.explain()


def test_too_much_at_once_is_no_verdict() -> None:
    history = History()
    for conn in range(1, 31):
        history.connect(conn)
        history.sent(conn, PUT + RESERVE, conn)
        history.heard(conn, INSERTED(conn), 100 + conn, 0)
        history.heard(conn, RESERVED(99, b"a"), 200 + conn, 0)
    with pytest.raises(Inconclusive):
        history.explain()


class _Book:
    """A ledger, and what is written into it line by line."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.now = 0

    def asks(self, client: str, verb: str, job: int = 0, pri: int = 0) -> Asked:
        self.now += 1
        watched = ("t",) if verb == "reserve" else ()
        asked = Asked(verb, self.now, job, pri, tube="t", body=b"a", watched=watched)
        self.ledger.asks(client, asked)
        return asked

    def hears(self, client: str, asked: Asked, reply: Reply, given_up: bool = False) -> None:
        self.now += 1
        self.ledger.hears(Told(client, asked, reply, self.now, 0, given_up))

    def does(self, client: str, verb: str, reply: Reply, job: int = 0, pri: int = 0) -> None:
        self.hears(client, self.asks(client, verb, job, pri), reply)


def test_a_ledger_of_what_is_allowed() -> None:
    book = _Book()
    # A client that waits may hear of a job before the one that puts it.
    waits, put = book.asks("A", "reserve"), book.asks("B", "put")
    book.hears("A", waits, RESERVED(1, b"a"))
    book.does("A", "release", RELEASED, 1)
    book.hears("B", put, INSERTED(1))
    book.does("B", "reserve", RESERVED(1, b"a"))
    book.does("A", "delete", NOT_FOUND, 1)
    book.does("B", "delete", DELETED, 1)
    book.does("A", "peek", NOT_FOUND, 1)
    # Two at once: either may come first.
    for id, pri in ((2, 1), (3, 0)):
        book.does("A", "put", INSERTED(id), pri=pri)
    first, second = book.asks("A", "reserve"), book.asks("B", "reserve")
    book.hears("A", first, RESERVED(2, b"a"))
    book.hears("B", second, RESERVED(3, b"a"))
    book.ledger.close()


def test_a_job_may_be_changed_before_it_is_heard_that_it_was_put() -> None:
    book = _Book()
    put, waits = book.asks("A", "put", pri=1), book.asks("B", "reserve")
    book.hears("B", waits, RESERVED(1, b"a"))
    releases = book.asks("B", "release", 1, pri=0)
    book.hears("A", put, INSERTED(1))
    book.hears("B", releases, RELEASED)
    # It is the one of priority 0 now.
    book.does("A", "put", INSERTED(2), pri=0)
    book.does("B", "reserve", RESERVED(1, b"a"))
    book.ledger.close()


def test_a_job_may_be_gone_before_it_is_heard_that_it_was_put() -> None:
    book = _Book()
    put = book.asks("A", "put")
    fails, deletes = book.asks("B", "delete", 1), book.asks("B", "delete", 1)
    book.hears("B", fails, NOT_FOUND)
    book.hears("A", put, INSERTED(1))
    book.does("A", "peek", NOT_FOUND, 1)
    book.hears("B", deletes, DELETED)


def test_a_delete_that_fails_before_it_is_heard_of_a_job_does_not_count() -> None:
    book = _Book()
    put = book.asks("A", "put")
    book.does("B", "delete", NOT_FOUND, 1)
    book.hears("A", put, INSERTED(1))
    with pytest.raises(Violation, match="put and not deleted"):
        book.does("A", "peek", NOT_FOUND, 1)


def _held(book: _Book) -> None:
    book.does("A", "put", INSERTED(1))
    book.does("A", "reserve", RESERVED(1, b"a"))


def _invented(book: _Book) -> None:
    book.does("A", "reserve", RESERVED(1, b"a"))
    book.ledger.close()


def _out_of_order(book: _Book) -> None:
    for id, pri in ((1, 1), (2, 0)):
        book.does("A", "put", INSERTED(id), pri=pri)
    book.does("A", "reserve", RESERVED(1, b"a"))
    book.ledger.close()


def _used_again_later(book: _Book) -> None:
    _held(book)
    book.ledger.close()
    book.does("A", "put", INSERTED(1))


def _after_deletion(book: _Book) -> None:
    _held(book)
    book.does("A", "delete", DELETED, 1)
    book.does("B", "reserve", RESERVED(1, b"a"))


@pytest.mark.parametrize(
    ("happens", "expected"),
    [
        (_after_deletion, "no job that was deleted"),
        (_used_again_later, "no job had before"),
        (_invented, "a job that was put"),
        (_out_of_order, "whose priority is 0, before"),
    ],
)
def test_a_ledger_of_what_is_not(happens: Callable[[_Book], None], expected: str) -> None:
    with pytest.raises(Violation, match=expected):
        happens(_Book())


@pytest.mark.parametrize(
    ("client", "verb", "job", "reply", "expected"),
    [
        ("B", "reserve", 0, RESERVED(1, b"a"), "for A alone"),
        ("B", "delete", 1, DELETED, "A holds job 1"),
        ("A", "release", 1, NOT_FOUND, "A holds job 1"),
        ("B", "peek", 1, NOT_FOUND, "put and not deleted"),
        ("B", "peek", 1, FOUND(1, b"b"), "body"),
        ("A", "put", 0, INSERTED(1), "no job had before"),
    ],
)
def test_a_ledger_of_a_job_that_is_held(
    client: str, verb: str, job: int, reply: Reply, expected: str
) -> None:
    book = _Book()
    _held(book)
    with pytest.raises(Violation, match=expected):
        book.does(client, verb, reply, job)


def test_a_target_may_come_to_the_end_of_a_client_late() -> None:
    book = _Book()
    # A may be given the second job, and only then be seen to be gone.
    waits = book.asks("A", "reserve")
    book.ledger.leaves("A", [waits])
    for id, pri in ((1, 1), (2, 0)):
        book.does("B", "put", INSERTED(id), pri=pri)
    book.does("B", "reserve", RESERVED(1, b"a"))
    assert book.ledger.overdue([book.asks("C", "reserve")]) is None
    book.ledger.close()


def test_a_job_is_overdue_that_is_ready_while_somebody_waits() -> None:
    book = _Book()
    waits = book.asks("A", "reserve")
    assert book.ledger.overdue([waits]) is None
    book.does("B", "put", INSERTED(1))
    assert book.ledger.overdue([waits]) == 1
    book.hears("A", waits, RESERVED(1, b"a"))
    assert book.ledger.overdue([waits]) is None


def _crowds(target: Target, sizes: Sequence[int], profile: Profile) -> int:
    """How many of some crowds were not decided."""
    ledger, chance, undecided = Ledger(), Random(1), 0
    for number, clients in enumerate(sizes):
        crowd = Crowd(target, [f"crowd-{number}", f"other-{number}"], chance, ledger, profile)
        try:
            crowd.run(clients, 60)
        except Inconclusive:
            undecided += 1
        finally:
            crowd.abandon()
    target.close()
    return undecided


@pytest.mark.parametrize("real_time", [False, True])
def test_crowds_on_the_reference_server(real_time: bool) -> None:
    assert _crowds(BuiltIn(real_time=real_time), (2, 3, 4, 8, 16) * 2, NEWEST) < 4


@needs_beanstalkd
@pytest.mark.parametrize("clock", ["auto", "real"])
def test_crowds_on_beanstalkd(clock: str) -> None:
    server = LaunchedTarget(BEANSTALKD_COMMAND, clock)
    assert _crowds(server, (2, 3, 4, 8, 16, 32) * 2, PROFILES["1.12"]) < 6


def test_a_crowd_names_the_cause_where_the_end_of_who_waits_is_not_seen() -> None:
    server = BuiltIn(fault=Fault("", "other", WaitsOn))
    with contextlib.closing(server), pytest.raises(NotEnded) as raised:
        # In some of them, nobody waits when all leave.
        _play(server, range(50), tidy=False)
    assert raised.value.expected == (str(TIMED_OUT),)
    assert raised.value.observed.endswith("it breaks reserve.half-closed")


def test_crowds_on_a_server_that_is_slow_and_sends_single_bytes() -> None:
    with Launched(REFERENCE_COMMAND) as server, proxy(server.address, 0.01) as (host, port):
        _crowds(Remote(f"{host}:{port}"), (2, 3, 8), NEWEST)


def test_jobs_that_are_not_given_back_are_no_must_and_hide_nothing() -> None:
    server = BuiltIn(fault=FAULTS["jobs-of-a-client-that-leaves-stay-reserved-until-their-ttr"])
    with pytest.raises(NotReleased):
        _play(server, range(50), tidy=False)
    _play(server, range(100, 120), tidy=True)
    server.close()


def _play(server: Target, numbers: Iterable[int], *, tidy: bool) -> None:
    for number in numbers:
        tube, chance = f"crowd-{number}", Random(number)
        crowd = Crowd(server, [tube], chance, Ledger(), patience=1.0, tidy=tidy)
        try:
            crowd.run(4, 60)
        except Inconclusive:
            pass
        finally:
            crowd.abandon()


@pytest.mark.parametrize(
    "fault", [name for name, f in FAULTS.items() if f.requirement == "protocol.any-overlap"]
)
def test_what_a_crowd_shows_is_told_in_few_lines(fault: str) -> None:
    server = BuiltIn(fault=FAULTS[fault])
    ledger, chance = Ledger(), Random(2)
    for number, clients in enumerate((2, 3, 4, 8) * 100):
        crowd = Crowd(server, [f"crowd-{number}"], chance, ledger, patience=1.0)
        try:
            crowd.run(clients, 100)
        except Violation as violation:
            transcript = Transcript()
            crowd.show(transcript, violation)
            # What several clients have done with one job; all have done some hundred things.
            assert len(transcript.entries) < 50
            break
        except Inconclusive:
            pass
        finally:
            crowd.abandon()
    else:
        raise AssertionError("no crowd has shown it")
    server.close()


class _Forgets(RequestReader):
    """Forgets what arrives together with a reserve."""

    def next_request(self) -> Request | None:
        request = super().next_request()
        if isinstance(request, Command) and request.verb.startswith("reserve-with"):
            self._buffer.clear()
        return request


def test_who_gets_no_reply_is_shown_with_what_it_has_asked() -> None:
    server = BuiltIn(fault=Fault("", "other", reader=_Forgets))
    transcript, chance = Transcript(), Random(1)
    with contextlib.closing(server):
        for number in range(100):
            crowd = Crowd(server, [f"crowd-{number}"], chance, Ledger(), patience=1.0)
            try:
                crowd.run(3, 60)
            except Violation as violation:
                marked = transcript.entries[crowd.show(transcript, violation)]
                said = violation.observed
                assert said.startswith(f"nothing for {marked.connection} within")
                assert marked is transcript.entries[-1]
                return
            finally:
                crowd.abandon()
    raise AssertionError("no crowd has shown it")


class _TwoFaults(WaitsOn, HandedToTwo):
    """A client that half-closes goes on waiting; and now and then a job is given to two."""


def _overlapped(model: type[Model], examples: int) -> Deviation:
    """What is told of a server."""
    server, tubes = BuiltIn(fault=Fault("", "other", model)), map("tube-{}".format, count())
    exploration = Exploration(examples, patience=0.5)
    with contextlib.closing(server), pytest.raises(Deviation) as raised:
        test_overlap.test_any_overlap(server, tubes.__next__, Transcript(), exploration)
    return raised.value


def test_what_half_closing_shows_hides_nothing_else() -> None:
    deviation = _overlapped(_TwoFaults, 200)
    assert "reserve.half-closed" not in str(deviation)


def test_what_half_closing_shows_is_told_if_nothing_else_is_wrong() -> None:
    deviation = _overlapped(WaitsOn, 4)
    assert not deviation.de_facto
    assert str(deviation).endswith("clients at work")
    assert "reserve.half-closed" in str(deviation)
