"""The name of a server, and labels of a run: from the command line into every file."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.run.labels import labels_of, parsed
from reports.results import read_results
from reports.verdicts import Verdict
from reports.write import write_report
from tests.command_line import FAST, refuses, suite
from tests.made import requirement, results


def test_a_run_tells_its_name_and_its_labels_everywhere(tmp_path: Path) -> None:
    told = ["--label", "commit=abc", "--label=job=a = b"]
    done = suite(FAST, "--name", "My Fork/2", *told, f"--report={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "My Fork/2 (profile 1.13): incomplete" in done.stdout
    assert f"report: {tmp_path}/My-Fork-2-report.html" in done.stdout
    found = read_results(tmp_path / "My-Fork-2-results.json")
    assert found.target.name == "My Fork/2"
    assert found.labels.items() >= {
        ("hostname", platform.node()),
        ("commit", "abc"),
        ("job", "a = b"),
    }
    assert {"os", "platform"} <= set(found.labels)
    names = {path.name for path in tmp_path.iterdir()}
    assert all(name.startswith("My-Fork-2-") for name in names), names
    page = (tmp_path / "My-Fork-2-report.html").read_text(encoding="utf-8")
    assert "<title>My Fork/2 incomplete" in page
    assert "commit: abc" in page
    badge = json.loads((tmp_path / "My-Fork-2-badge.json").read_text())
    assert badge["label"] == "My Fork/2: beanstalk 1.13"


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["x"], "--label takes KEY=VALUE, not 'x'"),
        (["=x"], "--label takes KEY=VALUE, not '=x'"),
        (["a=1", "a=2"], "--label is given twice for 'a'"),
    ],
)
def test_what_is_no_label(labels: list[str], said: str) -> None:
    with pytest.raises(pytest.UsageError, match=said):
        parsed(labels)


def test_a_label_that_is_none_ends_the_run() -> None:
    refuses(suite(FAST, "--label", "x"), "--label takes KEY=VALUE, not 'x'")


def test_the_commit_is_that_of_the_checkout_in_which_the_program_is(tmp_path: Path) -> None:
    server = tmp_path / "src" / "server"
    server.parent.mkdir()
    server.touch(0o755)
    command = f"env A=1 {server} -p {{port}}"
    assert "commit" not in labels_of({}, command)
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    commit = [*name, "commit", "-q", "--no-gpg-sign", "-m", "x"]
    for words in (["init", "-q"], ["add", "."], commit):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    found = labels_of({}, command)["commit"]
    assert len(found) == 40
    server.write_text("changed")
    assert labels_of({}, command)["commit"] == f"{found}-dirty"
    assert labels_of({"commit": "v2"}, command)["commit"] == "v2"
    assert "commit" not in labels_of({}, None)


def _checkout(folder: Path, *files: str) -> str:
    """Make a checkout of executable files; return its commit."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch(0o755)
    commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--no-gpg-sign"]
    for words in (["init", "-q"], ["add", "."], [*commit, "-m", str(folder)]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    asked = ["git", "rev-parse", "HEAD"]
    return subprocess.run(asked, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.parametrize(
    "command",
    [
        "{tools}/python3 {server}/server.py {config}/a.conf -p {{port}}",
        "{tools}/python3.11 -u {server}/server.py",
        "{tools}/node --inspect {server}/server.py",
        "env A=1 {tools}/node {server}/server.py",
        "{tools}/sh -c 'exec {server}/server.py -p {{port}}'",
        "sh -ec 'cd / && {tools}/python3 {server}/server.py {config}/a.conf'",
        "{server}/server.py {tools}/node",
    ],
)
def test_the_commit_is_not_that_of_an_interpreter(tmp_path: Path, command: str) -> None:
    tools, server, config = (tmp_path / name for name in ("tools", "server", "config"))
    _checkout(tools, "python3", "python3.11", "node", "sh")
    _checkout(config, "a.conf")
    commit = _checkout(server, "server.py").strip()
    line = command.format(tools=tools, server=server, config=config)
    assert labels_of({}, line)["commit"] == commit
    shutil.rmtree(server / ".git")
    assert "commit" not in labels_of({}, line)


def test_the_links_of_a_named_report_lead_to_its_page(tmp_path: Path) -> None:
    made = results(requirement("put.a", Verdict.FAIL))
    target = made.target.model_copy(update={"title": "../a b"})
    write_report(made.model_copy(update={"target": target}), tmp_path)
    assert "(a-b-report.html#put.a)" in (tmp_path / "a-b-report.md").read_text()
    summary = (tmp_path / "a-b-summary.md").read_text()
    assert "put.a (must)" in summary
    assert "](" not in summary
