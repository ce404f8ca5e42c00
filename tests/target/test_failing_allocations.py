"""Allocations of a server that fail, and what becomes of the server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.catalogue import configured
from conformance.dialogue.connection import Connection
from conformance.run.runner import run
from conformance.target.address import ask, visit
from conformance.target.failing_allocations import FailingAllocations
from conformance.target.launched_target import LaunchedTarget
from conformance.target.resources import Resources
from conformance.target.target import Target
from conformance.verdict import NotTestable
from tests.command_line import suite
from tests.servers import (
    BEANSTALKD_COMMAND,
    REFERENCE_COMMAND,
    changed_server,
    needs_beanstalkd,
    needs_libfiu,
)


@contextlib.contextmanager
def _own(command: str) -> Iterator[tuple[Target, FailingAllocations]]:
    """Run a server whose allocations are to fail."""
    first = LaunchedTarget(command, "real")
    own = first.fresh(allocations=True)
    assert own.allocations is not None
    try:
        yield own, own.allocations
    finally:
        own.close()
        first.close()


def _folders(target: Target) -> list[Path]:
    return [process.folder for process in target.processes()]


def _cannot_fail(command: str, told: str) -> None:
    """Expect that no allocation of a server can fail, and that this is told."""
    with _own(command) as (own, allocations), pytest.raises(NotTestable, match=told):
        allocations.fail(_folders(own))


@needs_libfiu
@needs_beanstalkd
def test_allocations_fail_until_they_succeed_again() -> None:
    with (
        _own(BEANSTALKD_COMMAND) as (own, allocations),
        visit(own.address, 30, own.traits) as client,
    ):
        # Else a busy server may accept it only when it has no memory for a client.
        assert ask(client, b"peek 1", 30).word == "NOT_FOUND"
        allocations.fail(_folders(own))
        assert ask(client, b"put 0 0 60 1\r\na", 30).word == "OUT_OF_MEMORY"
        allocations.succeed(_folders(own))
        assert ask(client, b"put 0 0 60 1\r\na", 30).word == "INSERTED"


def test_without_libfiu_no_allocation_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    _cannot_fail(REFERENCE_COMMAND, "libfiu is not installed")


@needs_libfiu
def test_a_server_that_loads_no_library_can_be_refused_nothing() -> None:
    command = f"env -u LD_PRELOAD {REFERENCE_COMMAND}"
    _cannot_fail(command, "libfiu cannot be loaded into the server")


@needs_libfiu
def test_a_server_that_does_not_start_with_libfiu_starts_without() -> None:
    command = f"sh -c 'test -z \"$LD_PRELOAD\" && exec {REFERENCE_COMMAND}'"
    _cannot_fail(command, "under libfiu, the launched server exited with status 1")


GIVES_UP = """
    import signal
    plain = serve.main
    def main():
        try:
            return plain()
        except MemoryError:
            {ends}
    serve.main = main
"""


@needs_libfiu
@pytest.mark.parametrize(
    ("ends", "told"),
    [
        pytest.param("os._exit(3)", "1 not testable", id="exits"),
        pytest.param("os.kill(os.getpid(), signal.SIGABRT)", "1 not testable", id="aborts"),
        pytest.param("os.kill(os.getpid(), signal.SIGSEGV)", "1 de-facto", id="crashes"),
    ],
)
def test_a_server_that_can_allocate_nothing_may_end_but_not_crash(
    tmp_path: Path, ends: str, told: str
) -> None:
    command = changed_server(tmp_path, GIVES_UP.format(ends=ends))
    done = suite("--launch", command, "-k", "whole_afterwards and no-allocation", "--clock=real")
    assert told in done.stdout.splitlines()[-2], done.stdout


@needs_libfiu
def test_a_server_that_gives_up_is_not_testable_each_time() -> None:
    @configured(allocations=True)
    def needs(own_server: Target, client: Connection, resources: Resources) -> None:
        resources.refuse_allocations()
        client.put(b"a" * 10_000)

    parts = dict.fromkeys(("own_server", "client", "resources"))
    target = LaunchedTarget(REFERENCE_COMMAND, "real")
    try:
        outcomes = [run(needs, parts, target) for _ in range(2)]
    finally:
        target.close()
    told = "it does not go on when no allocation succeeds: the target crashed: exited with status 1"
    assert [str(outcome.error) for outcome in outcomes] == [told, told]
    refused = [
        b"allocations limited" in [entry.data for entry in o.transcript.entries] for o in outcomes
    ]
    assert refused == [True, True]
