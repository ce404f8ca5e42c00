"""How tests are distributed to processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.run.distribution import parts_of, scheduler, spread, takes_long
from conformance.target.builtin import BuiltIn
from conformance.target.launch import Launched
from tests.command_line import suite
from tests.servers import REFERENCE_COMMAND

LONG, SHORT = 10.0, 0.125
"""Seconds that tests take."""


@pytest.mark.parametrize(
    ("test", "parts"),
    [
        (
            "conformance/tests/test_deadline_soon.py::test_reserve_in_the_safety_margin[a]",
            {"client", "clock", "command"},
        ),
        (
            "conformance/tests/test_stats_counters.py::test_a_client_that_says_nothing_is_connected",
            {"alone", "client", "connect", "key"},
        ),
        ("fuzz/test_hostile.py::test_any_bytes", {"server", "transcript", "exploration"}),
        ("test_hostile.py::test_any_bytes", {"server", "transcript", "exploration"}),
        ("tests/test_quit.py::test_quit_closes_the_connection", {"client", "other"}),
        ("mine/test_truncate.py::test_it", {"alone", "clock", "real_clock"}),
    ],
)
def test_the_parts_of_a_test_are_known_by_its_name(test: str, parts: set[str]) -> None:
    assert parts_of(test) == parts


def test_all_tests_are_distributed_wherever_pytest_is_started(tmp_path: Path) -> None:
    with Launched(REFERENCE_COMMAND) as server:
        address = "{}:{}".format(*server.address)
        chosen = "test_known_bytes or test_quit"
        done = suite(f"--target={address}", "-n2", "-k", chosen, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def test_tests_that_must_be_alone_are_alone_in_many_processes() -> None:
    with Launched(REFERENCE_COMMAND) as server:
        address = "{}:{}".format(*server.address)
        done = suite(f"--target={address}", "-n3", "-k", "stats.current or put.")
    assert done.returncode == 0, done.stdout
    assert "others are connected" not in done.stdout


@pytest.mark.parametrize("processes", [(), ("-n2",)])
def test_a_failure_that_ends_the_run_does_so_with_the_exit_code_of_failures(
    processes: tuple[str, ...],
) -> None:
    fault = f"{REFERENCE_COMMAND} --fault a-peek-counts-as-a-reservation"
    done = suite(f"--launch={fault}", "-x", "-k", "peek.", *processes)
    assert "stopping after 1 failures" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED


@dataclass(eq=False)
class Process:
    """A process: it begins a test when it knows the next one, or that there is none."""

    name: str
    shutting_down: bool = False
    known: list[int] = field(default_factory=list)
    busy_until: float | None = None

    @property
    def gateway(self) -> SimpleNamespace:
        return SimpleNamespace(id=self.name)

    def send_runtest_some(self, indices: list[int]) -> None:
        self.known += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    def begin(self, now: float, tests: list[str]) -> None:
        if self.busy_until is None and len(self.known) > (not self.shutting_down):
            self.busy_until = now + (LONG if takes_long(tests[self.known[0]]) else SHORT)


def _scheduled(tests: list[str], processes: int) -> tuple[Any, list[Process]]:
    """Return a scheduler of a target whose clock moves, and processes that know first tests."""
    values = {"tx": [f"{processes}*popen"], "maxschedchunk": None}
    config: Any = SimpleNamespace(getvalue=values.get, getoption=values.get)
    with closing(BuiltIn()) as target:
        scheduling = scheduler(config, None, target)
    nodes = [Process(f"gw{number}") for number in range(processes)]
    for node in nodes:
        scheduling.add_node(node)
    for node in nodes:
        scheduling.add_node_collection(node, tests)
    scheduling.schedule()
    return scheduling, nodes


def _seconds_of(tests: list[str], processes: int) -> float:
    """Return how long so many processes take for all these tests."""
    scheduling, nodes = _scheduled(tests, processes)
    now = 0.0
    while scheduling.has_pending:
        for node in nodes:
            node.begin(now, tests)
        now, first = min((node.busy_until, node.name) for node in nodes if node.busy_until)
        (done,) = (node for node in nodes if node.name == first)
        done.busy_until = None
        scheduling.mark_test_complete(done, done.known.pop(0), SHORT)
    return now


def _tests(long: int, short: int) -> Iterator[Any]:
    for number in range(short):
        yield SimpleNamespace(nodeid=f"test_known.py::test_{number}")
        if number < long:
            yield SimpleNamespace(nodeid=f"test_made_up.py::test_any_{number}")


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
@pytest.mark.parametrize("short", [5, 6, 9, 40, 400])
def test_no_process_gets_two_tests_that_take_long_while_another_idles(
    processes: int, short: int
) -> None:
    items = spread([*_tests(5, short)])
    assert {item.nodeid for item in items} == {item.nodeid for item in _tests(5, short)}
    seconds = _seconds_of([item.nodeid for item in items], processes)
    assert seconds <= -(-5 // processes) * LONG + short * SHORT


def test_the_tests_that_take_longest_come_first_of_what_takes_long() -> None:
    names = ["::test_any_bytes", "::test_any_transition", "::test_known", "::test_any_program"]
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    assert [item.nodeid for item in spread(items)] == [
        *("::test_any_transition", "::test_known", "::test_any_program", "::test_any_bytes"),
    ]


def test_one_process_gets_all_tests_that_wait() -> None:
    tie = "conformance/tests/test_ties.py::test_timers_of_the_same_instant"
    waiting = [f"{tie}[{number}]" for number in range(30)]
    _, nodes = _scheduled([*waiting, *(f"test_known.py::test_{number}" for number in range(30))], 4)
    assert nodes[0].known == [*range(30)]
    assert all(node.known for node in nodes)
