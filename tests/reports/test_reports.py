"""Reports from results: each kind of file, whatever is in the results."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from conformance.__main__ import main
from conformance.run.report_writer import measured
from reports.annotations import annotated
from reports.badge import endpoint, svg
from reports.comparison import ResultsComparison, ResultsDifference
from reports.files import replace
from reports.grouping import grouped
from reports.html import GLYPHS, MEANINGS, overview_image, report_page
from reports.junit import junit
from reports.markdown import comparison_text, difference_text, report_text
from reports.plots import BOX, duration, histogram
from reports.results import (
    CauseRecord,
    KnownRecord,
    RequirementRecord,
    Results,
    ResultsError,
    Timings,
    read_results,
    schema,
)
from reports.verdicts import LEVELS, Verdict
from reports.words import by_numbers
from reports.write import write_report
from tests import ROOT
from tests.made import LATENCY, case, evidence, requirement, results

SCHEMA = ROOT / "reports" / "results.schema.json"
NASTY = "`a` ``b`` | <script>alert(1)</script>\n# c\x1b[31m\x00"


def failing(*slugs: str) -> list[RequirementRecord]:
    return [requirement(slug, Verdict.FAIL) for slug in slugs]


# ---------------------------------------------------------------- results.json


def test_the_schema_is_that_of_the_code() -> None:
    assert json.loads(SCHEMA.read_text()) == schema(), "python -m reports.results"


def test_the_levels_and_verdicts_are_those_of_the_suite() -> None:
    level = schema()["$defs"]["RequirementRecord"]["properties"]["level"]["enum"]
    assert tuple(level) == LEVELS
    assert list(GLYPHS) == list(MEANINGS) == list(Verdict)


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    made = results(*failing("put.a"), requirement("put.b", reason="snowman ☃ \\x00"))
    file = tmp_path / "results.json"
    file.write_text(made.encode(), encoding="utf-8")
    assert read_results(file) == made


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the file: Invalid JSON"),
        ("[]", "the file: Input should be an object"),
        ("[" * 100_000, "the file: Invalid JSON: recursion limit exceeded"),
        ('{"version": 2}', "version: Input should be 1"),
        ('{"suite": 1e999}', "suite: Input should be"),
        ("\xff", "the file: Invalid JSON"),
    ],
)
def test_what_is_not_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, sentence: str
) -> None:
    file = tmp_path / "results.json"
    file.write_bytes(text.encode("latin-1"))
    for command in ("report", "compare"):
        assert main([command, str(file), "-o", str(tmp_path / "out")]) == 4
        assert f"{file} is not the results of a run: {sentence}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("buckets", [[], [{"upto": 0.1, "count": 1}]])
def test_measurements_that_contradict_themselves(
    tmp_path: Path, buckets: list[dict[str, float]]
) -> None:
    file = tmp_path / "results.json"
    made = json.loads(results(requirement("put.a"), timings=Timings(latency=LATENCY)).encode())
    made["timings"]["latency"]["buckets"] = buckets
    file.write_text(json.dumps(made))
    with pytest.raises(ResultsError, match="the buckets do not hold all measurements"):
        read_results(file)


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)
    replace(pipe, b"text")
    assert os.read(reader, 9) == b"text"
    assert pipe.is_fifo()
    os.close(reader)


def test_results_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "none"), "-o", str(tmp_path)]) == 4
    assert "none: No such file or directory" in capsys.readouterr().err


def test_a_report_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.json"
    file.write_text(results(requirement("put.a")).encode())
    assert main(["report", str(file), "-o", str(file)]) == 4
    assert f"cannot write to {file}: File exists" in capsys.readouterr().err


def test_results_whose_tests_are_of_no_requirement(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    made = json.loads(results(requirement("put.a")).encode())
    made["tests"][0]["requirements"] = ["put.b"]
    file.write_text(json.dumps(made))
    with pytest.raises(ResultsError, match=r"put\.b is not among the requirements"):
        read_results(file)


def test_the_overview_has_each_requirement_of_the_profile_once() -> None:
    hostile = "</title><script>alert(1)</script>"
    found = [
        requirement("put.a"),
        requirement("put.b", Verdict.FAIL),
        requirement("put.c", Verdict.NOT_APPLICABLE),
        requirement("peek.d", Verdict.NON_STRICT, level="de-facto", section="Other Commands"),
    ]
    target = results().target.model_copy(update={"label": hostile})
    image = overview_image(results(*found, target=target))
    assert re.findall(r"<title>(\S+): ([^<]*)</title>", image) == [
        *(("put.a", "pass"), ("put.b", "fail"), ("peek.d", "de-facto deviation")),
    ]
    assert hostile not in image
    ET.fromstring(image)


def test_a_report_is_made_again_just_as_it_was(tmp_path: Path) -> None:
    made = results(*failing("put.a"), requirement("put.b"))
    write_report(made, tmp_path / "a")
    main(["report", str(tmp_path / "a" / "results.json"), "-o", str(tmp_path / "b")])
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    reports = [
        "junit.xml",
        "overview.svg",
        "report.html",
        "report.md",
        "results.json",
        "summary.md",
    ]
    assert names == ["badge.json", "badge.svg", *reports]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


# ---------------------------------------------------------------- JUnit


def junit_cases(made: Results) -> dict[str, ET.Element]:
    root = ET.fromstring(junit(made).encode())
    return {str(found.get("name")).split()[0]: found for found in root.iter("testcase")}


def test_junit_tells_failures_from_errors_and_from_what_was_left_out() -> None:
    known = KnownRecord(reason="issue 17", link="")
    verdicts = {
        "put.pass": (Verdict.PASS, None),
        "put.seen": (Verdict.SEEN, None),
        "put.fail": (Verdict.FAIL, "failure"),
        "put.error": (Verdict.ERROR, "error"),
        "put.loose": (Verdict.NON_STRICT, "skipped"),
        "put.untested": (Verdict.NOT_TESTABLE, "skipped"),
        "put.undecided": (Verdict.INCONCLUSIVE, "skipped"),
    }
    made = [requirement(slug, verdict) for slug, (verdict, _) in verdicts.items()]
    made.append(requirement("put.known", Verdict.FAIL, known=known))
    told = {name: [child.tag for child in c] for name, c in junit_cases(results(*made)).items()}
    expected = {slug: [kind] if kind else [] for slug, (_, kind) in verdicts.items()}
    assert told == expected | {"put.known": ["skipped"]}


def test_junit_has_the_clause_in_the_message_and_the_evidence_below() -> None:
    failure = junit_cases(results(*failing("put.a")))["put.a"][0]
    assert failure.get("message") == "The clause of put.a. [what put.a shows]"
    assert "> A < USING b\\r\\n\nEXPECTED  USING a\\r\\n\nOBSERVED  USING b" in (failure.text or "")


def test_junit_fails_what_is_not_strict_if_the_run_was() -> None:
    made = results(requirement("put.a", Verdict.NON_STRICT, level="de-facto"))
    strict = made.model_copy(update={"run": made.run.model_copy(update={"strict": True})})
    assert junit_cases(strict)["put.a"][0].tag == "failure"


def test_junit_fails_for_a_known_deviation_that_is_gone() -> None:
    root = ET.fromstring(junit(results(requirement("put.a"), gone=["put.a"])).encode())
    assert [suite.attrib["failures"] for suite in root] == ["1"]


def test_junit_is_xml_whatever_the_target_said() -> None:
    made = results(
        *failing("put.a"),
        tests=[case("put.a", Verdict.FAIL, evidence=evidence(observed=NASTY + "]]>\ufffe"))],
    )
    failure = junit_cases(made)["put.a"][0]
    assert "<script>alert(1)</script>" in (failure.text or "")


# ---------------------------------------------------------------- Markdown and badge


def test_markdown_is_short_and_links_to_the_report() -> None:
    text = report_text(results(*failing(*(f"put.a{n}" for n in range(60))), requirement("put.b")))
    assert "### Beanstalk conformance: `beanstalkd 1.12` does not conform" in text
    assert "- ❌ [put.a0](report.html#put.a0) (must): `what put.a0 shows`" in text
    assert "- … and 35 more in [the report](report.html#deviations)" in text
    assert len(text) < 5000


def test_markdown_takes_nothing_from_the_target_for_markup() -> None:
    made = results(requirement("put.a", Verdict.FAIL, reason=NASTY))
    target = made.target.model_copy(update={"version": NASTY})
    text = report_text(made.model_copy(update={"target": target}))
    other = difference_text(ResultsDifference.between(results(requirement("put.a")), made))
    for told in (text, other, comparison_text(ResultsComparison.of([made, made]))):
        for line in told.splitlines():
            outside = re.sub(r"(`+) ?(?:.*?[^`]) ?\1(?!`)", "", line)
            assert "<script>" not in outside
            assert not line.startswith("# c")
            assert not line.startswith("|") or line.count("|") in (4, 8)


def test_the_badge() -> None:
    made = results(*failing("put.a"), requirement("put.b"))
    assert json.loads(endpoint(made)) == {
        "schemaVersion": 1,
        "label": "beanstalk 1.12",
        "message": "1 of 2",
        "color": "#b3261e",
    }
    texts = [element.text for element in ET.fromstring(svg(made).encode()).iter() if element.text]
    assert {"beanstalk 1.12", "1 of 2"} <= set(texts)


# ---------------------------------------------------------------- annotations


def test_annotations_tell_ten_causes_of_a_kind_and_hide_nothing(tmp_path: Path) -> None:
    found = failing(*(f"put.a{number}" for number in range(12)))
    loose = requirement("put.loose", Verdict.NON_STRICT, reason="100% a, b: c")
    known = tmp_path / "known.yaml"
    known.write_text("a: 1\n'put.gone': {}\n")
    made = results(*found, loose, requirement("put.gone")).model_copy(update={"gone": ["put.gone"]})
    told = list(annotated(made, known))
    errors = [line for line in told if line.startswith("::error")]
    assert len(errors) == 10
    assert errors[0].startswith(f"::error file={known},line=2,title=gone%3A put.gone::")
    assert errors[-1] == "::error::and 4 more, see the report"
    assert told[10].startswith("::warning title=de-facto deviation%3A put.loose::")
    assert told[10].endswith("The clause of put.loose.%0Awhat put.loose shows")
    assert len(told) == 11


# ---------------------------------------------------------------- comparison


def test_a_comparison_tells_where_servers_differ() -> None:
    one = results(requirement("put.a"), requirement("put.b"), requirement("put.c"))
    other = results(*failing("put.a"), requirement("put.b"), requirement("put.d"))
    comparison = ResultsComparison.of([one, other])
    assert [row.requirement.slug for row in comparison.differing] == ["put.a"]
    rows = comparison.sections["Producer Commands"]
    assert [row.requirement.slug for row in rows] == ["put.a", "put.b", "put.c", "put.d"]
    assert rows[2].found[1] is None
    assert "| put.a | ✅ | ❌ |" in comparison_text(comparison)


def test_a_difference_tells_what_broke_and_what_was_fixed() -> None:
    def run(a: Verdict, b: Verdict, c: Verdict) -> Results:
        return results(requirement("put.a", a), requirement("put.b", b), requirement("put.c", c))

    difference = ResultsDifference.between(
        run(Verdict.PASS, Verdict.FAIL, Verdict.NOT_TESTABLE),
        run(Verdict.FAIL, Verdict.PASS, Verdict.PASS),
    )
    assert [r.slug for r in difference.broken] == ["put.a"]
    assert [r.slug for r in difference.fixed] == ["put.b"]
    text = difference_text(difference)
    assert "1 broke, 1 fixed, 1 changed otherwise: 1 → 1 must" in text
    assert "- put.c: not testable → pass" in text
    same = run(Verdict.PASS, Verdict.FAIL, Verdict.PASS)
    assert "No requirement fares differently." in difference_text(
        ResultsDifference.between(same, same)
    )


@pytest.mark.parametrize(
    "then", [v for v in Verdict if v not in (Verdict.PASS, Verdict.FAIL, Verdict.ERROR)]
)
def test_only_what_passed_before_or_deviated_less_can_break(then: Verdict) -> None:
    before, after = (results(requirement("put.a", v)) for v in (then, Verdict.FAIL))
    difference = ResultsDifference.between(before, after)
    assert bool(difference.broken) == (then is Verdict.NON_STRICT)
    assert bool(difference.other) == (then is not Verdict.NON_STRICT)
    assert not ResultsDifference.between(after, before).broken
    assert not ResultsDifference.between(after, before).fixed


def test_comparing_two_runs_tells_and_writes_their_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, verdict in (("a", Verdict.PASS), ("b", Verdict.FAIL)):
        (tmp_path / name).write_text(results(requirement("put.a", verdict)).encode())
    paths = [str(tmp_path / name) for name in "ab"]
    assert main(["compare", *paths, "-o", str(tmp_path / "two")]) == 1
    told = ["broke: put.a: what put.a shows", "1 broke, 0 fixed"]
    assert capsys.readouterr().out.splitlines() == told
    assert main(["compare", *reversed(paths)]) == 0
    assert capsys.readouterr().out.splitlines() == ["fixed: put.a", "0 broke, 1 fixed"]
    assert main(["compare", *paths, *paths]) == 4
    assert "**Broke** (1)" in (tmp_path / "two" / "difference.md").read_text()
    assert main(["compare", *paths, paths[0], "-o", str(tmp_path / "three")]) == 0
    written = sorted(path.name for path in (tmp_path / "three").iterdir())
    assert written == ["comparison.html", "comparison.md"]


# ---------------------------------------------------------------- timings


def test_durations_are_counted_in_buckets() -> None:
    found = measured([1e-7, 5e-5, 5.1e-5, 0.002, 1.0])
    assert found is not None
    assert (found.count, found.median, found.p99, found.longest) == (5, 5.1e-5, 1.0, 1.0)
    assert [(b.upto, b.count) for b in found.buckets] == [
        (1e-6, 1),
        (5.01e-5, 1),
        (6.31e-5, 1),
        (0.00251, 1),
        (1.0, 1),
    ]
    assert measured([]) is None


@pytest.mark.parametrize("durations", [[1e-6], [0.0], [12.0], [1e-5] * 99 + [3.0], [1e-4, 1e-3]])
def test_a_histogram_stays_in_its_box(durations: list[float]) -> None:
    found = measured(durations)
    assert found is not None
    plot = histogram("Latency", "replies", found)
    for bar in plot.bars:
        assert BOX.left <= bar.x <= bar.x + bar.width <= BOX.right + 1
        assert BOX.top <= bar.y <= bar.y + bar.height <= BOX.bottom + 0.1
    for tick in (*plot.across, *plot.marks):
        assert BOX.left <= tick.at <= BOX.right
    assert all(BOX.top <= tick.at <= BOX.bottom for tick in plot.up)


def test_durations_in_words() -> None:
    told = [duration(seconds) for seconds in (0, 1e-6, 6.1e-5, 0.9999e-3, 0.0123, 1, 478.2, 1080.4)]
    assert told == ["0 µs", "1 µs", "61 µs", "1 ms", "12.3 ms", "1 s", "478 s", "1,080 s"]


def test_a_page_tells_why_there_are_no_plots() -> None:
    page = report_page(results(requirement("put.a")))
    assert "half within 60 µs" in page
    assert "The lateness of timers was not measured: no test waited for one." in page
    assert LATENCY.count == 100


def test_the_first_cause_that_is_shown_has_a_transcript() -> None:
    tests = [
        case("put.a", Verdict.FAIL, evidence=evidence(transcript=[])),
        case("put.b", Verdict.FAIL, evidence=evidence()),
        case("put.c", Verdict.FAIL),
    ]
    broken = [requirement(f"put.{name}", Verdict.FAIL) for name in "abc"]
    assert [group.title for group in grouped(broken, tests)] == ["put.b", "put.a", "put.c"]


def test_a_cause_is_as_bad_as_its_own_tests_not_as_what_it_breaks() -> None:
    causes = (
        CauseRecord(command="put", expected="INSERTED", observed=word) for word in ("OK", "BURIED")
    )
    verdicts = (Verdict.FAIL, Verdict.NON_STRICT)
    tests = [
        case("put.a", verdict, cause=cause) for verdict, cause in zip(verdicts, causes, strict=True)
    ]
    groups = grouped([requirement("put.a", Verdict.FAIL)], tests)
    assert [group.verdict for group in groups] == [Verdict.FAIL, Verdict.NON_STRICT]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_heading_names_a_requirement_of_its_verdict(is_first: bool) -> None:
    cause = CauseRecord(command="put", expected="INSERTED", observed="OK")
    tests = [
        case("put.loose", Verdict.NON_STRICT, cause=cause, evidence=evidence(transcript=["> A"])),
        case("put.strict", Verdict.FAIL, cause=cause, evidence=evidence()),
    ]
    found = [
        requirement("put.loose", Verdict.NON_STRICT, level="de-facto"),
        requirement("put.strict", Verdict.FAIL),
    ]
    made = results(*(found if is_first else found[::-1]), tests=tests)
    (group,) = grouped(made.requirements, made.tests)
    assert (group.verdict, group.title) == (Verdict.FAIL, "put.strict and 1 more")
    assert group.tests[0].requirements == ["put.strict"]
    assert "- ❌ put.strict (must): `what put.strict shows`, breaks 1 more" in report_text(
        made, linked=False
    )
    assert re.search(r">put\.loose</a> \(de-facto\)", report_page(made))


def test_a_heading_has_the_verdict_of_its_cause_not_of_another_one_of_its_requirement() -> None:
    causes = (
        CauseRecord(command="put", expected="INSERTED", observed=word) for word in ("OK", "BURIED")
    )
    made = results(
        requirement("put.a", Verdict.FAIL),
        tests=[
            case("put.a", verdict, cause=cause, evidence=evidence())
            for verdict, cause in zip((Verdict.FAIL, Verdict.NON_STRICT), causes, strict=True)
        ],
    )
    assert [line[:4] for line in report_text(made).splitlines() if "put.a" in line] == [
        "- ❌ ",
        "- 🔶 ",
    ]
    assert 'class="deviation non-strict"' in report_page(made)


def test_a_must_is_named_before_what_else_its_test_is_about() -> None:
    both = ["put.loose", "put.strict"]
    found = [
        requirement("put.loose", Verdict.FAIL, level="de-facto"),
        requirement("put.strict", Verdict.FAIL),
    ]
    (group,) = grouped(found, [case("put.loose", Verdict.FAIL, requirements=both)])
    assert group.title == "put.strict and 1 more"


def _failed(slug: str, number: int, **changes: object) -> Any:
    cause = CauseRecord(command="put", expected="INSERTED …", observed=f"cause {'x' * number}")
    values = {"cause": cause, "evidence": evidence(), **changes}
    return case(slug, Verdict.FAIL, **values)


def test_causes_are_ranked_by_what_they_block_and_how_normal_their_use_is() -> None:
    slugs = [
        "exhaustion.not-found",
        "persistence.buries",
        "protocol.any-bytes",
        "put.age-after-clock-change",
        "put.crowd",
        "put.empty",
        "put.equal-delays",
        "put.blocks",
        "put.known",
        "reserve.expiry",
    ]
    found = [*failing(*slugs), requirement("put.loose", Verdict.NON_STRICT, level="de-facto")]
    found += [
        requirement(f"put.{number}", Verdict.BLOCKED, blocked_by=["put.blocks"])
        for number in range(2)
    ]
    special: dict[str, dict[str, object]] = {
        "put.crowd": {"id": "conformance.tests.test_crowds::test_put"},
        "put.empty": {"evidence": evidence(transcript=[])},
        "put.known": {"known": True},
        # It takes more messages than all others.
        "reserve.expiry": {"evidence": evidence(transcript=["  A > put"] * 50)},
    }
    tests = [_failed(slug, number, **special.get(slug, {})) for number, slug in enumerate(slugs)]
    tests.append(case("put.loose", Verdict.NON_STRICT, evidence=evidence()))
    titles = [group.title for group in grouped(found, tests)]
    assert titles == [
        "put.blocks; blocks 2",
        "reserve.expiry",
        "put.crowd",
        "protocol.any-bytes",
        "exhaustion.not-found",
        "persistence.buries",
        "put.age-after-clock-change",
        "put.equal-delays",
        "put.empty",
        "put.loose",
        "put.known",
    ]


def test_what_shows_no_byte_is_not_first_whatever_its_verdict() -> None:
    found = [*failing("put.a"), requirement("put.b", Verdict.NON_STRICT, level="de-facto")]
    tests = [
        case("put.a", Verdict.FAIL, evidence=evidence(transcript=[])),
        case("put.b", Verdict.NON_STRICT, evidence=evidence()),
    ]
    assert [group.title for group in grouped(found, tests)] == ["put.b", "put.a"]
    assert [group.title for group in grouped(found[:1], tests[:1])] == ["put.a"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("RESERVED 1 1\\r\\na\\r\\n", "RESERVED 12 5\\r\\nhello\\r\\n"),
        (
            "FOUND 1 1\\r\\na\\r\\n, 1.5 s early",
            "FOUND 2 9\\r\\nb\\r\\n\\r\\n or b\\r\\n, 2 s early",
        ),
        ("RESERVED 1 1\\r\\na\\r\\n or RESERVED 2 1\\r\\nb\\r\\n", "RESERVED 3 1\\r\\nc\\r\\n"),
        ("RESERVED N N\\r\\naaaaaaaa…", "RESERVED N N\\r\\nb, or c…"),
        ("a job with b'aaa'", 'a job with b"it\'s"'),
        ("YAML takes for '#1 SMP'", "YAML takes for '---\\n'"),
        ("USING conformance-0a1b2c3d-00012", "USING conformance-ffffffff-00013-a"),
        ("4 of 60 jobs, 1.25 MB", "59 of 1,060 jobs, 1e+09 MB"),
        ("N - N <= -N", "N - N.N <= N"),
        ("nothing for B within 1.5 s", "nothing within N seconds"),
        ("nothing, as in body-cut-off.transcript", "nothing within 5 seconds"),
        ("rusage-utime: 3, as kept in .findings/a-1b2c", "rusage-utime: 4; replay .findings/b"),
        ("id 01234567-89ab-cdef-0123-456789abcdef", "id fedcba98-89ab-cdef-0123-456789abcdef"),
    ],
)
def test_causes_that_differ_in_numbers_names_or_bodies_are_one(one: str, other: str) -> None:
    for texts in ({"observed": "same"}, {"expected": "same"}):
        missing = "expected" if "observed" in texts else "observed"
        tests = [
            _failed("put.a", 0, cause=CauseRecord(command="put", **texts, **{missing: text}))
            for text in (one, other)
        ]
        (group,) = grouped(failing("put.a"), tests)
        assert len(group.tests) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the key 'pri' in the statistics", "the key 'ttr' in the statistics"),
        ("RESERVED 1 1\\r\\na\\r\\n", "FOUND 1 1\\r\\na\\r\\n"),
        ("nothing within 5 seconds", "the target closed the connection"),
        ("OK with name: a", "OK with pid: a"),
    ],
)
def test_causes_that_differ_otherwise_are_several(one: str, other: str) -> None:
    tests = [
        _failed("put.a", 0, cause=CauseRecord(command="put", expected="same", observed=text))
        for text in (one, other)
    ]
    assert len(grouped(failing("put.a"), tests)) == 2


def test_reasons_that_differ_only_in_numbers_are_counted_together() -> None:
    told = [
        "waited 0.5 s of 5.0 s, 3 times",
        "waited 10.25 s of 5.0 s, 3 times",
        "waited 2 s of 5.0 s, 3 times",
        "a wait of 1,000 s",
        "a wait of 4.2e+09 s",
        "no number",
    ]
    assert by_numbers(told) == {
        "waited 0.5 to 10.25 s of 5.0 s, 3 times": 3,
        "a wait of 1,000 to 4.2e+09 s": 2,
        "no number": 1,
    }
    tests = [
        case("put.a", Verdict.INCONCLUSIVE, reason=reason, id=f"a::{reason}") for reason in told
    ]
    page = report_page(results(requirement("put.a", Verdict.INCONCLUSIVE), tests=tests))
    assert "3 tests inconclusive: waited 0.5 to 10.25 s of 5.0 s, 3 times" in page
