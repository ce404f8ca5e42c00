"""The gate in CI: the steps of the action, run as a runner does, and reports of whole runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest
import yaml

from reports.results import Results, read_results, schema
from reports.verdicts import Verdict
from tests.servers import REFERENCE_COMMAND
from tests.test_plugin import refuses, suite

ROOT = Path(__file__).parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
FAULT = f"{REFERENCE_COMMAND} --fault a-peek-counts-as-a-reservation"


def job(folder: Path, **inputs: str) -> tuple[bool, str]:
    """Runs the action in a folder; gives whether the job is green, and its summary."""
    known = {name: str(entry["default"]) for name, entry in ACTION["inputs"].items()}
    assert set(inputs) <= set(known)
    tools = folder / "tools"
    (tools / "beanstalk-conformance").mkdir(parents=True, exist_ok=True)
    here = tools / "beanstalk-conformance" / "bin"
    if not here.exists():
        here.symlink_to(Path(sys.executable).parent)
    summary = folder / "summary.md"
    runner = {
        "RUNNER_TEMP": str(tools),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(summary),
        "CI": "true",
    }
    green = True
    for step in ACTION["runs"]["steps"]:
        # What is installed is what is being tested; uploading is the runner's own.
        if "uses" in step or step["name"] == "Install the suite":
            continue
        if green or step.get("if") == "always()":
            done = _run(step, known | inputs, runner, folder)
            green = green and done.returncode == 0
    return green, summary.read_text(encoding="utf-8") if summary.exists() else ""


def _run(
    step: Mapping[str, object], inputs: Mapping[str, str], runner: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **runner}
    named = step.get("env", {})
    assert isinstance(named, Mapping)
    for name, value in named.items():
        environment[name] = value.replace("${{ inputs.", "").replace(" }}", "")
        environment[name] = inputs[environment[name]]
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", str(step["run"])],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_fork_turns_red_by_a_fault_green_by_a_baseline_and_red_when_it_is_mended(
    tmp_path: Path,
) -> None:
    arguments = "-k peek. --fuzz-time=0.5"
    green, summary = job(tmp_path, launch=REFERENCE_COMMAND, arguments=arguments)
    assert green
    assert "incomplete" in summary
    assert "Deviations" not in summary

    green, summary = job(tmp_path, launch=FAULT, arguments=arguments)
    assert not green
    assert "- ❌ [peek.changes-nothing](report.html#peek.changes-nothing) (must)" in summary

    baseline = tmp_path / "known.yaml"
    baseline.write_text("peek.changes-nothing: {verdict: fail, reason: issue 17}\n")
    known = {"baseline": baseline.name, "arguments": arguments}
    assert job(tmp_path, launch=FAULT, **known)[0]
    green, summary = job(tmp_path, launch=REFERENCE_COMMAND, **known)
    assert not green
    assert "**Known deviations that were not found any more**" in summary


def test_the_gate_does_not_open_for_nothing(tmp_path: Path) -> None:
    assert not job(tmp_path)[0]
    assert not job(tmp_path, launch=REFERENCE_COMMAND, target="127.0.0.1:1")[0]


def test_every_input_of_the_action_is_used_and_told() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    for name, entry in ACTION["inputs"].items():
        assert f"inputs.{name} " in text
        assert entry["description"]


# ---------------------------------------------------------------- reports of runs


def told(results: Results) -> object:
    """What must not depend on how the tests were spread."""
    requirements = [(r.slug, r.verdict, r.tests) for r in results.requirements]
    tests = [(test.id, test.verdict, test.requirements) for test in results.tests]
    return requirements, tests, results.verdict, results.gone, results.target


def test_a_report_is_the_same_from_one_process_and_from_four(tmp_path: Path) -> None:
    chosen = [f"--launch={FAULT}", "-k", "peek or put or stats-job or conversation"]
    alone = suite(*chosen, f"--report={tmp_path}/alone", "--examples=3")
    spread = suite(*chosen, f"--report={tmp_path}/spread", "--examples=3", "-n", "4")
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
    found = read_results(tmp_path / "results.json")
    known = next(r for r in found.requirements if r.slug == "peek.changes-nothing")
    assert (known.verdict, known.known and known.known.reason) == (Verdict.FAIL, "issue 17")
    shown = next(test.evidence for test in found.tests if test.evidence)
    assert [line[:2] for line in shown.transcript].count("> ") == 1
    assert "--launch" in shown.reproduce
    assert "(must): `issue 17`" in (tmp_path / "report.md").read_text()


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
