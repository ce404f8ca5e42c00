"""How many processes share a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from conformance.console.processes import MOST, processes
from conformance.run.options import Options
from tests.servers import REFERENCE_COMMAND
from tests.test_plugin import refuses, suite


def count(command: str, *arguments: str) -> int:
    return processes(Options.of_command(None, command, "auto", 10), arguments)


@pytest.fixture(autouse=True)
def many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(2 * MOST)})


def only_one(folder: Path) -> str:
    """Return the command of a server of which only one can run at a time."""
    return f"flock -n {folder}/lock {REFERENCE_COMMAND}"


@pytest.mark.parametrize("arguments", [(), ("-q", "-p", "no:cacheprovider"), ("-vv", "--tb=short")])
def test_a_whole_run_has_several(arguments: Sequence[str]) -> None:
    assert count(REFERENCE_COMMAND, *arguments) == MOST


@pytest.mark.parametrize(
    "arguments", [("-k", "put."), ("-n3",), ("-x",), ("--pdb",), ("-p", "no:xdist"), ("a::b",)]
)
def test_a_run_of_chosen_tests_or_processes_has_what_was_chosen(arguments: Sequence[str]) -> None:
    assert count(REFERENCE_COMMAND, *arguments) == 1


def test_where_one_processor_is_allowed_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {7})
    assert count(REFERENCE_COMMAND) == 1


def test_where_two_servers_cannot_run_together_there_is_one(tmp_path: Path) -> None:
    assert count(only_one(tmp_path)) == 1
    with pytest.raises(click.UsageError, match="exited with status 1 before it listened"):
        count("false {port}")


def test_several_processes_that_cannot_have_a_server_each_are_refused(tmp_path: Path) -> None:
    done = suite(f"--launch={only_one(tmp_path)}", "-n2", "-k", "test_quit")
    refuses(done, "each process of -n starts a server, and a second one does not start")
