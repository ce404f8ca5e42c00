"""How tests are distributed to processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.run.distribution import parts_of
from conformance.target.launch import Launched
from tests.servers import REFERENCE_COMMAND
from tests.test_plugin import suite


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
