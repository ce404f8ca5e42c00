"""What cannot be written is an error of ours: it breaks no requirement and hides no finding."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from conformance.oracle.diagnosis import Diagnosis
from conformance.random_testing import findings
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.findings import keep
from conformance.run.runner import run
from conformance.target.builtin import BuiltIn
from conformance.transcript import Transcript
from conformance.verdict import Deviation
from fuzz.corpus import Pool
from fuzz.fuzzer import Fuzzer
from fuzz.test_programs import test_any_program as any_program
from reference_server.faults import Fault
from reference_server.model import Model
from reference_server.wire import KICKED_COUNT, Reply
from reports.files import replace
from tests.command_line import FAST, suite
from tests.servers import changed_server

LIES = """
from reference_server.wire import USING
Model._use = lambda *_: USING("wrong")
"""


class _KicksTooMany(Model):
    """Says that it has kicked more jobs than there are."""

    def _kick(self, *_: object) -> Reply:
        return KICKED_COUNT(7777)


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """Return a folder that nobody can make."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "findings"


def test_a_finding_of_random_conversations_is_told(blocked: Path) -> None:
    target = BuiltIn(fault=Fault("", "other", _KicksTooMany))
    arguments = {"exploration": Exploration(25, folder=blocked)}
    error = run(any_program, {"server": None, "transcript": None, **arguments}, target).error
    target.close()
    assert isinstance(error, Deviation)
    assert "7777" in error.observed
    assert f"could not be kept in {blocked}: Not a directory" in str(error)


def test_a_finding_of_the_fuzzer_is_told(blocked: Path) -> None:
    target = BuiltIn(fault=Fault("", "other", _KicksTooMany))
    exploration = Exploration(1, folder=blocked, shared=True)
    report = Fuzzer(exploration, target, Pool()).run(60, most=1)
    target.close()
    (found,) = report.found
    assert found.path is None
    assert f"could not be kept in {blocked}: Not a directory" in found.line


def test_what_is_half_kept_does_not_pass_for_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diagnosis = Diagnosis("one thing", "another")

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(findings, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            keep(tmp_path, diagnosis, Transcript())
    assert keep(tmp_path, diagnosis, Transcript())[1]


def test_a_file_of_a_report_is_the_old_one_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results.json"
    replace(file, b"old")

    def full(path: Path, data: bytes) -> int:
        with path.open("wb") as half:
            half.write(data[:1])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match="No space left"):
            replace(file, b"new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    replace(file, b"new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["new"]


def test_a_report_and_a_baseline_that_cannot_be_written_hide_no_failure(
    tmp_path: Path, blocked: Path
) -> None:
    (tmp_path / "conftest.py").write_text(
        "import pathlib, shutil\n"
        "def pytest_runtest_logfinish(nodeid):\n"
        "    shutil.rmtree('report')\n"
        "    pathlib.Path('report').write_text('')\n"
    )
    launch = changed_server(tmp_path, LIES)
    done = suite(
        *("-p", "conftest", FAST, "--launch", launch, "--clock=real", "--report=report"),
        *(f"--baseline={blocked}", "--update-baseline"),
        cwd=tmp_path,
        path=tmp_path,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "OBSERVED  USING wrong" in done.stdout
    assert f"cannot write the baseline {blocked}: Not a directory" in done.stdout
    assert "cannot write the report to report: " in done.stdout
