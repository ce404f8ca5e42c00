"""The ledger of jobs: replies that clients at work at the same time may hear, or may not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.oracle.invariants import Ledger, ReceivedReply, SentCommand
from conformance.oracle.violation import Violation
from reference_server.wire import (
    DELETED,
    FOUND,
    INSERTED,
    NOT_FOUND,
    RELEASED,
    RESERVED,
    Reply,
)


class _Book:
    """A ledger, and what is written into it line by line."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.now = 0

    def asks(self, client: str, verb: str, job: int = 0, pri: int = 0) -> SentCommand:
        self.now += 1
        watched = ("t",) if verb == "reserve" else ()
        asked = SentCommand(verb, self.now, job, pri, tube="t", body=b"a", watched=watched)
        self.ledger.asks(client, asked)
        return asked

    def hears(self, client: str, asked: SentCommand, reply: Reply, given_up: bool = False) -> None:
        self.now += 1
        self.ledger.hears(ReceivedReply(client, asked, reply, self.now, 0, given_up))

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
