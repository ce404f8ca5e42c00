"""The view of a campaign: live on a terminal, and as a page of plots."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from conformance.usage import USAGE
from fuzz.cli import main
from fuzz.history import MOST, CampaignHistory
from fuzz.hostile import Progress
from fuzz.live import LiveView, table
from fuzz.progress_updates import ProgressUpdate
from reports.fuzzing import CampaignMoment, fuzz_page, over_time
from reports.plots import BOX
from reports.results import read_results
from reports.verdicts import Verdict
from reports.write import write_report
from tests import made
from tests.command_line import suite
from tests.servers import changed_server

NEWS = (
    ProgressUpdate(0, Progress(1000, 3000, 0.1), shapes=7, found=(("a", True),)),
    ProgressUpdate(1, Progress(500, 900, 0.1), shapes=9, found=(("a", True), ("b", False))),
)


def shown(updates: tuple[ProgressUpdate, ...], history: CampaignHistory, seconds: float) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(table(updates, history, seconds))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_each_worker_and_all_of_them() -> None:
    history = CampaignHistory()
    history.note(NEWS, 2.0)
    history.note(NEWS, 10.0)
    told = shown(NEWS, history, 10.0)
    rows = [re.findall(r"[\w,]+", row) for row in told.splitlines()]
    assert ["1", "1,000", "100", "7", "1"] in rows
    assert ["2", "500", "50", "9", "2"] in rows
    assert ["all", "1,500", "150", "9", "2"] in rows
    assert "last new shapes: 8 s ago, findings: 8 s ago" in told
    assert "edges" not in told


def test_edges_where_there_are_any() -> None:
    told = shown((ProgressUpdate(0, edges=12),), CampaignHistory(), 1.0)
    assert "edges: none yet" in told


def test_a_history_keeps_so_much_and_what_was_new() -> None:
    history = CampaignHistory()
    for second in range(5000):
        updates = ProgressUpdate(0, Progress(second * 10), shapes=second // 1000)
        history.note([updates], float(second))
    assert len(history.moments) <= MOST
    assert history.moments[0].seconds == 0
    assert history.moments[-1].seconds > 4900
    assert history.since("shapes") == 4000
    assert history.since("findings") is None
    assert [moment.seconds for moment in history.moments] == sorted(
        moment.seconds for moment in history.moments
    )


@pytest.mark.parametrize("is_terminal", [True, False])
def test_only_a_terminal_is_drawn_on(is_terminal: bool) -> None:
    file = io.StringIO()
    with LiveView(Console(file=file, force_terminal=is_terminal, width=100)) as view:
        view._shown = -1.0
        view.show(NEWS)
        view.end(NEWS)
    assert ("all" in file.getvalue()) == is_terminal
    assert view.history.moments[-1].cases == 1500


def test_counts_are_drawn_from_zero() -> None:
    moments = [CampaignMoment(0.0), CampaignMoment(5.0, 10), CampaignMoment(10.0, 40)]
    line = over_time("Cases", moments, [0, 10, 40])
    assert [point.x for point in line.points] == [BOX.left, (BOX.left + BOX.right) / 2, BOX.right]
    assert [point.y for point in line.points][::2] == [BOX.bottom, BOX.top]
    assert line.summary == "40 after 10 s."


def test_a_page_shows_what_was_counted() -> None:
    page = fuzz_page(
        "<b>", [CampaignMoment(0.0), CampaignMoment(5.0, 10, 3)], ["<script>"], ["<i>more memory"]
    )
    assert "&lt;i&gt;more memory" in page
    assert "<h1>&lt;b&gt;</h1>" in page
    assert "&lt;script&gt;" in page
    for title, is_there in (
        ("Cases", True),
        ("Shapes", True),
        ("Findings", True),
        ("Edges", False),
    ):
        assert (f"<strong>{title}" in page) == is_there
    assert "before there was anything to report" in fuzz_page("x", [CampaignMoment(0.0)], [], [])


def test_a_campaign_writes_its_page(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folders = ["--findings", str(tmp_path / "found"), "--report", str(tmp_path / "out")]
    assert main(["--time", "1", "--coverage", "off", *folders]) == 0
    said = capfd.readouterr().out
    assert f"report: {tmp_path / 'out' / 'fuzz.html'}" in said
    assert f"report: {tmp_path / 'out' / 'report.html'}" in said
    page = (tmp_path / "out" / "fuzz.html").read_text(encoding="utf-8")
    assert "Fuzzing reference server" in page
    assert "<polyline" in page
    results = read_results(tmp_path / "out" / "results.json")
    assert [(test.id, test.verdict) for test in results.tests] == [
        ("fuzz::protocol.any-bytes", Verdict.PASS)
    ]


def test_findings_are_tests_in_the_report_of_a_run_on_the_same_server(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server = changed_server(tmp_path, "Model._touch = lambda *_: Reply('TUCHED')")
    report = tmp_path / "out"
    where = [f"--launch={server}", "--clock=real"]
    suite(*where, f"--report={report}", "-k", "put.inserted", cwd=tmp_path)
    folders = ["--findings", str(tmp_path / "found"), "--report", str(report)]
    assert main(["--time", "20", "--max-findings", "1", "--coverage", "off", *where, *folders]) == 1
    results = read_results(report / "results.json")
    (found,) = [test for test in results.tests if test.id.startswith("fuzz::")]
    assert found.verdict is Verdict.FAIL
    assert found.evidence is not None
    assert "TUCHED" in found.evidence.observed
    assert f"replay {tmp_path / 'found'}" in found.evidence.reproduce
    assert (report / found.evidence.kept).is_file()
    verdicts = {one.slug: one.verdict for one in results.requirements}
    assert verdicts[found.requirements[0]] is Verdict.FAIL
    assert verdicts["put.inserted"] is Verdict.PASS


def test_a_report_of_another_server_is_not_added_to(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "out"
    write_report(made.results(made.requirement("put.a")), report)
    before = (report / "results.json").read_bytes()
    folders = ["--findings", str(tmp_path / "found"), "--report", str(report)]
    assert main(["--time", "1", "--coverage", "off", *folders]) == USAGE
    assert "results.json is of beanstalkd 1.12" in capfd.readouterr().err
    assert (report / "results.json").read_bytes() == before
