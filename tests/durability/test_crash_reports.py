"""The findings of crashes, in results and the reports that are made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.durability.catalogue import requirements
from conformance.durability.crashes import CrashKind
from conformance.durability.findings import CrashCase, CrashFinding
from conformance.durability.judging import JUDGED, JobDifference
from conformance.durability.report import DAMAGES, KILLS, STATES, UPGRADES, DurabilityReport
from conformance.durability.results import PREFIX, outcome_of
from conformance.durability.upgrades import UPGRADE
from conformance.run import campaign_results
from conformance.run.campaign_results import nothing_yet
from conformance.run.identity import identified
from conformance.run.options import Options
from conformance.target.builtin import BuiltIn
from conformance.usage import USAGE
from reference_server.profiles import NEWEST
from reports.html import report_page
from reports.junit import junit
from reports.markdown import report_text
from reports.results import CrashPart, KnownRecord, RequirementRecord, Results, read_results
from reports.verdicts import Verdict
from reports.write import write_report
from tests import made
from tests.servers import BEANSTALKD, needs_beanstalkd

LOST = JobDifference("persistence.put", "a job is lost, after put", "a ready job", "NOT_FOUND", "a")
LIES = JobDifference("durability.whole-jobs", "another body, after put", "body: x", "body: y", "a")


def finding(difference: JobDifference, *talk: str) -> CrashFinding:
    case = CrashCase(
        difference, CrashKind.KILLED, (0, 7), "killed: <b>", lambda: [*talk], "state", {}, "lives"
    )
    found = CrashFinding(difference.requirement, difference.cause, case)
    found.states[CrashKind.KILLED] = 3
    return found


def report(
    *differences: JobDifference, parts: tuple[str, ...] = (STATES, DAMAGES)
) -> DurabilityReport:
    told = DurabilityReport("server", NEWEST, "beanstalk-conformance durability --launch server")
    told.parts = [
        CrashPart(name=f"part {kind}", kind=kind, tried=1234, said="all killed", rate=56.7)
        for kind in parts
    ]
    told.findings = [finding(one, "A > put 0 0 9 1\\r\\nx\\r\\n") for one in differences]
    return told


@pytest.fixture
def empty() -> Results:
    target = BuiltIn(NEWEST)
    try:
        options = Options(None, None, "auto", name="mine")
        return nothing_yet(identified(target, options), options)
    finally:
        target.close()


def added(run: Results, found: DurabilityReport, seconds: float) -> Results:
    return campaign_results.added(run, outcome_of(found, seconds))


def verdicts(results: Results) -> dict[str, Verdict]:
    return {one.slug: one.verdict for one in results.requirements}


def test_what_crashes_show_are_verdicts_of_requirements(empty: Results) -> None:
    told = added(empty, report(LOST, LIES), 9.0)
    found = verdicts(told)
    assert found["persistence.put"] is Verdict.NON_STRICT
    assert found["durability.whole-jobs"] is Verdict.FAIL
    assert {found[slug] for slug in (*JUDGED, "durability.damaged-files")} - {Verdict.PASS} == {
        *(Verdict.NON_STRICT, Verdict.FAIL),
    }
    assert found["put.body-limit"] is Verdict.NOT_RUN
    assert {*found} == {*requirements()} - {UPGRADE}
    assert (told.verdict.word, told.verdict.must_broken, told.verdict.non_strict) == (
        *("does not conform", 1, 1),
    )
    assert "1,234 states of the disk, 1,234 damages" in told.verdict.sentence
    assert (told.run.exit_code, told.run.seconds) == (1, 9.0)
    assert added(empty, report(LOST), 9.0).run.exit_code == 0


def test_what_was_not_tried_is_not_passed(empty: Results) -> None:
    killed = report(parts=(KILLS,))
    killed.untestable[STATES] = "lives: strace is not installed"
    found = {one.slug: one for one in added(empty, killed, 1.0).requirements}
    assert found["durability.damaged-files"].verdict is Verdict.NOT_RUN
    assert {found[slug].verdict for slug in JUDGED} == {Verdict.NOT_TESTABLE}
    assert found["persistence.put"].reason == "lives: strace is not installed"


def test_an_upgrade_is_judged_where_an_older_version_was_named(empty: Results) -> None:
    assert UPGRADE not in verdicts(added(empty, report(), 1.0))
    assert verdicts(added(empty, report(parts=(UPGRADES,)), 1.0))[UPGRADE] is Verdict.PASS
    unable = report()
    unable.untestable[UPGRADES] = "the older version does not start"
    assert verdicts(added(empty, unable, 1.0))[UPGRADE] is Verdict.NOT_TESTABLE


def run_with(*changed: RequirementRecord) -> Results:
    """Return the results of a run of the suite, complete but for what crashes show."""
    return made.results(*changed, made.requirement("put.a"))


def test_they_are_added_to_those_of_a_run_and_replace_what_was_added_before() -> None:
    run = run_with(made.requirement("persistence.put", level="de-facto"))
    once = added(run, report(LOST, LIES), 1.0)
    assert verdicts(once)["persistence.put"] is Verdict.NON_STRICT
    assert {test.id for test in run.tests} <= {test.id for test in once.tests}
    fixed = added(once, report(), 1.0)
    assert verdicts(fixed)["persistence.put"] is verdicts(fixed)["put.a"] is Verdict.PASS
    assert verdicts(fixed)["durability.whole-jobs"] is Verdict.PASS
    assert fixed.verdict.word == "conforms"
    assert len(fixed.tests) == 2 + len(JUDGED) + 1
    assert added(run, report(parts=(STATES,)), 1.0).verdict.word == "incomplete"


def test_what_the_run_has_found_stays() -> None:
    run = run_with(made.requirement("persistence.put", Verdict.NON_STRICT, level="de-facto"))
    assert verdicts(added(run, report(), 1.0))["persistence.put"] is Verdict.NON_STRICT


def test_what_the_baseline_of_the_run_lists_is_known() -> None:
    known = KnownRecord(reason="as ever", link="")
    listed = made.requirement("persistence.put", Verdict.NON_STRICT, level="de-facto", known=known)
    told = added(run_with(listed), report(LOST, LIES), 1.0)
    assert {test.id.partition(":: ")[0]: test.known for test in told.tests if test.evidence} == {
        f"{PREFIX}persistence.put: a job is lost, after put": True,
        f"{PREFIX}durability.whole-jobs: another body, after put": False,
        "conformance.tests.test_use::test_persistence.put": True,
    }


def test_all_reports_show_them(empty: Results) -> None:
    told = report(LIES)
    told.missing = ["damaged files: 4,188 left out: --damages"]
    results = added(empty, told, 1.0)
    page, text = report_page(results), report_text(results)
    for shown in ('id="crashes"', "1,234 states of the disk", "<td>57</td>", "all killed"):
        assert shown in page
    assert "  A &gt; put 0 0 9 1\\r\\nx\\r\\n" in page
    assert "&gt; killed: &lt;b&gt;" in page
    assert "beanstalk-conformance durability --launch server" in page
    assert "**Crashes**: 1,234 states of the disk, 1,234 damages tried" in text
    assert "- not tried: `damaged files: 4,188 left out: --damages`" in text
    assert "another body, after put (3 killed)" in text
    assert "EXPECTED  a: body: x" in junit(results)
    assert "4,188 left out" in page
    assert 'id="crashes"' not in report_page(empty)


def test_results_with_crashes_are_read_as_they_were_written(tmp_path: Path, empty: Results) -> None:
    results = added(empty, report(LOST), 1.0)
    write_report(results, tmp_path)
    assert read_results(tmp_path / "mine-results.json") == results


@needs_beanstalkd
def test_results_of_another_server_are_not_added_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_report(made.results(made.requirement("put.a")), tmp_path / "report")
    old = (tmp_path / "report" / "results.json").read_bytes()
    other = tmp_path / "other"
    other.write_text(f'#!/bin/sh\nexec {BEANSTALKD} "$@"\n')
    other.chmod(0o755)
    words = ["--launch", f"{other} -l {{host}} -p {{port}} -b {{binlog}}"]
    words += ["--folder", str(tmp_path / "crashes"), "--report", str(tmp_path / "report")]
    assert main(["durability", *words]) == USAGE
    assert "results.json is of beanstalkd 1.12 (profile 1.12), not of other" in (
        capsys.readouterr().err
    )
    assert (tmp_path / "report" / "results.json").read_bytes() == old
