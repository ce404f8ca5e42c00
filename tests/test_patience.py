"""The patience with a reply: what was waited for in vain, and in how many ways."""

from __future__ import annotations

import pytest

from conformance.target.silences import ENOUGH, FEWER, LEAST, Silences, awaited
from reference_server.wire import BAD_FORMAT, BURIED, DEADLINE_SOON, NOT_FOUND, OK


def test_a_command_that_was_never_answered_is_not_waited_for_whatever_is_expected() -> None:
    silences = Silences()
    job, none = awaited(b"peek 1\r\n", "FOUND 1 …"), awaited(b"peek 2\r\n", str(NOT_FOUND))
    assert job != none
    assert job == awaited(b"peek 3\r\n", "FOUND …")
    silences.note(job, 5.0)
    assert silences.patience(none, 5.0) == silences.patience(job, 5.0) < 5.0
    assert silences.patience(awaited(b"stats\r\n", str(OK(b""))), 5.0) == 5.0
    silences.came(none, "NOT_FOUND")
    assert silences.patience(none, 5.0) == 5.0
    assert silences.patience(job, 5.0) < 5.0
    for _ in range(20):
        silences.note(job, 5.0)
    assert silences.patience(job, 5.0) == LEAST


def test_who_has_awaited_any_reply_has_awaited_each() -> None:
    silences, reply = Silences(), awaited(b"bury 1 0\r\n", "a reply")
    buried, malformed = (awaited(b"bury\r\n", str(reply)) for reply in (BURIED, BAD_FORMAT))
    # It is known to answer lines that are malformed.
    silences.came(malformed, "BAD_FORMAT")
    silences.note(reply, 5.0)
    assert silences.patience(buried, 5.0) < silences.patience(malformed, 5.0) == 5.0
    silences.came(malformed, "BAD_FORMAT")
    assert silences.patience(buried, 5.0) < 5.0
    silences.came(buried, "BURIED")
    assert silences.patience(buried, 5.0) == silences.patience(reply, 5.0) == 5.0


def test_who_is_silent_in_many_ways_is_waited_for_less_until_a_reply_comes_late() -> None:
    silences, full = Silences(), ENOUGH / 2.5
    missed = [awaited(line, "a reply") for line in (b"put", b"kick", b"bury")]
    other = awaited(b"touch 1\r\n", "TOUCHED")
    for key in missed:
        assert silences.patience(other, full) == full
        silences.note(key, full)
    assert not silences.is_expected_in_vain(other)
    assert silences.patience(other, full) == full / FEWER
    silences.came(other, "TOUCHED")
    assert silences.patience(other, full) == full / FEWER
    silences.heard(b"kick 1\r\n", b"KICKED 0\r\n")
    assert silences.patience(other, full) == full / FEWER
    silences.came(missed[1], "KICKED")
    assert silences.patience(other, full) == full / FEWER
    silences.was_late(missed[0], "INSERTED", 1.0)
    assert silences.patience(other, full) == full


@pytest.mark.parametrize(("seconds", "patience"), [(0.01, 1.25), (1.0, 3.0), (1.9, 5.0)])
def test_who_is_slow_is_waited_for_longer_than_its_slowest_replies(
    seconds: float, patience: float
) -> None:
    silences = Silences(spent=ENOUGH)
    silences.came(awaited(b"touch 1\r\n", "TOUCHED"), "TOUCHED", seconds)
    assert silences.patience(awaited(b"kick 1\r\n", "KICKED"), 5.0) == patience


def test_only_the_reply_that_was_missed_restores_patience() -> None:
    silences = Silences(spent=-ENOUGH)
    soon = awaited(b"reserve\r\n", str(DEADLINE_SOON))
    either = awaited(b"reserve\r\n", f"RESERVED … or {DEADLINE_SOON}")
    silences.note(soon, 5.0)
    silences.came(soon, "TIMED_OUT")
    assert silences.patience(soon, 5.0) < 5.0
    # It may be the other one that comes.
    assert silences.patience(either, 5.0) == 5.0
    silences.came(soon, "DEADLINE_SOON")
    assert silences.patience(soon, 5.0) == 5.0
    silences.note(either, 5.0)
    assert silences.patience(soon, 5.0) < 5.0
    silences.came(soon, "DEADLINE_SOON")
    assert silences.patience(either, 5.0) == 5.0
    silences.note(any := awaited(b"reserve\r\n", "a reply"), 5.0)
    silences.came(any, "TIMED_OUT")
    assert silences.patience(any, 5.0) == 5.0
