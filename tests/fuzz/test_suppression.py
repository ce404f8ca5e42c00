"""Findings that are alike are told apart by little, and the lines that show them are avoided."""

from __future__ import annotations

import pytest

from conformance.transcript import Direction, Entry
from fuzz.suppression import Suppression, line_of, signature
from reference_server.profiles import NEWEST


@pytest.mark.parametrize(
    ("one", "other", "are_alike"),
    [
        (
            (b"peek 1x", r"BAD_FORMAT\r\n", r"NOT_FOUND\r\n"),
            (b"peek 2y", r"BAD_FORMAT\r\n", r"FOUND 2 1\r\na\r\n"),
            True,
        ),
        ((b"put x", r"BAD_FORMAT\r\n", "nothing"), (b"put y", "BAD_FORMAT", "INSERTED"), True),
        ((b"peek 1x", "BAD_FORMAT", "NOT_FOUND"), (b"touch 1x", "BAD_FORMAT", "NOT_FOUND"), False),
        ((b"peek 1x", "BAD_FORMAT", "FOUND"), (b"peek 1x", "BAD_FORMAT", "INTERNAL_ERROR"), False),
        ((b"peek 1", "FOUND", "NOT_FOUND"), (b"peek 1", "FOUND", "FOUND"), False),
        (
            (b"use a", "OK with cmd-use: 1", "OK with cmd-use: 2"),
            (b"stats", "OK with cmd-use: 7", "OK with cmd-use: 0"),
            True,
        ),
        (
            (b"stats", "OK with cmd-use: 1", "OK with cmd-use: 2"),
            (b"stats", "OK with cmd-put: 1", "OK with cmd-put: 2"),
            False,
        ),
    ],
)
def test_findings_are_alike_by_word_and_replies(
    one: tuple[bytes, str, str], other: tuple[bytes, str, str], are_alike: bool
) -> None:
    assert (signature(*one) == signature(*other)) == are_alike


def test_a_word_that_went_wrong_in_many_forms_is_expected_to_do_so_again() -> None:
    known = Suppression()
    known.learn([b"peek 1x", b"peek 01"])
    assert not known.expects([b"peek -1"])
    known.learn([b"peek 1 1", b"touch 1x"])
    assert known.expects([b"use a", b"peek -1"])
    assert not known.expects([b"peek 1", b"touch -1"])
    known.learn([b"a 1x", b"b 01", b"c"])
    assert not known.expects([b"d -1"])


def _entries(*talk: tuple[str, Direction, bytes]) -> list[Entry]:
    return [Entry(name, direction, data, 0.0) for name, direction, data in talk]


ASKED = ("a", ">", b"use a\r\npeek 1x\r\nstats\r\n")
OTHER = ("b", ">", b"kick 1\r\n")


@pytest.mark.parametrize(
    ("entries", "line"),
    [
        ([ASKED, ("a", "<", b"USING a\r\n")], b"use a"),
        (
            [ASKED, ("b", ">", b"kick 1\r\n"), ("a", "<", b"USING a\r\nFOUND 1 0\r\n\r\n")],
            b"peek 1x",
        ),
        ([("b", "<", b"USING b\r\n"), ASKED], b"use a"),
        ([ASKED, ("a", "+", b"closes"), ("a", ">", b"touch y\r\n")], b"touch y"),
        ([("a", "<", b"USING a\r\n")], None),
        ([], None),
    ],
)
def test_the_line_is_known_to_which_a_reply_belongs(
    entries: list[tuple[str, Direction, bytes]], line: bytes | None
) -> None:
    assert line_of(_entries(*entries), NEWEST) == line
