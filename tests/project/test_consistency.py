"""The project's own promises: catalogue, baselines and gallery agree with what is there."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import conformance.tests
from beanstalk_conformance import PACKAGES
from conformance.catalogue import catalogue
from conformance.run.baseline import read_baseline
from reference_server.commands import COMMANDS
from reference_server.profiles import PROFILES
from reports.gallery.__main__ import README, write
from reports.gallery.clients import client_results_of, clients
from reports.gallery.servers import FOLDER, results_of, servers
from tests import ROOT
from tests.faults import cases

RIDDLES = ("How", "That", "Those", "What", "Whether", "Which", "Who", "Whose")
"""First words that make a docstring a riddle: functions begin with a verb, others with a noun."""
NO_VERB = re.compile(
    r"(A|After|All|An|Another|As|At|By|Each|Every|For|From|If|In|Nobody|No|Nothing|Of|On|One|Only"
    r"|Other|Some|Something|The|Under|When|Where|Why|With|Without|\w*s)\b|[^A-Z]"
)
"""How no docstring of a function begins: with a noun, in the third person, or with a name."""


def _docstrings(file: Path) -> Iterator[str]:
    """Yield all strings that stand alone: docstrings, also those of attributes and constants."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text


@pytest.mark.parametrize("package", ["conformance", "fuzz", "reference_server", "reports"])
def test_docstrings_are_no_riddles(package: str) -> None:
    riddles = [
        f"{path}: {text.strip().splitlines()[0]}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for text in _docstrings(path)
        if text.split(maxsplit=1)[:1] and text.split(maxsplit=1)[0] in RIDDLES
    ]
    assert riddles == []


def _functions(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and docstrings of functions; a property is told of as a noun."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            told = ast.get_docstring(node)
            if told and not any("property" in ast.unparse(one) for one in node.decorator_list):
                yield node.name, told


@pytest.mark.parametrize("package", ["conformance", "fuzz", "reference_server", "reports"])
def test_docstrings_of_functions_begin_with_a_verb(package: str) -> None:
    others = [
        f"{path}: {name}: {text.splitlines()[0]}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for name, text in _functions(path)
        if NO_VERB.match(text)
    ]
    assert others == []


def current() -> set[str]:
    """Return the requirements of the profiles that there are."""
    return {
        slug
        for slug, requirement in catalogue().items()
        if not all(requirement.missing_in(profile) for profile in PROFILES)
    }


def test_every_requirement_has_a_test_and_every_test_a_requirement() -> None:
    assert [case.name for case in cases() if not case.slugs] == []
    assert {slug for case in cases() for slug in case.slugs} == current()


def test_the_list_of_the_files_of_tests_is_complete() -> None:
    files = {path.stem for path in Path(conformance.tests.__path__[0]).glob("test_*.py")}
    listed = set(re.findall("`(test_[a-z_]+)`", conformance.tests.__doc__ or ""))
    # A file that is named like a command needs no words.
    named = {f"test_{verb.replace('-', '_')}" for verb in COMMANDS}
    assert listed <= files <= listed | named


@pytest.mark.parametrize("file", sorted((ROOT / "conformance" / "baselines").glob("*.yaml")))
def test_the_baselines_that_ship_are_well_formed(file: Path) -> None:
    assert read_baseline(file)


def test_requirements_are_named_by_section_and_statement() -> None:
    assert len(catalogue()) > 100
    for slug in catalogue():
        section, dot, statement = slug.partition(".")
        assert "" not in (section, dot, statement)
        assert slug == slug.lower()


def test_the_gallery_is_made_from_its_results(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_bytes(README.read_bytes())
    write(tmp_path, readme)
    assert readme.read_bytes() == README.read_bytes()
    of_servers = ("comparison.html", "comparison.md", "servers.md", "overview.svg")
    for name in (*of_servers, "clients.md", "clients-comparison.md"):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()
    assert {*FOLDER.glob("*.json*")} <= set(map(results_of, servers()))
    assert {*(FOLDER / "clients").iterdir()} <= set(map(client_results_of, clients()))


def test_no_variable_of_a_comprehension_hides_a_builtin_that_is_called_beside_it() -> None:
    """Python 3.12.1 compiles that to a function that ends in an UnboundLocalError."""
    for file in (file for package in PACKAGES for file in (ROOT / package).rglob("*.py")):
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                inside = list(ast.walk(function))
                targets = [one.target for one in inside if isinstance(one, ast.comprehension)]
                names = {getattr(one, "id", "") for to in targets for one in ast.walk(to)}
                calls = [one.func for one in inside if isinstance(one, ast.Call)]
                called = {one.id for one in calls if isinstance(one, ast.Name)}
                assert not names & called & set(dir(builtins)), (file, function.name)
