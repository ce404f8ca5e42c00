"""The step at which a test has deviated, and its cause."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from conformance.reading import parse
from conformance.run.step import step_of
from conformance.verdict import UNASKED, Deviation
from reference_server.profiles import NEWEST


@pytest.mark.parametrize(
    ("lines", "command", "before"),
    [
        ([r"A > use a\r\nwatch a\r\nignore default\r\n", r"A < OK\r\n"], "use", ()),
        (
            [r"A > use a\r\nwatch a\r\n", r"A < USING a\r\n", r"A < OK\r\n"],
            *("watch", ("use",)),
        ),
        (
            # What looks like a command in a body is none.
            [r"A > put 0 0 1 6\r\nkick 1\r\n", r"A < INSERTED 1\r\n", r"A > bury 1 0\r\n"],
            *("bury", ("put",)),
        ),
        ([r"A > reserve\r\n", r"B > use a\r\n", r"B < USING a\r\n", "+ 5s"], "reserve", ("use",)),
        ([r"A > use a\r\n", r"A < USING a\r\n", r"A < OK\r\n"], "", ("use",)),
        ([r"A > nonsense\r\n", r"A < OK\r\n"], "", ()),
        ([], "", ()),
    ],
)
def test_the_command_that_a_failure_is_about(
    lines: Sequence[str], command: str, before: tuple[str, ...]
) -> None:
    step = step_of(Deviation("a", "b"), parse("\n".join(lines)), NEWEST)
    assert (step.cause.command, step.before) == (command, before)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("USING …", "UNKNOWN_COMMAND\\r\\n"), ("USING a\\r\\n", "UNKNOWN_COMMAND\\r\\n")),
        (("INSERTED …", "BURIED 1\\r\\n"), ("INSERTED …", "BURIED 22\\r\\n")),
        (("NOT_FOUND\\r\\n", "OK 5\\r\\n---\\r\\n"), ("NOT_FOUND\\r\\n", "OK 9\\r\\n--- {}\\r\\n")),
        (("USING a …", "no reply: 1"), ("USING b …", "no reply: 29")),
        (("the key 'a'", "only b, c"), ("the key 'a'", "only b, c, d")),
        (("OK with a list", r"OK 9\r\nname: 0x10\r\n"), ("OK with a list", r"OK 5\r\n- a\n\r\n")),
        (("OK …", "nothing, as in a.transcript"), ("OK …", "nothing; it breaks stats.ok")),
    ],
)
def test_failures_of_one_cause_differ_in_numbers_and_names_only(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    causes = {step_of(Deviation(*said), parse(""), NEWEST).cause for said in (one, other)}
    assert len(causes) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("USING …", "UNKNOWN_COMMAND\\r\\n"), ("USING …", "BAD_FORMAT\\r\\n")),
        (("USING …", "UNKNOWN_COMMAND\\r\\n"), ("WATCHING …", "UNKNOWN_COMMAND\\r\\n")),
        (
            ("RESERVED 1 1\\r\\na", "RESERVED 1 1\\r\\nb"),
            ("RESERVED 1 1\\r\\na", "RESERVED 1 1\\r\\n"),
        ),
        (("the key 'a'", "only b, c"), ("the key 'b'", "only c")),
        (
            ("OK with a list", r"OK 2\r\na\r\n: no list"),
            ("OK with a list", r"OK 2\r\na\r\n: twice"),
        ),
    ],
)
def test_failures_of_different_causes(one: tuple[str, str], other: tuple[str, str]) -> None:
    causes = {step_of(Deviation(*said), parse(""), NEWEST).cause for said in (one, other)}
    assert len(causes) == 2


@pytest.mark.parametrize(
    ("lines", "is_out_of_step"),
    [
        ([r"A > kick 1\r\n", r"A < KICKED 0\r\n", r"A < KICKED 0\r\n"], True),
        # Each connection has its own.
        ([r"A > kick 1\r\n", r"A < KICKED 0\r\n", r"B > peek 1\r\n", r"B < KICKED 0\r\n"], True),
        ([r"A > kick 1\r\n", r"A < KICKED 0\r\n", r"B > kick 1\r\n", r"B < KICKED 0\r\n"], False),
        # A line of no command has a reply, too.
        ([r"A > nonsense\r\n", r"A < KICKED 0\r\n"], False),
        ([], False),
    ],
)
def test_a_reply_that_belongs_to_no_command_or_an_earlier_one_is_out_of_step(
    lines: Sequence[str], is_out_of_step: bool
) -> None:
    failed = Deviation("OK 1", "KICKED 0")
    assert step_of(failed, parse("\n".join(lines)), NEWEST).is_out_of_step is is_out_of_step


def test_a_reply_without_a_request_is_out_of_step() -> None:
    step = step_of(Deviation(UNASKED, "OK"), parse(r"A < OK\r\n"), NEWEST)
    assert step.is_out_of_step
