"""Failures that a busy machine may have caused, and those of a server that keeps itself busy."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from conformance.dialogue.scenario import Scenario
from conformance.run.suspected_flake import SuspectedFlake, suspect_flake
from conformance.target.launched_target import LaunchedTarget
from conformance.target.starvation import Starvation, Starved
from conformance.verdict import Deviation
from tests.servers import changed_server

SPINS = """
for _ in range(4):
    parent = os.getpid()
    if not os.fork():
        while os.getppid() == parent:
            pass
        os._exit(0)
"""
TRIES = 5
LATE = 5.0
"""Seconds for which somebody waited for what did not happen."""


def _suspected(command: str) -> SuspectedFlake | None:
    """Return the excuse for a failure of a server that waited for a CPU all the time."""
    with closing(LaunchedTarget(command, "real")) as target:
        target.probe()
        with closing(Scenario(target, 0.0)) as scenario:
            error = Deviation("a ready job", "a reserved one", waited=LATE)
            error.begun = scenario.starvation.mark()
            return suspect_flake(error, scenario)


@pytest.fixture(autouse=True)
def starved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the target have waited for a CPU, whatever it did."""
    monkeypatch.setattr(Starvation, "since", lambda *_: Starved(0.0, LATE, LATE, LATE))


def test_a_server_that_spins_has_no_excuse(tmp_path: Path) -> None:
    command = changed_server(tmp_path, SPINS)
    # Where a busy machine does not let it run for a moment, it seems to rest.
    assert any(_suspected(command) is None for _ in range(TRIES))


def test_a_server_that_rests_is_excused_by_a_busy_machine(tmp_path: Path) -> None:
    suspected = _suspected(changed_server(tmp_path, ""))
    assert suspected is not None
    assert suspected.reason
