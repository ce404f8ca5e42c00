"""Fuzzing that goes on: the recipe for GitHub does what it says, and other engines can drive it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from conformance.oracle.violation import Violation
from fuzz import atheris_target
from fuzz.atheris_target import LAUNCH, TestOneInput
from tests import ROOT
from tests.servers import REFERENCE_COMMAND

PAGE = ROOT / "docs" / "continuous-fuzzing.md"
FAULT = "use-names-the-tube-used-before"
"""A fault that the very first case shows."""
GH = """#!/bin/sh
case "$1 $2" in
"issue list") [ ! -e issues ] || cat issues ;;
"issue create") echo "$4" >> issues; [ -s "$6" ] ;;
esac
"""


def workflow() -> dict[str, Any]:
    text = PAGE.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
    # In YAML 1.1, the key "on" is a truth.
    content: dict[str, Any] = yaml.safe_load(text)
    return content


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    """Make a machine on which the steps of the workflow can run; return its environment."""
    for name in ("make", "pip"):
        executable(tmp_path / "bin" / name, "#!/bin/sh\n")
    executable(tmp_path / "bin" / "gh", GH)
    # The night is long, and the machine large; here, the last of two options counts.
    suite = f'#!/bin/sh\nexec "{sys.executable}" -m conformance "$@" --jobs 1 --max-findings 1\n'
    executable(tmp_path / "bin" / "beanstalk-conformance", suite)
    command = REFERENCE_COMMAND.partition(" --host")[0]
    server = f'#!/bin/sh\nexec {command} --fault {FAULT} --port "$2"\n'
    executable(tmp_path / "my-server", server)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(PAGE.parent.parent)}


def run_steps(folder: Path, environment: dict[str, str]) -> str:
    """Run the workflow as GitHub does; return what it says."""
    content = workflow()
    failed, said = False, ""
    night = {name: str(value) for name, value in content["env"].items()}
    for step in content["jobs"]["fuzz"]["steps"]:
        condition = step.get("if", "success()")
        if "run" not in step or {"success()": failed, "failure()": not failed}.get(condition):
            continue
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]],
            cwd=folder,
            env={**environment, **night, "SECONDS_A_NIGHT": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        said += done.stdout + done.stderr
        failed = failed or done.returncode != 0
    return said


def test_a_night_on_github(tmp_path: Path, runner: dict[str, str]) -> None:
    said = run_steps(tmp_path, runner)
    assert (tmp_path / "fuzz-report" / "fuzz.html").exists(), said
    assert list((tmp_path / "corpus").iterdir())
    found = sorted(path.parent.name for path in (tmp_path / "findings").glob("*/README.md"))
    assert found, said
    assert (tmp_path / "issues").read_text().splitlines() == [f"fuzz: {name}" for name in found]
    steps = workflow()["jobs"]["fuzz"]["steps"]
    (files,) = [step["run"] for step in steps if "gh issue" in step.get("run", "")]
    subprocess.run(["bash", "-e", "-c", files], cwd=tmp_path, env=runner, check=True)
    assert len((tmp_path / "issues").read_text().splitlines()) == len(found)


def test_the_corpus_is_kept_whatever_a_night_finds() -> None:
    steps = workflow()["jobs"]["fuzz"]["steps"]
    restore, save = (
        next(step for step in steps if step.get("uses", "").startswith(f"actions/cache/{verb}@"))
        for verb in ("restore", "save")
    )
    assert save["if"] == "always()"
    assert save["with"]["path"] == restore["with"]["path"]
    assert restore["with"]["key"].startswith(restore["with"]["restore-keys"])
    assert save["with"]["key"] == restore["with"]["key"]


def test_engines_call_one_function_with_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    atheris_target._judge.cache_clear()
    chance = Random(5)
    for _ in range(3):
        TestOneInput(chance.randbytes(200))
    atheris_target._judge.cache_clear()
    monkeypatch.setenv(LAUNCH, f"{REFERENCE_COMMAND} --fault an-empty-line-is-malformed")

    def many() -> None:
        for _ in range(1000):
            TestOneInput(chance.randbytes(400))

    with pytest.raises(Violation):
        many()
    atheris_target._judge.cache_clear()
