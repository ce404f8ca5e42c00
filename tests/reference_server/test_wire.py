"""The codec: any segmentation, exact framing, exact limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.oracle.underspecification import is_decided, is_free
from reference_server.commands import VERBS
from reference_server.profiles import NEWEST, V1_12, Profile
from reference_server.wire import (
    BAD_FORMAT,
    FOUND,
    INSERTED,
    OK,
    RESERVED,
    UNKNOWN_COMMAND,
    USING,
    Body,
    Command,
    Malformed,
    ProtocolError,
    Put,
    Reply,
    ReplyReader,
    Request,
    RequestReader,
    escape,
    parse_line,
)

SMALL = replace(NEWEST, max_job_size=20)


def read(*segments: bytes) -> list[Request]:
    reader, requests = RequestReader(SMALL), []
    for segment in segments:
        reader.receive(segment)
        while (request := reader.next_request()) is not None:
            requests.append(request)
    return requests


FRAGMENTS = st.sampled_from(
    [
        *(f"{verb} 1\r\n".encode() for verb in VERBS),
        *(b"put 0 0 1 3\r\n", b"put 0 0 1 99\r\n", b"abc", b"\r\n", b"\r", b"\n", b"x" * 99, b"\0"),
    ]
)


@given(st.lists(FRAGMENTS, max_size=12).map(b"".join), st.data())
def test_segmentation_changes_nothing(data: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=8)))
    segments = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert read(*segments) == read(data) == read(*(bytes([byte]) for byte in data))


@pytest.mark.parametrize(
    ("data", "requests"),
    [
        (b"put 1 2 3 2\r\nab\r\nquit\r\n", [Put(1, 2, 3, 2), Body(b"ab"), Command("quit")]),
        (b"put 1 2 3 2\r\nab\rxquit\r\n", [Put(1, 2, 3, 2), Body(None), Command("quit")]),
        (
            b"put 0 0 1 21\r\n" + b"\n" * 23 + b"quit\r\n",
            [Put(0, 0, 1, 21), Body(None, is_ended=False), Command("quit")],
        ),
        (
            b"put 0 0 1 21\r\n" + b"\n" * 21 + b"\r\nquit\r\n",
            [Put(0, 0, 1, 21), Body(None), Command("quit")],
        ),
        (b"put 0 0 1 20\r\n" + b"\n" * 20 + b"\r\n", [Put(0, 0, 1, 20), Body(b"\n" * 20)]),
        (b"put 0 0 1 x\r\nquit\r\n", [Malformed(BAD_FORMAT), Command("quit")]),
        (b"x" * 222 + b"\r\n", [Malformed(UNKNOWN_COMMAND)]),
        (b"x" * 223 + b"\r\nquit\r\n", [Malformed(BAD_FORMAT), Command("quit")]),
        (b"x" * 9999 + b"\r\nquit\r\n", [Malformed(BAD_FORMAT), Command("quit")]),
        (b"quit\n\r\n", [Command("quit")]),
        (b"list-tubes\n\r\n", [Malformed(BAD_FORMAT)]),
    ],
)
def test_framing(data: bytes, requests: list[Request]) -> None:
    assert read(data) == requests


@pytest.mark.parametrize(
    ("line", "lenient", "strict"),
    [
        (b"5", 5, 5),
        (b"5x", 5, 5),
        (b"-1", None, BAD_FORMAT),
        (b"", 0, BAD_FORMAT),
        (b"x", 0, BAD_FORMAT),
        (b"4294967301", 5, BAD_FORMAT),
        (b"2147483647", 2147483647, 2147483647),
        (b"2147483648", None, BAD_FORMAT),
        (b"9" * 20, BAD_FORMAT, BAD_FORMAT),
    ],
)
def test_the_argument_of_reserve_with_timeout(line: bytes, lenient: Any, strict: Any) -> None:
    for profile, expected in ((V1_12, lenient), (NEWEST, strict)):
        request = parse_line(b"reserve-with-timeout " + line, profile)
        if expected is BAD_FORMAT:
            assert request == Malformed(BAD_FORMAT)
        else:
            assert request == Command("reserve-with-timeout", (expected,))


@pytest.mark.parametrize("profile", [V1_12, NEWEST], ids=lambda profile: profile.name)
@pytest.mark.parametrize(
    "line", ["delete %s", "kick %s", "reserve-with-timeout %s", "pause-tube a %s", "put 0 0 %s 1"]
)
def test_a_number_may_have_any_number_of_digits(line: str, profile: Profile) -> None:
    unlimited = replace(profile, max_line=2**20)
    for digits, alike in (("9" * 5000, "9" * 20), ("0" * 5000 + "7", "0" * 20 + "7")):
        long, short = (line % digits).encode(), (line % alike).encode()
        for judge in (parse_line, is_free, is_decided):
            assert judge(long, unlimited) == judge(short, unlimited)


def test_the_reader_holds_no_more_than_a_line_and_a_body() -> None:
    reader = RequestReader(SMALL)
    for _ in range(1000):
        reader.receive(b"x" * 1000)
        assert reader.next_request() is None
        assert reader.buffered <= 224
    reader.receive(b"\r\nput 0 0 1 4294967295\r\n")
    assert reader.next_request() == Malformed(BAD_FORMAT)
    assert reader.next_request() == Put(0, 0, 1, 4294967295)
    for _ in range(1000):
        reader.receive(b"x" * 100_000)
        assert reader.buffered == 0


REPLIES = st.one_of(
    st.sampled_from([BAD_FORMAT, INSERTED(7), USING("a"), Reply("KICKED", (3,)), Reply("KICKED")]),
    st.binary(max_size=30).map(OK),
    st.builds(RESERVED, st.integers(0, 2**64 - 1), st.binary(max_size=30)),
    st.builds(FOUND, st.integers(0, 2**64 - 1), st.binary(max_size=30)),
)


@given(st.lists(REPLIES, max_size=8), st.integers(1, 9))
def test_replies_are_read_back_in_any_segmentation(replies: list[Reply], step: int) -> None:
    data = b"".join(reply.encode() for reply in replies)
    reader, found = ReplyReader(), []
    for start in range(0, len(data), step):
        reader.receive(data[start : start + step])
        while (reply := reader.next_reply()) is not None:
            found.append(reply)
    assert found == replies


@pytest.mark.parametrize(
    "data",
    [
        *(b"HTTP/1.1 400 Bad Request\r\n", b"INSERTED\r\n", b"INSERTED x\r\n", b"OK -1\r\n\r\n"),
        *(b"RESERVED 1\r\n", b"inserted 1\r\n", b"USING a b\r\n", b"OK 3\r\nabcd\r\n", b"x" * 2000),
        *(b"OK 99999999999\r\n", b"DELETED 1\r\n", b"INSERTED 007\r\n", b"\r\n"),
    ],
)
def test_what_is_no_reply_is_refused(data: bytes) -> None:
    reader = ReplyReader()
    reader.receive(data)
    with pytest.raises(ProtocolError):
        reader.next_reply()


@given(st.binary())
def test_escapes_are_reversible(data: bytes) -> None:
    text = escape(data)
    assert text.isprintable()
    assert text.isascii()
    assert text.encode().decode("unicode_escape").encode("latin-1") == data


def test_a_body_that_is_too_big_is_skipped_whatever_follows_its_size() -> None:
    requests = read(b"put 0 0 60 21 x\r\n" + b"y" * 21 + b"\r\nlist-tubes\r\n")
    assert requests == [Put(0, 0, 60, 21), Body(None), Command("list-tubes")]
