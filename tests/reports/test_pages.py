"""The pages in a browser: what a reader does with them, and what a hostile target cannot."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from conformance.diagrams.diagram import Wrong, diagram_of
from conformance.reading import parse
from reference_server.profiles import NEWEST
from reports.grouping import grouped
from reports.results import Bucket, CommandTrait, KnownRecord, Measured, Timings, read_results
from reports.verdicts import Verdict
from reports.write import write_comparison, write_report
from tests.command_line import suite
from tests.made import case, evidence, requirement, results
from tests.servers import CHROMIUM, HOSTILE, changed_server, needs_chromium

SIZES: list[ViewportSize] = [{"width": 360, "height": 800}, {"width": 1600, "height": 1000}]

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Yield a page; at its end it must not have complained, asked, or fetched anything."""
    with browser.new_context(viewport=SIZES[1]) as context:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        wrong: list[str] = []
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text))
        page.on(
            "request",
            lambda asked: None if asked.url.startswith("file:") else wrong.append(asked.url),
        )
        yield page
        assert wrong == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report of four requirements, one of which fails, and a comparison."""
    folder = tmp_path_factory.mktemp("report")
    good = [requirement("put.a"), requirement("put.b", clause="A job has a TTR.")]
    quirk = requirement("quirk.c", Verdict.SEEN, level="quirk", section="Quirks")
    other_profile = requirement("put.old", Verdict.NOT_APPLICABLE)
    one = results(*good, requirement("put.fails", Verdict.FAIL), quirk, other_profile)
    other = results(*good, requirement("put.fails"), quirk)
    write_report(one, folder)
    write_comparison([one, other, other], folder)
    return folder


def shown(page: Page) -> list[str]:
    """Return the requirements that are listed."""
    return [str(row.get_attribute("data-slug")) for row in page.locator(".group li:visible").all()]


def test_filtering_by_section_level_verdict_and_text(page: Page, folder: Path) -> None:
    page.goto(f"file://{folder}/report.html")
    assert shown(page) == ["put.fails"]
    page.get_by_label("Level").select_option("quirk")
    assert shown(page) == ["quirk.c"]
    assert page.locator("article:visible").count() == 0
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Level").select_option("must")
    assert shown(page) == ["put.fails", "put.a", "put.b", "put.old"]
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Verdict").select_option("fail")
    assert shown(page) == ["put.fails"]
    assert page.locator("article:visible").count() == 1
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Text").fill("ttr")
    assert shown(page) == ["put.b"]
    assert page.locator("output").inner_text() == "1 of 5 requirements"
    page.get_by_label("Section").select_option("Quirks")
    assert shown(page) == []


def test_filters_are_kept_in_the_address(page: Page, folder: Path) -> None:
    page.goto(f"file://{folder}/report.html#put.b")
    page.get_by_label("Text").fill("ttr & job")
    page.get_by_label("Level").select_option("must")
    page.wait_for_url("**/report.html?level=must&text=ttr+%26+job#put.b")
    page.get_by_label("Text").fill("ttr")
    page.wait_for_url("**/report.html?level=must&text=ttr#put.b")
    page.reload()
    assert shown(page) == ["put.b"]
    assert page.get_by_label("Level").input_value() == "must"
    page.get_by_role("button", name="Clear").click()
    page.wait_for_url("**/report.html#put.b")
    # Of what the address has, some may not be there any more.
    page.goto(f"file://{folder}/report.html?section=Gone&verdict=fail&other=1")
    assert page.locator("[name=section] option:checked").inner_text() == "all"
    assert shown(page) == ["put.fails"]


def test_a_link_to_a_requirement_shows_it_even_if_it_was_filtered(page: Page, folder: Path) -> None:
    page.goto(f"file://{folder}/report.html#put.fails")
    assert page.evaluate("document.activeElement.id") == "put.fails"
    page.get_by_label("Text").fill("nothing that is there")
    page.locator('.map a[href="#put.b"]').click()
    # A browser tells a page of a new fragment a little later.
    expect(page.locator("[id='put.b']")).to_be_visible()
    expect(page.locator("[id='put.b']")).to_be_focused()


def test_what_is_not_judged_is_folded_at_the_end(page: Page, folder: Path) -> None:
    page.goto(f"file://{folder}/report.html")
    told = [rest.inner_text() for rest in page.locator(".rest summary").all()]
    assert told == ["2 met", "1 quirk", "1 requirement of other profiles"]
    assert not page.locator("[id='quirk.c']").is_visible()
    page.goto(f"file://{folder}/report.html#quirk.c")
    expect(page.locator("[id='quirk.c']")).to_be_visible()


def test_what_deviates_is_under_the_answer(page: Page, folder: Path) -> None:
    page.goto(f"file://{folder}/report.html")
    titles = [title.inner_text() for title in page.locator("h1, h2").all()]
    assert titles[0].startswith("beanstalkd 1.12")
    assert titles[1:4] == ["Causes", "At a glance", "What deviates"]
    told = page.locator("article").inner_text()
    places = [told.index(text) for text in ("Expected", "Observed", "> A < USING b", "pytest ")]
    assert places == sorted(places)


def test_copying_the_command_that_reproduces(page: Page, folder: Path) -> None:
    page.goto(f"file://{folder}/report.html")
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "pytest --pyargs conformance.tests.test_use::test_use"


def test_the_map_by_keyboard(page: Page, folder: Path) -> None:
    page.goto(f"file://{folder}/report.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to what deviates"
    page.locator(".map [tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "put.fails: fail"
    page.keyboard.press("Enter")
    page.wait_for_url("**/report.html#put.fails")


def test_the_failure_shows_what_its_reader_needs(page: Page, folder: Path) -> None:
    page.goto(f"file://{folder}/report.html#put.fails")
    article = page.locator("article")
    assert article.locator("mark").inner_text() == "> A < USING b\\r\\n"
    told = article.inner_text()
    for text in ("The clause of put.fails.", "protocol-1.12", "USING a\\r\\n", "USING b\\r\\n"):
        assert text in told


def test_folding_and_only_differences(page: Page, folder: Path) -> None:
    page.goto(f"file://{folder}/comparison.html")
    rows = page.locator("tr.row:visible")
    assert rows.count() == 4
    page.get_by_label("only differences").check()
    assert [row.get_attribute("id") for row in rows.all()] == ["put.fails"]
    page.get_by_label("only differences").uncheck()
    page.get_by_role("button", name="Producer Commands").click()
    assert [row.get_attribute("id") for row in rows.all()] == ["quirk.c"]
    page.get_by_role("button", name="Fold all sections").click()
    assert rows.count() == 0
    page.goto(f"file://{folder}/comparison.html#put.fails")
    row = page.locator("[id='put.fails']")
    expect(row.locator("blockquote")).to_be_visible()
    expect(row).to_contain_text("beanstalkd 1.12: fail: what put.fails shows")


@pytest.mark.parametrize("name", ["report", "comparison"])
@pytest.mark.parametrize("size", SIZES, ids=("360", "1600"))
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_page_and_all_is_readable(
    page: Page, folder: Path, name: str, size: ViewportSize, scheme: str
) -> None:
    page.set_viewport_size(size)
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(f"file://{folder}/{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert page.evaluate(CONTRASTS) == []


@pytest.mark.parametrize("name", ["report", "comparison"])
@pytest.mark.parametrize("width", [360, 700, 1400])
def test_nothing_is_cut_off(page: Page, wide: Path, name: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"file://{wide}/{name}.html")
    page.evaluate("for (const folded of document.querySelectorAll('details')) folded.open = true")
    if width == 700 and name == "comparison":
        # There, the table is moved beneath the names of requirements.
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        return
    assert page.evaluate(CUT_OFF, width) == []


@pytest.mark.parametrize("width", [360, 1400])
def test_headers_do_not_break_inside_words(page: Page, wide: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"file://{wide}/comparison.html")
    assert page.evaluate(BROKEN_WORDS) == []


NEXT_FRAME = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("top", [0, 333])
def test_all_lines_of_the_comparison_are_drawn(
    page: Page, wide: Path, scheme: str, top: int
) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(f"file://{wide}/comparison.html")
    page.evaluate(f"document.querySelector('.sheet').scrollTop = {top}")
    places = page.evaluate(LINES)
    # The page itself loads no images.
    viewer = page.context.new_page()
    for _ in range(5):
        # On a busy machine, a picture may be that of an earlier frame.
        page.evaluate(NEXT_FRAME)
        image = base64.b64encode(page.screenshot()).decode()
        drawn = viewer.evaluate(SEEN, [image, places])
        assert len(drawn) > 10
        unseen = [found for found in drawn if not found["seen"]]
        if not unseen:
            break
    assert unseen == []


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report, and a comparison of eleven servers."""
    folder = tmp_path_factory.mktemp("wide")
    names = ("a." + "-".join(["very"] * 12), *(f"put.fails-{number}" for number in range(30)))
    made = results(*(requirement(name, Verdict.FAIL) for name in names))
    labels = ("antikirra-beanstalkd", "reference-server", *["beanstalkd"] * 9)
    targets = [made.target.model_copy(update={"label": label}) for label in labels]
    write_report(made, folder)
    write_comparison([made.model_copy(update={"target": target}) for target in targets], folder)
    return folder


CUT_OFF = """(width) => [...document.querySelectorAll("body *")].filter((element) => {
  if (element.closest("script, svg, .skip, option") || !element.checkVisibility()) return false;
  const box = element.getBoundingClientRect();
  return box.width > 0 && (box.right > width + 1 || box.left < -1);
}).map((element) => `${element.className} ${element.textContent.slice(0, 40)}`)"""

BROKEN_WORDS = """() => [...document.querySelectorAll("thead th:not(.name)")].flatMap((head) => {
  const text = head.firstChild, broken = [];
  for (const { index, 0: word } of text.data.matchAll(/[^\\s-]+-?/g)) {
    const range = document.createRange();
    range.setStart(text, index);
    range.setEnd(text, index + word.length);
    if (range.getClientRects().length > 1) broken.push(word);
  }
  return broken;
})"""

LINES = """() => {
  const boxes = (cells) => [...cells].map((cell) => cell.getBoundingClientRect());
  const heads = boxes(document.querySelectorAll("thead th"));
  const top = heads[0].bottom;
  const cells = boxes(document.querySelectorAll("tr.row > *"));
  return [
    ...heads.map((box) => ({ x: box.left + 6, y: box.bottom - 1, ground: -4 })),
    ...cells.filter((box) => box.top > top + 4 && box.top < innerHeight - 20)
      .map((box) => ({ x: box.left + 6, y: box.top, ground: 4 })),
  ];
}"""
"""Where header and rows that are in view have their lines, and how far off there is none."""

SEEN = """async ([image, places]) => {
  const picture = new Image();
  picture.src = `data:image/png;base64,${image}`;
  await picture.decode();
  const canvas = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
  canvas.drawImage(picture, 0, 0);
  const at = (x, y) => [...canvas.getImageData(Math.round(x), Math.round(y), 1, 1).data];
  return places.map(({ x, y, ground: off }) => {
    const ground = at(x, y + off);
    const seen = [-1, 0, 1].some((d) =>
      at(x, y + d).some((part, n) => Math.abs(part - ground[n]) > 15));
    return { x, y, seen };
  });
}"""
"""Whether a line can be seen at each place of a picture."""

CONTRASTS = """() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).slice(0, 3).map((c) => c / 255)
      .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if ((parts(colour)[3] ?? 1) > 0) return colour;
    }
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("svg, script, option")) continue;
    const pair = [light(getComputedStyle(element).color), light(ground(element))].sort();
    const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (contrast < 4.5) poor.push(`${element.className} ${element.textContent} ${contrast}`);
  }
  return poor;
}"""


def test_on_paper_everything_is_there(page: Page, folder: Path) -> None:
    page.goto(f"file://{folder}/report.html")
    page.emulate_media(media="print")
    assert not page.locator("#filter").is_visible()
    assert page.locator("article").is_visible()
    assert len(page.pdf()) > 10_000


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report on a server that sends markup wherever it can."""
    folder = tmp_path_factory.mktemp("hostile")
    server = changed_server(folder, HOSTILE)
    chosen = [f"conformance.tests.test_{name}" for name in ("use", "list_tubes", "stats_tube")]
    done = suite(f"--launch={server}", *chosen, f"--report={folder}")
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr
    return folder


def test_a_hostile_target_cannot_get_into_its_report(page: Page, hostile: Path) -> None:
    found = read_results(hostile / "results.json")
    blocked = sum(r.verdict is Verdict.BLOCKED for r in found.requirements)
    assert found.verdict.must_broken + blocked > 20
    assert "<script>" in found.target.version
    write_comparison([found, found], hostile)
    for name in ("report", "comparison"):
        page.goto(f"file://{hostile}/{name}.html")
        assert page.title() != "executed"
        assert page.locator("script").count() == 1
        assert page.locator("img").count() == 0
        told = page.locator("h1, thead").all_inner_texts()
        assert "<script>document.title='executed'</script>" in "".join(told)
    page.goto(f"file://{hostile}/report.html")
    causes = grouped(found.requirements, found.tests)
    assert page.locator("article").count() == len(causes)
    for deviating in found.deviations:
        assert page.locator(f'[id="{deviating.slug}"]').count() == 1


def test_results_that_somebody_has_forged_do_not_get_into_a_report(
    page: Page, tmp_path: Path
) -> None:
    evil = "</style></script><script>document.title='executed'</script><img src=x onerror=alert(1)>"
    forged = requirement(
        "put.a", Verdict.FAIL, clause=evil, section=evil, source=evil, reason=evil, profiles=evil
    )
    proof = evidence(transcript=[evil], expected=evil, observed=evil, said=evil, reproduce=evil)
    made = results(forged, tests=[case("put.a", Verdict.FAIL, id=evil, evidence=proof)])
    target = made.target.model_copy(update={"label": evil, "clock_reason": evil})
    write_report(made.model_copy(update={"target": target}), tmp_path)
    page.goto(f"file://{tmp_path}/report.html")
    assert page.title() != "executed"
    assert page.locator("script").count() == 1
    assert page.locator("article img").count() == 0


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report on a server with commands that do not work, and a known deviation."""
    folder = tmp_path_factory.mktemp("answer")
    passing = [requirement(f"put.good-{n}", section=f"Part {n % 9}") for n in range(280)]
    known = requirement("use.known", Verdict.FAIL, known=KnownRecord(reason="as it is", link=""))
    conversation = parse("A > use a\\r\\n\nA < USING b\\r\\n\n")
    drawn = diagram_of(conversation, NEWEST, Wrong(1, "USING a\\r\\n", "USING b\\r\\n"))
    broken = [requirement(f"put.fails-{n}", Verdict.FAIL) for n in range(12)]
    made = results(*passing, known, *broken)
    tests = [
        test.model_copy(update={"evidence": evidence(diagram=drawn)}) if test.evidence else test
        for test in made.tests
    ]
    answers = {"put": "works", "use": "works", "kick": "unknown", "bury": "no reply"}
    commands = [
        CommandTrait.model_validate({"name": name, "answer": how, "observed": "<script>"})
        for name, how in answers.items()
    ]
    write_report(made.model_copy(update={"tests": tests, "commands": commands}), folder)
    return folder


def test_the_answer_is_on_the_first_screen(page: Page, answer: Path) -> None:
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(f"file://{answer}/report.html")
    for what in ("#causes", "#commands", "#map"):
        box = page.locator(what).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 900
    map_box = page.locator(".map").bounding_box()
    assert map_box is not None
    assert map_box["y"] < 700
    links = page.locator(".causes ol li a")
    assert links.first.inner_text().startswith("put.fails-0")
    assert page.locator(".causes > ol > li:visible").count() <= 6
    told = page.locator(".commands").inner_text().split("\n")
    assert {"2 work", "1 unknown", "1 no reply"} <= {*told}


def test_known_deviations_look_different_and_are_folded(page: Page, answer: Path) -> None:
    page.goto(f"file://{answer}/report.html")
    known, new = page.locator("article.known"), page.locator("article:not(.known)").first
    assert known.count() == 1
    assert not known.is_visible()
    style = "element => getComputedStyle(element).borderTopStyle"
    assert (known.evaluate(style), new.evaluate(style)) == ("dashed", "solid")
    cell = page.locator(".map .cell[data-slug='use.known']")
    other = page.locator(".map .cell[data-slug='put.fails-0']")
    ground = "element => getComputedStyle(element).backgroundColor"
    assert cell.evaluate(ground) != other.evaluate(ground)
    assert cell.get_attribute("aria-label") == "use.known: fail, known"
    cell.click()
    expect(known).to_be_visible()


def test_each_failure_has_its_diagram(page: Page, answer: Path) -> None:
    page.goto(f"file://{answer}/report.html")
    assert page.locator("article svg.diagram").count() == page.locator(".evidence").count() > 0
    first = page.locator("svg.diagram").first
    assert first.locator("text.wrong").text_content() == "✕ USING b\\r\\n"
    colours = first.locator("text.wrong").evaluate("e => getComputedStyle(e).fill")
    assert colours != first.locator("text.sent").evaluate("e => getComputedStyle(e).fill")


@pytest.mark.parametrize("width", [360, 1400])
def test_a_diagram_scrolls_in_its_own_frame(page: Page, answer: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"file://{answer}/report.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = page.locator("svg.diagram").first.bounding_box()
    assert box is not None
    # Its text is as large as everywhere.
    assert box["width"] > 400


def test_a_comparison_of_many_is_readable_on_a_narrow_screen(page: Page, tmp_path: Path) -> None:
    made = results(requirement("put.a"), requirement("put.fails", Verdict.FAIL))
    titles = [f"reference-server-without-pause-{n}" for n in range(27)]
    targets = [made.target.model_copy(update={"title": title}) for title in titles]
    write_comparison([made.model_copy(update={"target": target}) for target in targets], tmp_path)
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(f"file://{tmp_path}/comparison.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    heads = [head.bounding_box() for head in page.locator("thead th:not(.name)").all()]
    lefts = [head["x"] for head in heads if head]
    assert len(lefts) == 27
    assert min(b - a for a, b in itertools.pairwise(lefts)) >= 20
    whole = (
        "es => es.every(e => e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight)"
    )
    assert page.locator("thead th:not(.name)").evaluate_all(whole)
    words = [word.bounding_box() for word in page.locator(".totals .word").all()]
    assert all(word and word["width"] <= 28 for word in words)
    page.evaluate("document.querySelector('.sheet').scrollLeft = 300")
    name = page.locator("[id='put.fails'] summary").bounding_box()
    assert name is not None
    assert 0 <= name["x"] < 60


def test_labels_of_marks_that_are_near_are_apart(page: Page, folder: Path) -> None:
    page.goto(f"file://{folder}/report.html")
    first, second = (mark.bounding_box() for mark in page.locator("text.mark").all())
    assert first is not None
    assert second is not None
    beside = first["x"] + first["width"] <= second["x"]
    above = first["y"] + first["height"] <= second["y"] + 2
    assert beside or above


def test_few_measurements_are_a_sentence(page: Page, tmp_path: Path) -> None:
    one = Measured(
        count=1, median=0.1, p90=0.1, p99=0.1, longest=0.1, buckets=[Bucket(upto=0.1, count=1)]
    )
    write_report(results(requirement("put.a"), timings=Timings(lateness=one)), tmp_path)
    page.goto(f"file://{tmp_path}/report.html")
    assert page.locator(".plot").count() == 0
    assert "Lateness of timers: 1 timer: 100 ms." in page.locator("main").inner_text()
