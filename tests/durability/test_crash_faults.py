"""The command that crashes disks, tested on the reference server: with a fault, and without."""

from __future__ import annotations

import contextlib

from conformance.durability.campaign import workers
from conformance.durability.catalogue import requirements
from conformance.durability.scenes import CrashScene, Say, put
from reference_server.faults import FAULTS
from tests.crash_faults import broken, broken_by_upgrade, crash_faults
from tests.servers import needs_strace

SCENE = CrashScene("short", (put("a"), Say("delete {a}"), put("b")))


def test_faults_that_only_a_crash_shows_break_what_only_that_shows() -> None:
    assert {FAULTS[name].requirement for name in crash_faults()} <= {*requirements()}
    assert len(crash_faults()) >= 10


@needs_strace
def test_the_reference_server_outlasts_crashes_and_with_a_fault_it_does_not() -> None:
    with contextlib.closing(workers(1)) as backend:
        assert broken(backend, "", SCENE, 1) == {}
        assert "durability.power-loss" in broken(
            backend, "--fault with-f-0-nothing-is-synced", SCENE, 4
        )


def test_jobs_of_an_older_version_are_there_and_with_a_fault_one_is_lost() -> None:
    fault = "a-job-that-an-older-version-has-kept-is-lost"
    assert broken_by_upgrade("") == {}
    assert broken_by_upgrade(f"--fault {fault}") == {"durability.upgrade": 1}
