"""Servers that do not start again with what they have kept: a finding, and no error of ours."""

from __future__ import annotations

from pathlib import Path

from conformance.run.runner import run
from conformance.target.launched_target import LaunchedTarget
from conformance.target.target import Target
from conformance.tests.test_persistence import test_cumulative_counters_begin_anew as begin_anew
from conformance.verdict import TargetLost
from tests.servers import changed_server

ONCE = """
    if "-b" in sys.argv:
        kept = sys.argv.pop(sys.argv.index("-b") + 1) + "/kept"
        sys.argv.remove("-b")
        if os.path.exists(kept):
            sys.exit("panic: this cannot be read")
        open(kept, "w").close()
"""


def _restarts(own_server: Target) -> None:
    own_server.restart()


_restarts.__dict__["configuration"] = {"binlog": True}


def test_a_server_that_does_not_start_again_is_a_finding(tmp_path: Path) -> None:
    target = LaunchedTarget(f"{changed_server(tmp_path, ONCE)} [-b {{binlog}}]", "real")
    try:
        outcome = run(_restarts, {"own_server": None}, target)
    finally:
        target.close()
    assert isinstance(outcome.error, TargetLost)
    assert outcome.error.expected == "a server that starts again"
    assert outcome.error.observed.endswith(
        "the launched server exited with status 1 before it listened"
    )
    assert [report.kind for report in outcome.reported] == ["panic: this cannot be read"]


def test_the_sync_command_is_not_counted_after_a_restart(tmp_path: Path) -> None:
    silent = "Model._list_tube_used = lambda self, *_: None"
    target = LaunchedTarget(f"{changed_server(tmp_path, silent)} [-b {{binlog}}]", "real")
    try:
        assert target.sync_line == b"peek 0"
        outcome = run(begin_anew, dict.fromkeys(("own_server", "client", "connect")), target)
    finally:
        target.close()
    assert outcome.error is None
