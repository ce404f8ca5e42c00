"""Endurance: what grows, and what only warms up; departures are named, and variants pass."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable
from pathlib import Path

import pytest

from conformance.dialogue import leaks
from conformance.dialogue.bulk import Bulk
from conformance.dialogue.connection import Connection
from conformance.run import runner
from conformance.target.builtin import BuiltIn
from conformance.target.starvation import CpuTime
from conformance.target.target import Target
from conformance.usual_answers import IN_STEP
from conformance.verdict import Deviation, Inconclusive
from reference_server.faults import FAULTS
from tests.command_line import suite
from tests.parts import sample
from tests.servers import REFERENCE_COMMAND
from tests.variants.endurance import ENDURANCE
from tests.variants.matrix import run


@pytest.fixture(autouse=True)
def in_a_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "SECONDS", -1.0)


def _growth(sizes: Iterable[int]) -> int:
    return leaks.growth(lambda: None, iter(sizes).__next__, CpuTime)


def test_what_grows_in_each_round_leaks() -> None:
    assert _growth(itertools.count(0, 20_000)) == 20_000


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(itertools.repeat(10**6), id="constant"),
        pytest.param([*range(0, 6 * 10**5, 10**5), *[10**6] * 20], id="a plateau"),
        pytest.param((2 ** (n // 3) * 10**6 for n in itertools.count()), id="a table that doubles"),
        pytest.param((n % 7 * 10**6 for n in itertools.count()), id="garbage"),
        pytest.param(itertools.count(0, 5000), id="less than counts"),
    ],
)
def test_what_stops_growing_does_not_leak(sizes: Iterable[int]) -> None:
    assert _growth(sizes) == 0


def test_the_departure_that_started_it_is_named(tmp_path: Path) -> None:
    (fault,) = (one for one in FAULTS.values() if one.requirement == "endurance.idle-cpu")
    command = f"{REFERENCE_COMMAND} --fault {fault.name}"
    done = suite("--launch", command, "-k", "idle-cpu", f"--report={tmp_path}")
    assert "of a CPU after a client that waits for a job and closes" in done.stdout


@pytest.mark.parametrize("name", sample([variant.name for variant in ENDURANCE], 3))
def test_a_server_with_timers_or_garbage_passes(name: str) -> None:
    came = run(name, "real", ["-k", "endurance"])
    assert came.wrong_in_a_part == []
    assert [told for told in came.undecided if "endurance" in told] == []


def test_replies_that_are_missing_in_bulk_are_shown() -> None:
    def asks(client: Connection, server: Target) -> None:
        bulk = Bulk(client, server)
        bulk._seconds, bulk._end = 0.3, b"LATER\r\n"
        bulk.ask(b"peek 9\r\n" * 2)

    with contextlib.closing(BuiltIn()) as server:
        outcome = runner.run(asks, {"client": None, "server": None}, server)
    error, entries = outcome.error, outcome.transcript.entries
    if isinstance(error, Inconclusive):
        error = error.deviation
    assert isinstance(error, Deviation)
    assert error.expected == "replies to 4 lines, the first of which is peek"
    assert error.owner == IN_STEP
    assert error.marked is not None
    assert entries[error.marked].data.startswith(b"peek 9\r\npeek 9\r\nuse ")
    assert entries[error.marked + 1].data.startswith(b"NOT_FOUND\r\nNOT_FOUND\r\nUSING ")


@pytest.mark.parametrize("name", ["lists-in-any-order-another-one-each-time", "a-comment-in-yaml"])
def test_a_long_list_may_have_another_order_each_time_and_any_form(name: str) -> None:
    came = run(name, "real", ["-k", "endurance.list-tubes"])
    assert came.wrong_in_a_part == []
