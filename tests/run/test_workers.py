"""Processes that work for another one."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

STARTS_ONE = (
    "import os, signal; from conformance.run.workers import worker_processes;"
    "pool, updates = worker_processes(1);"
    "print(pool.submit(os.getpid).result(), flush=True); signal.pause()"
)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_ends_with_the_process_that_has_started_it(ending: signal.Signals) -> None:
    # All of them share the output, which ends with the last of them.
    with subprocess.Popen([sys.executable, "-c", STARTS_ONE], stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        assert int(starter.stdout.readline())
        starter.send_signal(ending)
        assert starter.communicate(timeout=60)[0] == b""
