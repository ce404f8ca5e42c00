"""The static site in a browser: on phones and wide screens, by keyboard, and without JavaScript."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from reports.servers import servers
from reports.site import Site, write_site
from tests.reports.test_pages import CONTRASTS, CUT_OFF, SIZES
from tests.reports.test_site import BAD, GOOD, LOOSE, QUIRK, RUNS, forged, ran
from tests.servers import needs_chromium

# Its fixtures.
pytest_plugins = ["tests.reports.test_pages"]
pytestmark = needs_chromium

PAGES = (
    "index.html",
    "requirements.html",
    "requirements.html?a=beanstalkd_1.9&b=beanstalkd_1.12",
    "requirements/put.fails.html",
    "servers/beanstalkd_1.9.html",
    "programs/beanstalkd.html",
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of a site of three servers, one with a history, and some others."""
    folder = tmp_path_factory.mktemp("site")
    more = [ran(GOOD, BAD, LOOSE, QUIRK, label=f"an-other-server-{n}") for n in range(12)]
    write_site(Site(servers([*RUNS, *more])), folder)
    return folder.as_uri()


def shown(page: Page, what: str) -> list[str]:
    return [row.inner_text().split("\n")[0] for row in page.locator(f"{what}:visible").all()]


def test_searching_servers_is_kept_in_the_address(page: Page, address: str) -> None:
    page.goto(f"{address}/index.html")
    page.get_by_label("Text").fill("beanstalkd")
    page.locator("select[name=verdict]").select_option("conforms")
    assert shown(page, ".servers tbody th") == ["beanstalkd 1.12"]
    page.wait_for_url("**/index.html?verdict=conforms&text=beanstalkd")
    page.get_by_role("link", name="beanstalkd 1.12").click()
    page.go_back()
    assert shown(page, ".servers tbody th") == ["beanstalkd 1.12"]
    assert page.locator("output").inner_text() == "1 of 15 servers"
    page.get_by_role("button", name="Clear").click()
    page.wait_for_url("**/index.html")
    assert len(shown(page, ".servers tbody th")) == 15


def test_only_where_two_servers_differ(page: Page, address: str) -> None:
    page.goto(f"{address}/requirements.html")
    page.locator("[name=a]").select_option("beanstalkd 1.12")
    page.locator("[name=b]").select_option("beanstalkd 1.9")
    page.get_by_label("only where these differ").check()
    assert shown(page, "tr.row") == ["put.fails"]
    assert shown(page, "thead th[data-server]") == ["beanstalkd 1.9", "beanstalkd 1.12"]
    assert page.locator("tr.row:visible td:visible").count() == 2
    query = "a=beanstalkd_1.12&b=beanstalkd_1.9&differ=on"
    page.wait_for_url(f"**/requirements.html?{query}")
    page.reload()
    assert shown(page, "tr.row") == ["put.fails"]
    # Of what the fork has not run, nothing is known.
    page.locator("[name=b]").select_option("My Fork")
    assert shown(page, "tr.row") == []
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Verdict").select_option("non-strict")
    assert shown(page, "tr.row") == ["peek.d"]


def test_a_link_to_a_requirement_shows_it_even_if_it_was_filtered(page: Page, address: str) -> None:
    page.goto(f"{address}/requirements.html?text=nothing&section=Gone#peek.d")
    assert page.locator("[id='peek.d']").is_visible()
    page.wait_for_url("**/requirements.html#peek.d")


def test_from_a_number_to_the_bytes(page: Page, address: str) -> None:
    page.goto(f"{address}/index.html")
    row = page.locator("tr", has=page.get_by_role("link", name="beanstalkd 1.9", exact=True))
    row.get_by_role("link", name="50 %").first.click()
    assert page.get_by_label("Section").input_value() == "Producer Commands"
    page.locator('.map a[data-slug="put.fails"]').click()
    page.wait_for_url("**/beanstalkd_1.9.html?section=Producer%20Commands#put.fails")
    expect(page.locator("[id='put.fails']")).to_be_focused()
    article = page.locator("[id='put.fails']")
    assert article.locator("mark").inner_text() == "> A < USING b\\r\\n"
    article.get_by_role("link", name="at all servers").click()
    assert page.locator("h1").inner_text() == "put.fails"
    page.get_by_role("link", name="beanstalkd 1.12").click()
    expect(page.locator("[id='put.fails']")).to_be_focused()


def test_the_badge_of_a_server_is_drawn(page: Page, address: str) -> None:
    page.goto(f"{address}/servers/beanstalkd_1.9.html")
    badge = page.get_by_role("img", name="3 of 4 must requirements")
    assert badge.evaluate("image => image.complete && image.naturalWidth") > 50


@pytest.mark.parametrize("size", SIZES, ids=("360", "1600"))
def test_every_kind_of_page_fits_and_can_be_read(
    page: Page, address: str, size: ViewportSize
) -> None:
    page.set_viewport_size(size)
    for name in PAGES:
        page.goto(f"{address}/{name}")
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], name
        if not name.startswith("requirements.html"):
            assert page.evaluate(CUT_OFF, size["width"]) == [], name
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            assert page.evaluate(CONTRASTS) == [], (name, scheme)


def test_what_assistive_technology_needs(page: Page, address: str) -> None:
    for name in PAGES:
        page.goto(f"{address}/{name}")
        assert page.evaluate(FAULTS) == [], name


FAULTS = """() => {
  const all = (what) => [...document.querySelectorAll(what)];
  const wrong = [];
  const check = (good, told) => good || wrong.push(told);
  check(document.documentElement.lang === "en" && document.title, "language or title");
  for (const mark of ["h1", "main", "header", "footer"]) check(all(mark).length === 1, mark);
  all("h1, h2, h3, h4").reduce((before, title) => {
    const level = Number(title.tagName[1]);
    check(level <= before + 1, `level of ${title.textContent}`);
    return level;
  }, 0);
  for (const field of all("input, select")) check(field.labels.length, `label of ${field.name}`);
  for (const part of all("nav, [role=region], form")) check(part.ariaLabel, part.className);
  for (const part of all("a[href], button, svg[role=img], img"))
    check(part.textContent.trim() || part.title || part.ariaLabel || part.alt, part.outerHTML);
  for (const head of all("th")) check(head.scope, `scope of ${head.textContent}`);
  const ids = all("[id]").map((part) => part.id);
  check(ids.length === new Set(ids).size, "an id is there twice");
  for (const part of all("[aria-labelledby]"))
    for (const id of part.getAttribute("aria-labelledby").split(" "))
      check(document.getElementById(id), id);
  return wrong;
}"""
"""Faults that make a page hard to use for those who do not see it."""


def test_by_keyboard(page: Page, address: str) -> None:
    page.goto(f"{address}/index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.get_by_role("button", name="Clear").focus()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "an-other-server-0 1.12":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/servers/an-other-server-0_1.12.html")
    page.goto(f"{address}/requirements.html")
    page.locator("[id='put.fails'] a").first.focus()
    page.keyboard.press("Tab")
    # Not the cells of the row, of which there are thousands.
    assert page.evaluate("document.activeElement.textContent") == "peek.d"


def test_without_javascript(browser: Browser, address: str) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{address}/index.html")
        assert page.locator("form").is_hidden()
        assert len(shown(page, ".servers tbody th")) == 15
        page.get_by_role("link", name="beanstalkd 1.9", exact=True).click()
        assert page.locator("[id='put.fails'] mark").is_visible()
        page.goto(f"{address}/servers/beanstalkd_1.9.html#quirk.c")
        expect(page.locator("[id='quirk.c']")).to_be_visible()
        page.goto(f"{address}/requirements.html")
        assert len(shown(page, "tr.row")) == 4


def test_forged_results_do_not_get_into_the_site(page: Page, tmp_path: Path) -> None:
    site = Site(servers(forged()))
    write_site(site, tmp_path)
    for name in ("index", "requirements", "requirements/put.a", f"servers/{site.servers[0].slug}"):
        page.goto(f"file://{tmp_path}/{name}.html")
        assert page.title() != "executed"
        assert page.locator("img:not(.badge)").count() == 0
        assert page.locator("script").count() <= 1


def test_tables_can_be_sorted(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 1600, "height": 900})
    page.goto(f"{address}/index.html")
    names = shown(page, ".servers tbody th")
    head = page.locator("thead th", has_text="Server").get_by_role("button")
    head.click()
    ascending = shown(page, ".servers tbody th")
    head.click()
    assert shown(page, ".servers tbody th") == ascending[::-1] != ascending
    assert sorted(ascending) == sorted(names)
    page.locator("thead th", has_text="All sections").get_by_role("button").click()
    percents = [
        int(cell.get_attribute("data-sort") or "")
        for cell in page.locator("td[data-label='All sections']").all()
    ]
    assert percents == sorted(percents)
    assert percents[0] < percents[-1]


def test_cards_can_be_sorted(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(f"{address}/index.html")
    before = shown(page, ".servers tbody th")
    page.get_by_label("Sort by").select_option(label="All sections")
    after = shown(page, ".servers tbody th")
    assert sorted(after) == sorted(before)
    assert after != before


@pytest.mark.parametrize("width", [360, 1400])
def test_labels_do_not_break_inside_words(page: Page, address: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    for name in PAGES:
        page.goto(f"{address}/{name}")
        assert page.evaluate(BROKEN_LABELS) == [], name


BROKEN_LABELS = """() => {
  const broken = [];
  const labels = "thead th:not([data-server]), .cards .word, .cards .of, .level";
  for (const label of document.querySelectorAll(labels)) {
    if (!label.checkVisibility()) continue;
    const texts = document.createTreeWalker(label, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      for (const { index, 0: word } of text.data.matchAll(/[^\\s-]+-?/g)) {
        const range = document.createRange();
        range.setStart(text, index);
        range.setEnd(text, index + word.length);
        if (range.getClientRects().length > 1) broken.push(word);
      }
    }
  }
  return broken;
}"""
