"""The gate in CI: the steps of the action, run as a runner does, and reports of whole runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest
import yaml

from reports.results import Results, read_results, schema
from reports.verdicts import Verdict
from tests import ROOT
from tests.command_line import command, refuses, suite
from tests.servers import REFERENCE_COMMAND

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
FAULT = f"{REFERENCE_COMMAND} --fault a-peek-counts-as-a-reservation"


class Job(NamedTuple):
    """A job as it is seen: its colour, its summary, what it says, and what it uploads."""

    green: bool
    summary: str
    said: str
    uploaded: Mapping[str, str]


def job(folder: Path, **inputs: str) -> Job:
    """Run the action in a folder, as one job of a matrix."""
    given = {name.replace("_", "-"): value for name, value in inputs.items()}
    known = {name: str(entry["default"]) for name, entry in ACTION["inputs"].items()}
    assert set(given) <= set(known)
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    if not (tools / "beanstalk-conformance").exists():
        (tools / "beanstalk-conformance").symlink_to(sys.prefix)
    summary, outputs = folder / "summary.md", folder / "outputs"
    runner = {
        "RUNNER_TEMP": str(tools),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_OUTPUT": str(outputs),
        "GITHUB_SHA": "0123abcd",
        "CI": "true",
    }
    context = {f"inputs.{name}": value for name, value in (known | given).items()}
    context |= {"github.job": "test", "strategy.job-index": "3", "strategy.job-total": "8"}
    for file in (summary, outputs):
        file.unlink(missing_ok=True)
    green, said = True, ""
    for step in ACTION["runs"]["steps"]:
        # What is installed is what is being tested; uploading is the runner's own.
        if "uses" in step or step["name"] == "Install the suite":
            continue
        if green or step.get("if") == "always()":
            done = _run(step, context, runner, folder)
            green, said = green and done.returncode == 0, said + done.stdout + done.stderr
            if "id" in step:
                told = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
                context |= {f"steps.{step['id']}.outputs.{key}": told[key] for key in told}
    upload = {key: _filled(str(value), context) for key, value in _step("Upload")["with"].items()}
    return Job(green, summary.read_text("utf-8") if summary.exists() else "", said, upload)


def _step(name: str) -> Any:
    return next(step for step in ACTION["runs"]["steps"] if step["name"].startswith(name))


def _filled(text: str, context: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: context[match[1]], text)


def _run(
    step: Mapping[str, Any], context: Mapping[str, str], runner: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    named = {name: _filled(value, context) for name, value in step.get("env", {}).items()}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", str(step["run"])],
        env={**os.environ, **runner, **named},
        cwd=folder / _filled(step.get("working-directory", "."), context),
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_fork_turns_red_by_a_fault_green_by_a_baseline_and_red_when_it_is_mended(
    tmp_path: Path,
) -> None:
    arguments = "-k 'peek. and changes' --fuzz-time=0.5"
    done = job(tmp_path, launch=REFERENCE_COMMAND, arguments=arguments)
    assert done.green
    assert "incomplete" in done.summary
    assert "Deviations" not in done.summary
    assert "::" not in done.said

    done = job(tmp_path, launch=FAULT, arguments=arguments, name="my fork")
    assert not done.green
    assert "- ❌ peek.changes-nothing (must)" in done.summary
    assert "`my fork` does not conform" in done.summary
    assert "](" not in done.summary
    (line,) = (line for line in done.said.splitlines() if line.startswith("::"))
    assert line.startswith("::error title=fail%3A peek.changes-nothing::")
    assert (
        read_results(tmp_path / "beanstalk-conformance" / "my-fork-results.json").labels["commit"]
        == "0123abcd"
    )

    (tmp_path / "sub").mkdir()
    baseline = tmp_path / "sub" / "known.yaml"
    baseline.write_text("# of ours\npeek.changes-nothing: {verdict: fail, reason: issue 17}\n")
    known = {"baseline": baseline.name, "arguments": arguments, "working_directory": "sub"}
    assert job(tmp_path, launch=FAULT, **known).green
    done = job(tmp_path, launch=REFERENCE_COMMAND, **known)
    assert not done.green
    assert "**Known deviations that were not found any more**" in done.summary
    assert "::error file=sub/known.yaml,line=2,title=gone%3A peek.changes-nothing::" in done.said


@pytest.mark.parametrize(
    ("report", "name"),
    [
        ("beanstalk-conformance", "beanstalk-conformance-test-3"),
        ("out/all of it", "all of it-test-3"),
        ("out/a:b?/", "a-b--test-3"),
        ("../up", "up-test-3"),
    ],
)
def test_each_job_of_a_matrix_has_an_artifact_of_its_own(
    tmp_path: Path, report: str, name: str
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    uploaded = job(tmp_path / "a", report=report, working_directory="b").uploaded
    assert uploaded["name"] == name
    assert uploaded["path"] == str((tmp_path / "a" / "b" / report).resolve())
    given = job(tmp_path / "a", report=report, working_directory="b", artifact="mine/1")
    assert given.uploaded["name"] == "mine-1"


def test_the_python_of_the_suite_is_nobody_elses() -> None:
    assert _step("Set up Python")["with"]["update-environment"] is False
    assert "steps.python.outputs.python-path" in _step("Install")["env"]["PYTHON"]


def test_the_gate_does_not_open_for_nothing(tmp_path: Path) -> None:
    assert not job(tmp_path).green
    assert not job(tmp_path, launch=REFERENCE_COMMAND, target="127.0.0.1:1").green
    unclosed = job(tmp_path, launch=REFERENCE_COMMAND, arguments="-k 'peek")
    assert not unclosed.green
    assert "quote" in unclosed.said


def test_every_input_of_the_action_is_used_and_told() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    guide = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    for name, entry in ACTION["inputs"].items():
        assert f"inputs.{name} " in text
        assert name in guide
        assert entry["description"]


# ---------------------------------------------------------------- reports of runs


def told(results: Results) -> object:
    """What must not depend on how the tests were spread."""
    requirements = [(r.slug, r.verdict, r.tests) for r in results.requirements]
    tests = [(test.id, test.verdict, test.requirements) for test in results.tests]
    return requirements, tests, results.verdict, results.gone, results.target


@pytest.mark.campaign
def test_a_report_is_the_same_from_one_process_and_from_two(tmp_path: Path) -> None:
    chosen = [f"--launch={FAULT}", "-k", "peek or conversation"]
    alone = suite(*chosen, f"--report={tmp_path}/alone", "--examples=3")
    spread = suite(*chosen, f"--report={tmp_path}/spread", "--examples=3", "-n", "2")
    assert alone.returncode == spread.returncode == 1, alone.stdout[-3000:] + alone.stderr
    found = [read_results(tmp_path / name / "results.json") for name in ("alone", "spread")]
    assert told(found[0]) == told(found[1])
    assert found[0].verdict.must_broken > 0
    assert found[0].timings.latency is not None
    assert f"report: {tmp_path}/alone/report.html" in alone.stdout
    data = json.loads((tmp_path / "alone" / "results.json").read_text())
    jsonschema.Draft202012Validator(schema()).validate(data)


def test_a_report_has_the_evidence_and_what_the_baseline_says(tmp_path: Path) -> None:
    baseline = tmp_path / "known.yaml"
    baseline.write_text("peek.changes-nothing: {verdict: fail, reason: issue 17, link: 'x:17'}\n")
    done = suite(
        f"--launch={FAULT}", "-k", "peek.", f"--report={tmp_path}", f"--baseline={baseline}"
    )
    assert done.returncode == 0, done.stdout
    assert "conforms, except for 1 known deviation\n" in done.stdout
    found = read_results(tmp_path / "results.json")
    known = next(r for r in found.requirements if r.slug == "peek.changes-nothing")
    assert (known.verdict, known.known and known.known.reason) == (Verdict.FAIL, "issue 17")
    shown = next(test.evidence for test in found.tests if test.evidence)
    assert [line[:2] for line in shown.transcript].count("> ") == 1
    assert "--launch" in shown.reproduce
    assert "(must): `issue 17`" in (tmp_path / "report.md").read_text()
    assert shown.kept.startswith("transcripts/conformance.tests.test_")
    assert shown.kept.endswith(".test_peek_changes_nothing.transcript")
    assert f'href="{shown.kept}"' in (tmp_path / "report.html").read_text("utf-8")
    checked = command("check", str(tmp_path / shown.kept))
    assert (checked.returncode, checked.stderr) == (1, "")
    assert "OBSERVED  OK with reserves: 1\n" in checked.stdout
    elsewhere = tmp_path / "elsewhere"
    command("report", str(tmp_path / "results.json"), "-o", str(elsewhere))
    assert (elsewhere / shown.kept).read_bytes() == (tmp_path / shown.kept).read_bytes()
    # Where it is not, no link leads to it.
    (tmp_path / shown.kept).unlink()
    command("report", str(tmp_path / "results.json"), "-o", str(tmp_path / "again"))
    assert "the whole transcript" not in (tmp_path / "again" / "report.html").read_text("utf-8")


def test_a_report_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    refuses(suite(f"--report={file}"), f"cannot write a report to {file}: File exists")


@pytest.mark.parametrize("option", ["--beanstalk-report", "--beanstalk-baseline"])
def test_an_option_whose_value_pytest_takes_for_a_folder(tmp_path: Path, option: str) -> None:
    value = tmp_path if option == "--beanstalk-report" else tmp_path / "known.yaml"
    (tmp_path / "known.yaml").touch()
    done = suite(option, str(value), "-k", "nothing", cwd=ROOT / "reports")
    refuses(done, f"write {option}={value} in one word")
