"""The plugin among other projects: their plugins, and their packages of the same names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from beanstalk_conformance import PACKAGES

PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q")
CONSOLE = str(Path(sys.executable).with_name("beanstalk-conformance"))
SUITE = ("--pyargs", "conformance", "fuzz", "-k", "peek.")
POPULAR = (
    *("pytest-asyncio", "pytest-bdd", "pytest-benchmark", "pytest-cov", "pytest-django"),
    *("pytest-env", "pytest-html", "pytest-json-report", "pytest-mock", "pytest-order"),
    *("pytest-profiling", "pytest-randomly", "pytest-repeat", "pytest-reporter"),
    *("pytest-rerunfailures", "pytest-sugar", "pytest-timeout"),
)
"""The plugins of the tox environment `plugins`."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with packages that are called like ours, and a test of its own."""
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = True\n")
    imports = "".join(f"import {name}\nassert {name}.MINE\n" for name in PACKAGES)
    (tmp_path / "test_mine.py").write_text(f"{imports}\ndef test_mine():\n    pass\n")
    return tmp_path


def run(project: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    "command",
    [
        (*PYTEST, *SUITE),
        (*PYTEST, *SUITE, "-n", "2"),
        (str(Path(sys.executable).with_name("pytest")), "-q", *SUITE),
        (CONSOLE, "run", "-q", "-k", "peek."),
    ],
    ids=["python -m pytest", "xdist", "pytest", "console"],
)
def test_the_suite_runs_in_a_folder_with_packages_of_its_names(
    project: Path, command: tuple[str, ...]
) -> None:
    done = run(project, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "reference server 1.13 (profile 1.13): " in done.stdout


@pytest.mark.parametrize("command", [PYTEST, (*PYTEST, "--pyargs", "test_mine")])
def test_the_tests_of_that_folder_get_their_own_packages(
    project: Path, command: tuple[str, ...]
) -> None:
    done = run(project, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "profile 1.13" not in done.stdout


def test_a_conftest_that_has_loaded_such_a_package_is_named(project: Path) -> None:
    (project / "conformance" / "conftest.py").write_text("import reports\n")
    done = run(project, *PYTEST, *SUITE)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "shadows the package" in done.stderr
    assert "add --noconftest" in done.stderr
    assert "Traceback" not in done.stderr
    assert run(project, *PYTEST, *SUITE, "--noconftest").returncode == 0
    assert run(project, CONSOLE, "run", "-q", "-k", "peek.").returncode == 0


def test_options_have_a_prefix_that_nobody_else_has(tmp_path: Path) -> None:
    _, _, ours = run(tmp_path, *PYTEST, "--help").stdout.partition("conformance of beanstalk")
    names = re.findall(r"^  (--[\w-]+)", ours.partition("\n\n")[0], re.MULTILINE)
    assert [name for name in names if not name.startswith("--beanstalk-")] == [
        "--target",
        "--launch",
    ]


def test_the_popular_plugins_are_there_in_their_environment() -> None:
    if "BESIDE_PLUGINS" not in os.environ:
        pytest.skip("tox -e plugins runs these tests beside popular plugins")
    assert set(POPULAR) <= {found.metadata["Name"] for found in metadata.distributions()}
