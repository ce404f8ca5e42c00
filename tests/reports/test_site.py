"""The static site: from results in folders to pages, their addresses, and what they tell."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from conformance.__main__ import main
from reports import results as results_schema
from reports import site as pages_of_site
from reports.collection import LONGEST_TEXT, LONGEST_TRANSCRIPT, Collection
from reports.lines import Value, line
from reports.plots import BOX
from reports.results import CLIENT_LIBRARY, RequirementRecord, Results, ResultsError, read_results
from reports.scale import Scale, ScaleCurve, ScalePoint, ScaleServer
from reports.servers import programs, servers
from reports.shares import Share, by_section, share
from reports.site import Site
from reports.slugs import natural, slug
from reports.verdicts import Verdict
from tests import ROOT
from tests.made import case, evidence, requirement, results

GALLERY = ROOT / "reports" / "gallery"
EVIL = "</style></script><script>document.title='executed'</script><img src=x onerror=alert(1)>"


def ran(
    *requirements: RequirementRecord, label: str = "beanstalkd", days: int = 0, **target: object
) -> Results:
    """Return results of a server, some days after those of others."""
    made = results(*requirements)
    date = made.run.date + timedelta(days=days)
    return made.model_copy(
        update={
            "target": made.target.model_copy(update={"label": label, **target}),
            "run": made.run.model_copy(update={"date": date}),
        }
    )


GOOD, BAD = requirement("put.b"), requirement("put.fails", Verdict.FAIL)
QUIRK = requirement("quirk.c", Verdict.SEEN, level="quirk", section="Quirks")
LOOSE = requirement("peek.d", Verdict.NON_STRICT, level="de-facto", section="Other Commands")
OF_OTHERS = requirement("put.old", Verdict.NOT_APPLICABLE)
RUNS = [
    ran(GOOD, requirement("put.fails"), QUIRK, LOOSE, version="1.9"),
    ran(GOOD, BAD, QUIRK, LOOSE, version="1.9", days=1),
    ran(GOOD, requirement("put.fails"), QUIRK, OF_OTHERS, version="1.12"),
    ran(GOOD, requirement("put.fails", Verdict.NOT_RUN), label="tuber", title="My Fork"),
]


def write(folder: Path, *runs: Results) -> Path:
    for number, run in enumerate(runs):
        path = folder / f"{number}" / "results.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(run.encode(), encoding="utf-8")
    return folder


def made_site(*runs: Results) -> dict[str, str]:
    return dict(Site(servers(runs)).files())


class Links(HTMLParser):
    """The links and the ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.ids += [told["id"] or ""] if "id" in told else []
        self.links += [told["href"] or ""] if "href" in told else []


# ---------------------------------------------------------------- results in folders


def test_results_are_found_in_folders_below_and_each_file_once(tmp_path: Path) -> None:
    write(tmp_path, *RUNS)
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "results.json").write_text("broken")
    (tmp_path / "badge.json").write_text('{"schemaVersion": 1}')
    collection = Collection([tmp_path, tmp_path / "1"])
    assert list(collection.read()) == RUNS
    assert collection.others == [tmp_path / "badge.json"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "there is no results.json in "),
        ({"badge.json": "[]"}, "badge.json is none"),
        ({"results.json": "{"}, "results.json is not the results of a run: the file: Invalid JSON"),
        ({"a.json": "[" * 100_000}, "a.json is not the results of a run: the file: Invalid JSON"),
        ({"a.json": '{"format": "beanstalk-conformance", "version": 2}'}, "version: Input"),
    ],
)
def test_what_no_site_can_be_made_of_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str], said: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    output = tmp_path / "out"
    assert main(["site", str(tmp_path), "--output", str(output)]) == 4
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not output.exists()


def test_a_folder_that_is_none_and_an_output_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for folder in (file, tmp_path / "missing"):
        assert main(["site", str(folder)]) == 4
        assert f"cannot read {folder}: No" in capsys.readouterr().err
    assert main(["site", str(write(tmp_path, *RUNS)), "--output", str(file)]) == 4
    assert f"cannot write to {file}: " in capsys.readouterr().err


def test_the_command_tells_what_it_made_and_what_it_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, *RUNS)
    (tmp_path / "badge.json").write_text("{}")
    assert main(["site", str(tmp_path), "--output", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert f"3 servers, 4 runs, 4 requirements; {len(files)} files" in told
    assert f"left out 1 JSON file of other kinds, such as {tmp_path / 'badge.json'}" in told
    # The data of badges is no results either.
    assert main(["site", str(tmp_path), "--output", str(tmp_path / "out")]) == 0
    assert "left out 4 JSON files" in capsys.readouterr().out


def test_measurements_of_growth_are_on_a_page_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = [ScalePoint(size=size, cost=size / 1e6) for size in (10, 100)]
    server = ScaleServer(
        name="<b>mine",
        version="1",
        command="",
        unit="CPU time",
        curves=[ScaleCurve(grows="tubes", command="put", points=points, expected=0)],
        memory=[],
        findings=[],
        violations=[],
        missing=[],
    )
    run = RUNS[0]
    found = Scale(suite=run.suite, date=run.run.date, seconds=1, servers=[server])
    file = write(tmp_path, *RUNS) / "scale.json"
    file.write_text(found.encode())
    out = tmp_path / "out"
    assert main(["site", str(tmp_path), "--output", str(out)]) == 0
    assert "left out" not in capsys.readouterr().out
    for name in ("index.html", "growth.html"):
        assert "&lt;b&gt;mine" in (out / name).read_text()
    assert 'href="growth.html"' in (out / "index.html").read_text()
    file.write_text(found.encode().replace('"servers"', '"clients"'))
    assert main(["site", str(tmp_path), "--output", str(out)]) == 4
    assert f"{file} is no measurement of scale: servers: " in capsys.readouterr().err


# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("beanstalkd 1.12", "beanstalkd_1.12"),
        ("reference-server 1.13", "reference-server_1.13"),
        ("../../etc/passwd", r"etc-passwd__[0-9a-f]{8}"),
        ("", r"__[0-9a-f]{8}"),
        ("☃", r"__[0-9a-f]{8}"),
        ("\ud800", r"__[0-9a-f]{8}"),
        ("a" * 100_000, r"a{80}__[0-9a-f]{8}"),
    ],
)
def test_a_name_becomes_a_part_of_an_address(name: str, part: str) -> None:
    assert re.fullmatch(part, slug(name))


def test_names_that_differ_have_addresses_that_differ() -> None:
    names = ["a b", "a-b", "a_b", "A b", "a  b", "a b ", "a.b", "a b.", "a/b", "a\nb", "a__b"]
    assert len({slug(name) for name in names}) == len(names)


def test_an_address_does_not_depend_on_what_else_there_is() -> None:
    alone, among = made_site(RUNS[0]), made_site(*RUNS)
    assert set(alone) <= set(among)
    assert made_site(*RUNS[::-1]) == among


def test_every_link_leads_somewhere() -> None:
    files = made_site(*RUNS)
    assert "servers/beanstalkd_1.9.html" in files
    ids = {name: set(Links(text).ids) for name, text in files.items()}
    for name, text in files.items():
        folder = Path(name).parent
        for link in Links(text).links:
            path, _, anchor = link.partition("#")
            path = path.partition("?")[0]
            target = (folder / path).as_posix() if path else name
            target = re.sub(r"[^/]+/\.\./", "", target)
            assert target in files, (name, link)
            assert not anchor or unquote(anchor) in ids[target], (name, link)


def test_each_server_has_an_anchor_for_each_requirement_and_no_id_twice() -> None:
    files = made_site(*RUNS)
    for server in servers(RUNS):
        ids = Links(files[f"servers/{server.slug}.html"]).ids
        assert {r.slug for r in server.newest.requirements} <= set(ids)
    for name, text in files.items():
        assert len(Links(text).ids) == len(set(Links(text).ids)), name


def test_servers_and_client_libraries_have_tables_of_their_own() -> None:
    made = requirement("send.put", section="Requests")
    library = ran(made, label=CLIENT_LIBRARY, title="greenstalk")
    index = made_site(*RUNS, library)["index.html"]
    of_servers, of_libraries = index.split("<table")[1:]
    assert "beanstalkd_1.9.html" in of_servers
    assert "greenstalk.html" in of_libraries
    assert ("Requests" in of_servers, "Requests" in of_libraries) == (False, True)
    assert " and 1 client library</h1>" in index
    assert made_site(*RUNS)["index.html"].count("<table") == 1


# ---------------------------------------------------------------- numbers


def test_shares_are_those_of_the_verdict() -> None:
    for path in GALLERY.glob("*.json.gz"):
        found = read_results(path)
        musts, verdict = share(found.requirements, "must"), found.verdict
        assert (musts.met + musts.broken, musts.total) == (verdict.tested, verdict.applicable), path
        fails = [r.level == "must" for r in found.requirements if r.verdict is Verdict.FAIL]
        assert musts.broken == sum(fails), path
        # Older suites counted other requirements at which the target was lost, too.
        assert verdict.must_broken in (sum(fails), len(fails)), path
        assert sum(part.total for part in by_section(found).values()) == musts.total


def test_a_share_is_rounded_down_and_tells_what_is_open() -> None:
    assert Share(met=299, broken=1, total=300).percent == 99
    assert Share(met=299, broken=0, total=300).open == 1
    kinds = [Share(3, 0, 3), Share(2, 0, 3), Share(9, 1, 10), Share(8, 1, 10)]
    assert [part.kind for part in kinds] == ["all", "open", "most", "few"]


def test_versions_are_in_their_order() -> None:
    versions = ["1.9", "1.13", "1.9.1", "1.10", "0.6", "9" * 5_000]
    assert sorted(versions, key=natural) == ["0.6", "1.9", "1.9.1", "1.10", "1.13", "9" * 5_000]


@pytest.mark.parametrize("met", [[0, 0], [100, 100], [99, 100, 0], [95, 100], list(range(101))])
def test_a_line_stays_in_its_box_and_its_labels_are_few(met: list[int]) -> None:
    drawn = line("title", [Value(f"1.{n}", Share(n, 0, 100), "") for n in met])
    assert drawn is not None
    assert all(BOX.left <= point.x <= BOX.right for point in drawn.points)
    assert all(BOX.top <= point.y <= BOX.bottom for point in drawn.points)
    assert 2 <= len(drawn.up) <= 6
    assert (drawn.up[0].label, drawn.up[0].at) == ("100%", BOX.top)
    assert 1 <= len(drawn.across) <= 5
    heights = [point.y for point in drawn.points]
    assert heights.index(max(heights)) == met.index(min(met))
    assert heights.index(min(heights)) == met.index(max(met))


def test_one_run_is_no_line() -> None:
    assert line("title", [Value("1.9", Share(1, 0, 1), ""), Value("1", Share(0, 0, 0), "")]) is None


# ---------------------------------------------------------------- history


@pytest.mark.parametrize("order", [RUNS, RUNS[::-1]])
def test_the_newest_run_is_shown_and_the_others_are_its_history(order: list[Results]) -> None:
    fork, old, new = servers(order)[2], *servers(order)[:2]
    assert [server.name for server in (old, new, fork)] == [
        "beanstalkd 1.9",
        "beanstalkd 1.12",
        "My Fork",
    ]
    assert [run.run.date for run in old.runs] == [RUNS[0].run.date, RUNS[1].run.date]
    assert [bool(run.tests) for run in old.runs] == [False, True]
    page = dict(Site([old]).files())["servers/beanstalkd_1.9.html"]
    assert "<strong>1 broke:</strong>" in page
    assert page.count('<polyline class="line"') == 2


def test_what_broke_is_told_only_of_runs_by_the_same_profile() -> None:
    profile = {"profile": "1.13"}
    other = RUNS[1].model_copy(update={"target": RUNS[1].target.model_copy(update=profile)})
    [server] = servers([RUNS[0], other])
    assert [step.change for step in server.steps] == [None, None]
    told = made_site(RUNS[0], other)["servers/beanstalkd_1.9.html"]
    assert "another profile" in told
    assert "the first run" in told


def test_a_run_that_is_there_twice_counts_once_as_it_was_read_first() -> None:
    again = RUNS[0].model_copy(update={"gone": ["put.b"]})
    [server] = servers([RUNS[0], again, RUNS[0]])
    assert server.runs == [RUNS[0]]


def test_a_program_has_the_newest_run_of_each_version_in_order() -> None:
    found = programs(servers(RUNS))
    assert list(found) == ["beanstalkd", "My Fork"]
    assert [run.target.version for run in found["beanstalkd"].versions] == ["1.9", "1.12"]
    hashes = [ran(GOOD, label="fork", version=f"{name}", days=n) for n, name in enumerate("cab")]
    assert [run.target.version for run in programs(servers(hashes))["fork"].versions] == [*"cab"]


# ---------------------------------------------------------------- what others have forged


def forged() -> list[Results]:
    """Return results whose every text is markup."""
    bad = requirement(
        "put.a", Verdict.FAIL, clause=EVIL, section=EVIL, source=EVIL, reason=EVIL, profiles=EVIL
    )
    proof = evidence(transcript=[EVIL], expected=EVIL, observed=EVIL, said=EVIL, reproduce=EVIL)
    made = results(bad, tests=[case("put.a", Verdict.FAIL, id=EVIL, evidence=proof)])
    told = {"title": f"../{EVIL}", "label": EVIL, "version": EVIL, "profile": EVIL}
    one = made.model_copy(update={"target": made.target.model_copy(update=told)})
    run = one.run.model_copy(update={"date": datetime.max.replace(tzinfo=UTC)})
    return [one, one.model_copy(update={"run": run}), RUNS[0]]


def test_forged_names_and_texts_neither_leave_the_folder_nor_become_markup() -> None:
    files = made_site(*forged())
    for name, text in files.items():
        assert re.fullmatch(r"([a-z]+/)?[\w.-]+\.(html|svg|json)", name)
        assert ".." not in name
        if name.endswith(".json"):
            json.loads(text)
            continue
        assert "<img src=x" not in text
        assert "<script>document" not in text
        if name.endswith(".html"):
            assert text.count("<script") <= 1
            assert "Content-Security-Policy" in text


def test_long_texts_are_cut_and_short_ones_are_not(tmp_path: Path) -> None:
    long = "x" * 90_000
    failing = requirement("put.a", Verdict.FAIL, clause=long, reason=long)
    proof = evidence(
        transcript=[f"  {n} {long}" for n in range(500)],
        expected=long,
        observed=long,
        said=long,
        reproduce=long,
    )
    test = case("put.a", Verdict.FAIL, id=long, reason=long, evidence=proof)
    made = results(failing, tests=[test], target=RUNS[0].target.model_copy(update={"title": long}))
    write(tmp_path, made, *RUNS)
    cut, *others = Collection([tmp_path]).read()
    assert others == RUNS
    found = cut.tests[0].evidence
    assert found is not None
    assert found.transcript[0] == f"… {500 - LONGEST_TRANSCRIPT} lines before"
    assert found.transcript[-1].startswith("  499 x")
    assert max(map(len, [*found.transcript, found.said, cut.tests[0].id])) == LONGEST_TEXT
    sizes = [len(text) for text in made_site(cut, *others).values()]
    assert sum(sizes) < 6_000_000


def test_what_real_servers_said_is_not_cut(tmp_path: Path) -> None:
    file = GALLERY / "beanstalkd-1.5.json.gz"
    (tmp_path / file.name).write_bytes(file.read_bytes())
    assert list(Collection([tmp_path]).read()) == [read_results(file)]


def test_compressed_files_are_read_with_the_same_care(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, file = GALLERY / "beanstalkd-1.5.json.gz", tmp_path / "results.json.gz"
    file.write_bytes(gzip.compress(b"{}"))
    (tmp_path / "plain.json").write_bytes(gzip.decompress(whole.read_bytes()))
    collection = Collection([tmp_path])
    assert list(collection.read()) == [read_results(whole)]
    assert collection.others == [file]
    for damaged in (b"{}", whole.read_bytes()[:-9], whole.read_bytes()[:-1] + b"!"):
        file.write_bytes(damaged)
        with pytest.raises(ResultsError, match="cannot read"):
            read_results(file)
    monkeypatch.setattr(results_schema, "MAX_BYTES", 10_000_000)
    file.write_bytes(gzip.compress(bytes(10_000_001)))
    with pytest.raises(ResultsError, match="longer than 9 MiB"):
        read_results(file)


def test_too_many_requirements_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_of_site, "MOST_CELLS", 14)
    with pytest.raises(ResultsError, match="no room for 5 requirements of 3 servers"):
        made_site(*RUNS)
