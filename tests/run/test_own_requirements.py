"""A fork's own requirements and tests, beside those of the suite."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.catalogue import CatalogueError, catalogue, read_catalogue
from reports.results import read_results
from reports.verdicts import Verdict
from tests import ROOT
from tests.command_line import suite
from tests.reference_server.test_dialects import DIALECTS
from tests.servers import changed_server

FOLDER = DIALECTS["antikirra"].with_suffix("")
SLUGS = {"truncate.count", "truncate.deletes-jobs", "truncate.touch", "truncate.unknown-tube"}
TRUNCATES = r"""
    from reference_server import model
    from reference_server.state import JobState
    from reference_server.wire import NOT_FOUND, Command, Reply, RequestReader

    parse = RequestReader.parse

    def parsed(self, line):
        word, _, name = line.partition(b" ")
        return Command("truncate", (name.decode(),)) if word == b"truncate" else parse(self, line)

    def truncate(self, conn, name):
        tube = self._by_name.get(name)
        if tube is None:
            return NOT_FOUND
        jobs = [job for job in self.jobs.values() if job.tube is tube]
        for job in jobs:
            if job.state is JobState.RESERVED:
                self._unreserve(job)
                self._make_ready(job)
            self._delete(conn, job.id)
        return Reply("TRUNCATED", (len(jobs),))

    RequestReader.parse = parsed
    model._METHODS["truncate"] = "_truncate"
    Model._truncate = truncate
"""
REQUIREMENTS = """
section: Mine
source: my own text
requirements:
  {slug}: {{clause: it does so}}
"""


def _run(folder: Path, report: Path, *more: str) -> subprocess.CompletedProcess[str]:
    options = (f"--profile={DIALECTS['antikirra']}", f"--requirements={folder}", "-k", "truncate")
    return suite(*options, f"--report={report}", *more)


def test_own_requirements_are_in_the_same_report(tmp_path: Path) -> None:
    server = changed_server(tmp_path, TRUNCATES)
    done = _run(FOLDER, tmp_path, f"--launch={server}", "-n", "2")
    assert done.returncode == 0, done.stdout
    results = read_results(tmp_path / "results.json")
    own = {rule.slug: rule for rule in results.requirements if rule.section == "Truncate"}
    assert own.keys() == SLUGS
    assert {rule.verdict for rule in own.values()} == {Verdict.PASS}
    assert own["truncate.count"].source == "the README of antikirra/beanstalkd"
    assert {*catalogue()} < {rule.slug for rule in results.requirements}
    assert "truncate.touch" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_an_own_requirement_that_is_not_met(tmp_path: Path) -> None:
    done = _run(FOLDER, tmp_path)
    assert done.returncode == 1
    results = read_results(tmp_path / "results.json")
    (touched,) = (test for test in results.tests if test.requirements == ["truncate.touch"])
    assert touched.verdict is Verdict.FAIL
    assert touched.evidence is not None
    # The command that is shown runs this one test again.
    program, *arguments = shlex.split(touched.evidence.reproduce)
    assert program == "beanstalk-conformance"
    again = subprocess.run(
        [sys.executable, "-m", "conformance", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed" in again.stdout, again.stdout


@pytest.mark.parametrize(
    ("files", "wrong"),
    [
        ({"10-mine.yaml": "a: b"}, "must have section, source and requirements"),
        ({"10-mine.yaml": REQUIREMENTS.format(slug="put.inserted")}, "is in another file, too"),
        (
            {name: REQUIREMENTS.format(slug="mine.one") for name in ("10-a.yaml", "11-b.yaml")},
            "11-b.yaml: mine.one is in another file, too",
        ),
        ({"10-mine.yaml": REQUIREMENTS.format(slug="mine")}, "'mine' is no slug"),
    ],
)
def test_a_folder_that_cannot_be_used(files: dict[str, str], wrong: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(CatalogueError, match=wrong):
        read_catalogue(tmp_path, catalogue())


def test_a_run_refuses_a_folder_without_requirements(tmp_path: Path) -> None:
    done = suite(f"--requirements={tmp_path}")
    assert done.returncode == 4
    assert "has no file of requirements, such as 10-truncate.yaml" in done.stderr


def test_a_test_must_name_a_requirement(tmp_path: Path) -> None:
    (tmp_path / "10-mine.yaml").write_text(REQUIREMENTS.format(slug="mine.one"))
    (tmp_path / "test_mine.py").write_text("def test_it(client): client.send('stats')")
    done = suite(f"--requirements={tmp_path}", "-k", "test_it")
    assert done.returncode == 4
    assert "test_mine.py::test_it names no requirement" in done.stderr


def test_the_source_of_an_own_requirement_is_any_document(tmp_path: Path) -> None:
    (tmp_path / "10-mine.yaml").write_text(REQUIREMENTS.format(slug="mine.one"))
    found = read_catalogue(tmp_path, catalogue())
    assert found["mine.one"].document == "my own text"
    assert len(found) == len(catalogue()) + 1
    (tmp_path / "10-mine.yaml").write_text("section: a\nsource: ''\nrequirements: {a.b: {}}")
    with pytest.raises(CatalogueError, match=r"10-mine.yaml: a.b: a clause is missing"):
        read_catalogue(tmp_path, catalogue())


def test_the_example_of_the_guide_runs_as_printed(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "dialects.md").read_text(encoding="utf-8")
    part = guide.partition("## Requirements of its own")[2].partition("\n## ")[0]
    folder = tmp_path / "antikirra"
    folder.mkdir()
    for language, name in (("yaml", "10-truncate.yaml"), ("python", "test_truncate.py")):
        code = part.partition(f"```{language}\n")[2].partition("```")[0]
        assert name in part
        (folder / name).write_text(code)
    server = changed_server(tmp_path, TRUNCATES)
    done = _run(folder, tmp_path / "report", f"--launch={server}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_an_error_of_an_own_test_has_its_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "10-mine.yaml").write_text(REQUIREMENTS.format(slug="mine.one"))
    (tmp_path / "test_mine.py").write_text(
        "from conformance.catalogue import requirement\n"
        "@requirement('mine.one', 'it does so')\n"
        "def test_it(client):\n"
        "    client.put('text, not bytes')\n"
    )
    done = suite(f"--requirements={tmp_path}", "-k", "test_it")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"Error: .* \(test_mine.py, line 4\)\n", done.stdout), done.stdout
