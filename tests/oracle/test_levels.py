"""Levels of lines and replies: a server is blamed for the sentence that it breaks, no other."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from conformance.catalogue import catalogue
from conformance.oracle.check import check
from conformance.oracle.underspecification import is_decided
from conformance.reading import parse
from conformance.verdict import Deviation
from reference_server.fault import Fault
from reference_server.faults import FAULTS
from reference_server.model import Model
from reference_server.profiles import NEWEST
from reference_server.state import Client
from reference_server.wire import (
    BAD_FORMAT,
    INTERNAL_ERROR,
    NOT_FOUND,
    Command,
    Malformed,
    Reply,
    Request,
    RequestReader,
)
from tests.faults import PATIENT, Case, outcomes

LINES = ("test_arguments", "test_errors", "test_numbers", "test_protocol")
STATS = ("test_stats", "test_stats_counters", "test_stats_job", "test_stats_tube")


def _reads(change: Callable[[bytes], bytes | Request]) -> Fault:
    """Return a server that reads lines as others, or takes them for requests."""

    class Reads(RequestReader):
        def parse(self, line: bytes) -> Request:
            changed = change(line)
            return super().parse(changed) if isinstance(changed, bytes) else changed

    return Fault("", "reads lines differently", reader=Reads)


def _failures(fault: Fault, *modules: str) -> dict[str, Deviation]:
    """Return the requirements that the tests of these modules say a server breaks."""

    def is_chosen(case: Case) -> bool:
        return case.file in modules

    found: dict[str, Deviation] = {}
    for case, outcome in outcomes(fault, is_chosen, silence=PATIENT):
        if isinstance(outcome.error, Deviation):
            owner = outcome.error.owner
            found |= dict.fromkeys([owner] if owner else case.slugs, outcome.error)
    return found


def _musts(slugs: Any) -> set[str]:
    return {slug for slug in slugs if catalogue()[slug].judged_by(NEWEST.name).level == "must"}


def test_a_connection_survives_whatever_the_error_word_is() -> None:
    odd = _reads(lambda line: Malformed(INTERNAL_ERROR) if line == b"put 0 0 1" else line)
    assert "error.connection-survives" not in _failures(odd, "test_errors")


def test_replies_are_in_order_whatever_the_error_word_is() -> None:
    odd = _reads(lambda line: Malformed(BAD_FORMAT) if line in (b"bogus", b"x" * 200) else line)
    found = _failures(odd, "test_protocol", "test_quit", "test_slow_clients")
    assert "protocol.serial-replies" not in found


def test_a_name_that_use_refuses_is_a_matter_of_use() -> None:
    no_dots = _reads(lambda line: Malformed(BAD_FORMAT) if line == b"use 1.0" else line)
    assert set(_failures(no_dots, "test_stats_tube", "test_list_tubes")) == {"use.using"}


def test_tabs_and_blanks_have_one_level() -> None:
    tabs = _reads(lambda line: line.replace(b"\t", b" ").rstrip(b" ") if line.strip() else line)
    found = _failures(tabs, *LINES)
    assert _musts(found) == set()
    assert {"protocol.tab-is-no-blank", "protocol.blank-at-the-end"} <= set(found)


def test_a_plus_sign_has_one_level_for_all_commands() -> None:
    pluses = _reads(lambda line: re.sub(rb" [+]([0-9])", rb" \1", line))
    assert set(_failures(pluses, *LINES)) == {"protocol.plus-sign"}


@pytest.mark.parametrize("line", [b"delete +1", b"release 1 +1 0", b"delete\t1", b"delete -0"])
def test_the_text_does_not_decide_signs_of_numbers_that_are_not_negative(line: bytes) -> None:
    assert not is_decided(line, NEWEST)


@pytest.mark.parametrize("line", [b"delete -1", b"delete +1x", b"delete +", b"delete 1x"])
def test_the_text_decides_what_is_no_number(line: bytes) -> None:
    assert is_decided(line, NEWEST)


_WRONG = re.compile(rb"(release|bury|touch) ([0-9]+) .+")


class _WrongNumbers(RequestReader):
    def parse(self, line: bytes) -> Request:
        request, match = super().parse(line), _WRONG.fullmatch(line)
        if isinstance(request, Malformed) and match and int(match[2]) < 2**64:
            return Command("touch", (int(match[2]), 0))
        return request


class _LooksForTheJobFirst(Model):
    def _touch(self, conn: Client, id: int, wrong: int | None = None) -> Reply:
        if wrong is None:
            return super()._touch(conn, id)
        return BAD_FORMAT if id in conn.reserved else NOT_FOUND


def test_a_server_may_look_for_the_job_before_it_reads_other_numbers() -> None:
    server = Fault("", "looks first", model=_LooksForTheJobFirst, reader=_WrongNumbers)
    assert _failures(server, *LINES) == {}


@pytest.mark.parametrize("reply", ["BAD_FORMAT", "NOT_FOUND"])
@pytest.mark.parametrize(
    "line", ["bury 7 4294967296", "release 7 -1 0", "pause-tube none x", "delete 7 7"]
)
def test_the_oracle_allows_each_error_that_a_line_deserves(line: str, reply: str) -> None:
    finding = check(parse(f"A > {line}\\r\\n\nA < {reply}\\r\\n\n"), NEWEST)
    assert finding is None or finding.level == "unspecified"


@pytest.mark.parametrize(
    ("module", "name", "slug"),
    [
        ("test_stats", "stats-has-a-line-that-is-no-yaml", "stats.ok"),
        ("test_stats_job", "stats-job-has-a-line-that-is-no-yaml", "stats-job.ok"),
        ("test_stats_tube", "stats-tube-has-a-line-that-is-no-yaml", "stats-tube.ok"),
        ("test_list_tubes", "list-tubes-has-a-line-that-is-no-yaml", "list-tubes.yaml"),
    ],
)
def test_what_no_parser_accepts_breaks_a_must(module: str, name: str, slug: str) -> None:
    found = _failures(FAULTS[name], module)
    assert _musts(found) == {slug}
    said = found[slug].observed
    assert "@home" in said.partition("; the reply is ")[0]
    assert "cannot start any token" in said


def test_a_value_that_yaml_takes_for_something_else_is_de_facto() -> None:
    found = _failures(FAULTS["the-os-is-a-comment-to-yaml"], "test_stats")
    assert set(found) == {"stats.yaml-values-parse"}


def test_a_number_with_leading_zeros_is_no_octal_number() -> None:
    def octal(line: bytes) -> bytes:
        return re.sub(rb" 0([0-7]+)(?= |\Z)", lambda m: b" %d" % int(m[1], 8), line)

    found = _failures(_reads(octal), "test_numbers")
    assert _musts(found) == {"protocol.integers-are-decimal"}


def test_a_server_may_refuse_leading_zeros() -> None:
    strict = _reads(
        lambda line: (
            Malformed(BAD_FORMAT) if re.search(rb"\A(?!use|watch).* 0[0-9]", line) else line
        )
    )
    assert set(_failures(strict, "test_numbers")) == {"protocol.leading-zeros"}


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("total-jobs-of-stats-is-one-too-high", "stats.total-jobs"),
        ("utime-is-always-0", "stats.rusage-utime"),
        ("stime-is-always-0", "stats.rusage-stime"),
    ],
)
def test_a_wrong_value_of_statistics_breaks_its_own_requirement(name: str, slug: str) -> None:
    assert set(_failures(FAULTS[name], *STATS, "test_process")) == {slug}
