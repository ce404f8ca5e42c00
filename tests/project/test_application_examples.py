"""The examples for tests of applications, run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reference_server import BeanstalkClock, BeanstalkServer
from tests import ROOT
from tests.project.test_docs import blocks
from tests.project.test_other_projects import PYTEST, run

PAGE = ROOT / "docs" / "testing-applications.md"
EXAMPLES = [block for block in blocks(PAGE, "python") if "def test_" in block]
PROGRAMS = [block for block in blocks(PAGE, "python") if block not in EXAMPLES]


def test_all_examples_pass(tmp_path: Path) -> None:
    for number, example in enumerate(EXAMPLES):
        (tmp_path / f"test_{number}.py").write_text(example)
    done = run(tmp_path, *PYTEST, "-W", "error")
    count = sum(len(re.findall(r"^def test_", example, re.M)) for example in EXAMPLES)
    assert count > 10
    assert f"{count} passed" in done.stdout, done.stdout


def test_the_server_runs_without_pytest(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = PROGRAMS
    exec(compile(program, str(PAGE), "exec"), {})
    assert capsys.readouterr().out.startswith("[] ")


@pytest.mark.parametrize(
    ("fixture", "kind"),
    [("beanstalk_server", BeanstalkServer), ("beanstalk_clock", BeanstalkClock)],
)
def test_the_tables_list_what_there_is(fixture: str, kind: type) -> None:
    table = PAGE.read_text().partition(f"| `{fixture}` | meaning |")[2].partition("\n\n")[0]
    first = "".join(line.split("|")[1] for line in table.splitlines()[2:])
    listed = set(re.findall(r"`(\w+)", first))
    public = {name for name in vars(kind) if not name.startswith("_")}
    assert listed == public - {"stop", "clock", "transcript_tail"}
