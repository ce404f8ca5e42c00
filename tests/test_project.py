"""The project's own promises: README, CI and catalogue agree with what is there."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from conformance.baseline import read_baseline
from conformance.catalogue import catalogue

ROOT = Path(__file__).parent.parent


def _readme_commands() -> list[str]:
    lines = (ROOT / "README.md").read_text().splitlines()
    return [line.strip() for line in lines if line.startswith("    python3 -m venv")]


def test_ci_runs_the_test_command_of_the_readme() -> None:
    main, all_tests = _readme_commands()
    assert main.endswith("pytest")
    assert all_tests in (ROOT / ".ci" / "run").read_text().splitlines()


def test_every_requirement_has_a_test_and_every_test_a_requirement() -> None:
    tested = set()
    for file in sorted((ROOT / "conformance").glob("test_*.py")):
        module = importlib.import_module(f"conformance.{file.stem}")
        for name, test in vars(module).items():
            if name.startswith("test_"):
                slugs = _slugs(getattr(test, "pytestmark", []))
                assert slugs, f"{file.name}: {name} names no requirement"
                tested |= slugs
    assert tested == set(catalogue())


def _slugs(marks: Iterable[pytest.Mark]) -> set[str]:
    """The requirements that marks name, those of parameters included."""
    found: set[str] = set()
    for mark in marks:
        if mark.name == "requirement":
            found |= set(mark.args)
        elif mark.name == "parametrize":
            for value in mark.args[1]:
                found |= _slugs(getattr(value, "marks", []))
    return found


@pytest.mark.parametrize("file", sorted((ROOT / "conformance" / "baselines").glob("*.yaml")))
def test_the_baselines_that_ship_are_well_formed(file: Path) -> None:
    assert read_baseline(file)


def test_requirements_are_named_by_section_and_statement() -> None:
    assert len(catalogue()) > 100
    for slug in catalogue():
        section, dot, statement = slug.partition(".")
        assert "" not in (section, dot, statement)
        assert slug == slug.lower()
