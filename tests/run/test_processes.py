"""The number of processes that share a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.console.processes import MOST, processes
from conformance.random_testing.shrink_budget import IN_ALL
from conformance.run.distribution import check_processes
from conformance.run.options import Options
from conformance.run.suite import Suite
from conformance.run.worker_setup import WorkerSetup, set_up_worker
from conformance.target.builtin import BuiltIn
from conformance.target.footprint import FOOTPRINT
from conformance.target.traits import Failure, Traits
from conformance.transcript import Transcript
from conformance.verdict import OutcomeKind, Step
from tests.command_line import refuses, suite
from tests.servers import REFERENCE_COMMAND, needs_faketime


@pytest.fixture(autouse=True)
def many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(2 * MOST)})


@pytest.mark.parametrize("arguments", [(), ("-q", "-p", "no:cacheprovider"), ("-vv", "--tb=short")])
def test_a_whole_run_has_several(arguments: Sequence[str]) -> None:
    assert processes(arguments, quick=False) == MOST


@pytest.mark.parametrize(
    "arguments", [("-k", "put."), ("-n3",), ("-x",), ("--pdb",), ("-p", "no:xdist"), ("a::b",)]
)
def test_a_run_of_chosen_tests_or_processes_has_what_was_chosen(arguments: Sequence[str]) -> None:
    assert processes(arguments, quick=False) == 1


@pytest.mark.parametrize(("quick", "count"), [(False, 4), (True, 3)])
def test_a_processor_has_two_unless_hardly_a_test_waits(
    quick: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 7})
    assert processes([], quick) == count


SERVES_ONE = Failure(Step(OutcomeKind.NO_REPLY, "list-tube-used"), "USING", "", Transcript())


@pytest.mark.parametrize(
    ("traits", "count"),
    [
        pytest.param(Traits(), 3, id="usual"),
        pytest.param(Traits(one_client=SERVES_ONE), 1, id="serves one client at a time"),
        pytest.param(Traits(rests=False), 1, id="never rests"),
    ],
)
def test_processes_share_no_server_that_serves_one_of_them(traits: Traits, count: int) -> None:
    option = SimpleNamespace(numprocesses=3, tx=["popen"] * 3)
    config: Any = SimpleNamespace(option=option, getoption=lambda name, _: getattr(option, name))
    with closing(BuiltIn()) as target:
        target.traits = traits
        check_processes(config, Options("127.0.0.1:1", None, "auto", 0.25), target)
    assert len(option.tx) == count


@needs_faketime
def test_processes_need_not_find_out_again_what_is_known_of_a_server(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    command = f"sh -c 'echo start >> {starts}; exec \"$@\"' sh {REFERENCE_COMMAND}"
    done = suite(f"--launch={command}", "-n2", "-k", "test_quit_closes")
    assert done.returncode == 0, done.stdout + done.stderr
    # Without a clock of ours, with it, after the survey, and beside another one; and that of the
    # only test.
    assert len(starts.read_text().splitlines()) == 5


def test_processes_share_the_time_that_a_run_has_for_failures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FOOTPRINT, "join", lambda *_: None)
    options = Options(None, None, "auto", 0.25)
    first, process = (Suite(options, distributed=distributed) for distributed in (False, True))
    node = SimpleNamespace(workerinput={"workerid": "gw0", "workercount": 2})
    with closing(first.start()):
        WorkerSetup(first).pytest_configure_node(node)
    set_up_worker(node, process)
    assert process.known == first.measured()
    assert 2 * process.effort.left == IN_ALL


def test_processes_that_cannot_have_a_server_each_are_refused(tmp_path: Path) -> None:
    command = f"flock -nF {tmp_path}/lock {REFERENCE_COMMAND}"
    done = suite(f"--launch={command}", "--clock=real", "-n2", "-k", "test_quit")
    refuses(done, "each process starts a server, and a second one does not start beside the first")
