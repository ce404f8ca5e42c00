"""Exhaustion: what fails without a shortage, too, is no matter of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.dialogue.shortage import before_shortage
from conformance.verdict import Deviation, NotTestable, Outage, OutcomeKind, TargetLost
from reports.results import read_results
from tests.command_line import suite
from tests.servers import changed_server, needs_strace

NO_LINE_ENDS = r"""
    from reference_server.wire.messages import EXPECTED_CRLF
    plain = Model._body
    Model._body = lambda self, conn, data: (
        EXPECTED_CRLF if data and b"\r\n" in data else plain(self, conn, data)
    )
"""
"""It takes no body with the end of a line in it."""


def test_a_deviation_without_a_shortage_is_not_testable() -> None:
    told = "without a shortage, too: expected INSERTED"
    with pytest.raises(NotTestable, match=told), before_shortage():
        raise Deviation("INSERTED", "JOB_TOO_BIG")
    with pytest.raises(TargetLost), before_shortage():
        raise TargetLost("a reply", Outage(OutcomeKind.CRASHED, "ended by SIGSEGV"))


def test_bodies_that_a_server_never_takes_are_no_matter_of_memory(tmp_path: Path) -> None:
    command = changed_server(tmp_path, NO_LINE_ENDS)
    chosen = "exhaustion and (put-buried or in-step or not-found or earlier)"
    suite("--launch", command, "-k", chosen, f"--report={tmp_path}", "--clock=real")
    tests = read_results(tmp_path / "results.json").tests
    ours = [test for test in tests if "test_exhaustion::" in test.id]
    memory = [test for test in ours if "interrupted" not in test.id]
    assert len(memory) >= 4
    assert {test.verdict for test in memory} == {"not testable"}
    assert {"EXPECTED_CRLF" in test.reason for test in memory} == {True}


UNSYNCED = """
    from reference_server.binlog import Binlog
    plain = Binlog.sync
    def sync(self):
        try:
            plain(self)
        except OSError:
            {ends}
    Binlog.sync = sync
"""


SYNCS_ALL_THE_TIME = """
    import tempfile, threading, time
    def syncs():
        with tempfile.TemporaryFile() as file:
            while True:
                try:
                    os.fsync(file)
                except OSError:
                    {ends}
                time.sleep(0.001)
    threading.Thread(target=syncs, daemon=True).start()
"""


@needs_strace
@pytest.mark.parametrize(
    ("ends", "told"), [("os._exit(3)", "1 passed"), ("os.abort()", "1 de-facto")]
)
@pytest.mark.parametrize("change", [UNSYNCED, SYNCS_ALL_THE_TIME], ids=["later", "at once"])
def test_a_server_that_cannot_sync_may_exit_but_not_crash(
    tmp_path: Path, change: str, ends: str, told: str
) -> None:
    command = changed_server(tmp_path, change.format(ends=ends)) + " [-b {binlog}]"
    done = suite("--launch", command, "-k", "synced_are_kept", "--clock=real")
    assert told in done.stdout.splitlines()[-2], done.stdout
