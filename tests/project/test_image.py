"""The Docker image, as far as it can be tested without Docker: its command and its context."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from beanstalk_conformance import PACKAGES
from tests import ROOT
from tests.project.test_other_projects import run
from tests.project.test_package import build

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def words(instruction: str) -> list[str]:
    """Return the words of ENTRYPOINT or CMD; the program is that of this Python."""
    found = re.search(rf"^{instruction} (\[.*\])$", DOCKERFILE, re.M)
    assert found is not None
    told = [str(word) for word in json.loads(found[1])]
    return (
        [str(Path(sys.executable).with_name(told[0])), *told[1:]]
        if "ENTRY" in instruction
        else told
    )


def test_it_is_the_server_by_default_and_the_suite_with_arguments(tmp_path: Path) -> None:
    entrypoint, command = words("ENTRYPOINT"), words("CMD")
    (port,) = re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.M)
    assert command[-2:] == ["--port", port]
    command[-1] = "0"
    server = subprocess.Popen([*entrypoint, *command], stdout=subprocess.PIPE, cwd=tmp_path)
    assert server.stdout is not None
    try:
        ready = server.stdout.readline().decode()
        listening = re.search(r"listening on 0\.0\.0\.0:(\d+)$", ready.strip())
        assert listening is not None, ready
        target = f"--target=127.0.0.1:{listening[1]}"
        done = run(tmp_path, *entrypoint, "run", "--quick", "-q", "-k", "peek.", target)
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(20)
        server.stdout.close()
    assert code == 0


def test_the_context_has_all_that_a_wheel_needs(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("needs git's list of the files of a checkout")
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[0] == "*"
    kept = [line.removeprefix("!") for line in lines if line.startswith("!")]
    assert {*PACKAGES, "pyproject.toml"} <= {*kept}
    archive = tmp_path / "context.tar"
    subprocess.run(
        ["git", "archive", "-o", archive, "HEAD", *kept], cwd=ROOT, check=True, capture_output=True
    )
    context = tmp_path / "context"
    context.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", context], check=True)
    wheel = build(context, "wheel", SETUPTOOLS_SCM_PRETEND_VERSION="1.2.3")
    assert wheel.name == "beanstalk_conformance-1.2.3-py3-none-any.whl"
