"""README and documentation: their commands, links and examples agree with what is there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import sync_playwright

from beanstalk_conformance import OPTIONS
from conformance.catalogue import catalogue, read_catalogue
from conformance.console.matrix import read_servers
from conformance.oracle.check import check
from conformance.reading import parse
from conformance.run.baseline import read_baseline
from reference_server.dialect_file import read_dialect
from reference_server.profiles import PROFILES
from tests import ROOT
from tests.command_line import suite
from tests.reference_server.test_dialects import DIALECTS
from tests.servers import CHROMIUM, needs_chromium

README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [README, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *DOCS]
BOTH = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
HELP = {
    "pytest": ("-m", "pytest", "--help"),
    "reference_server": ("-m", "reference_server", "--help"),
    **{
        name: ("-m", "conformance", name, "--help")
        for name in (
            "run",
            "list",
            "check",
            "client",
            "replay",
            "draw",
            "proxy",
            "report",
            "compare",
            "site",
            "serve",
            "fuzz",
            "explore",
            "durability",
            "scale",
            "cleanup",
            "profile",
        )
    },
}
"""What tells which options a program has."""


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command, in blocks, indented lines and tables."""
    text = page.read_text(encoding="utf-8")
    told = "".join(blocks(page, "sh")).replace("\\\n", "").splitlines()
    told += re.findall(r"^    (.*(?:\.venv|\bpytest) .*)$", text, re.MULTILINE)
    told += re.findall(r"`((?:beanstalk-conformance|pytest|python -m|tox) [^`]*)`", text)
    for line in told:
        for command in re.split(r" (?:&&|\|\|) ", line):
            yield shlex.split(command)


def program(words: list[str]) -> str | None:
    """Return the key of ``HELP`` for a command; None for the commands of others."""
    name = Path(words[0]).name
    if name == "beanstalk-conformance":
        return words[1]
    if words[:3] == ["python", "-m", "reference_server"]:
        return "reference_server"
    return "pytest" if name == "pytest" else None


@cache
def options(name: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, *HELP[name]], capture_output=True, text=True, cwd=ROOT, check=True
    )
    known = set(re.findall(r"(?<![\w-])(--?[a-z][\w-]*)", done.stdout))
    return known | {f"--{option}" for option in OPTIONS} if name in ("run", "list") else known


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_ci_runs_the_test_command_of_the_readme() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    main, all_tests = (line.strip() for line in lines if re.match(r"    .*\.venv/bin", line))
    assert main.endswith("pytest --target=127.0.0.1:11300")
    assert all_tests in (ROOT / ".ci" / "run").read_text().splitlines()


def test_the_first_answer_in_the_readme_is_a_real_one() -> None:
    shown = re.search(r"^    REQUIREMENT (.*?)\n\n", README.read_text("utf-8"), re.M | re.S)
    assert shown is not None
    expected = re.escape(re.sub(r"^    ", "", shown[0].strip(), flags=re.M))
    expected = expected.replace(r"\ \ …", r".*").replace("e5b46a\\-234", r"\w+\-\d+")
    fault = "the-last-watched-tube-can-be-ignored"
    command = f"{sys.executable} -m reference_server -p {{port}} --fault {fault}"
    done = suite(f"--launch={command}", "-k", "ignore.not-ignored")
    assert re.search(expected, done.stdout, re.S), done.stdout


def test_commands_have_options_that_exist() -> None:
    for words in (words for page in PAGES for words in commands(page)):
        name = program(words)
        if name is not None:
            used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
            assert used <= options(name), words


@BOTH
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


@BOTH
def test_files_that_are_named_exist(page: Path) -> None:
    tops = "conformance|fuzz|reference_server|reports|tests|docs|\\.ci"
    text = page.read_text(encoding="utf-8")
    named = re.findall(rf"`((?:{tops})/[\w./-]*)`", text)
    built = {"docs/_build"}
    assert [path for path in named if path not in built and not (ROOT / path).exists()] == []


@BOTH
def test_code_is_well_formed(page: Path, tmp_path: Path) -> None:
    for code in blocks(page, "python"):
        compile(code, str(page), "exec")
    for text in blocks(page, "yaml"):
        content = yaml.safe_load(text)
        if "jobs" in content:
            continue
        file = tmp_path / "10-example.yaml"
        file.write_text(text)
        if "extends" in content:
            assert read_dialect(file)
        elif "requirements" in content:
            assert set(content["requirements"]) < set(read_catalogue(tmp_path, catalogue()))
        elif all(isinstance(value, list) for value in content.values()):
            assert read_servers(file) == content
        else:
            assert read_baseline(file)


def test_the_examples_of_a_fork_are_those_of_the_gallery() -> None:
    page, fork = ROOT / "docs" / "dialects.md", DIALECTS["antikirra"]
    kept = [path.read_text(encoding="utf-8") for path in (fork, *fork.with_suffix("").glob("*.*"))]
    shown = [*blocks(page, "yaml"), *blocks(page, "python")]
    # The imports of the example are those that it needs alone.
    tests = (text.partition("\n\n\n")[2] or text for text in shown)
    from_gallery = [text for text in tests if any(text.rstrip() in file for file in kept)]
    assert len(from_gallery) == 3


def test_the_example_of_a_transcript_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = ROOT / "docs" / "transcripts.md"
    (transcript, *_), (code,) = blocks(page, "text"), blocks(page, "python")
    assert check(parse(transcript), PROFILES["1.13"]) is None
    (tmp_path / "FILE").write_text(transcript)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(page), "exec"), {})
    assert capsys.readouterr().out == "allowed\n"
    (tmp_path / "FILE").write_text(transcript.replace("TIMED_OUT", "NOT_FOUND"))
    exec(compile(code, str(page), "exec"), {})
    assert capsys.readouterr().out.startswith("expected TIMED_OUT")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q"]
    done = subprocess.run(
        [*command, "-d", folder / "trees", ROOT / "docs", folder / "html"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


def test_each_page_is_in_the_site(site: Path) -> None:
    assert {page.with_suffix(".html").name for page in DOCS} <= {
        file.name for file in site.glob("*.html")
    }


@needs_chromium
@pytest.mark.parametrize("width", [360, 1400])
def test_no_page_scrolls_sideways(site: Path, width: int) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        for source in DOCS:
            page.goto((site / source.with_suffix(".html").name).as_uri())
            root = "document.documentElement"
            assert page.evaluate(f"{root}.scrollWidth - {root}.clientWidth") == 0, source
        browser.close()


def test_the_picture_of_the_architecture_has_the_layers_that_are_checked() -> None:
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter")
    layers = re.findall(r"[\w.]+", contracts["importlinter:contract:layers"]["layers"])
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^(conformance/\w+|fuzz|reference_server)/?  ", text, re.MULTILINE)
    names = [name.replace("/", ".") for name in drawn]
    assert [name for name in layers if name in names] == names
    assert {name for name in layers if (ROOT / name.replace(".", "/")).is_dir()} == {*names}
