"""The wheel and the sdist: complete, the same from both, and with the version of the tag."""

from __future__ import annotations

import email
import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from beanstalk_conformance import PACKAGES
from tests import ROOT

_BUILD = (sys.executable, "-m", "hatchling")
_GIT = ("git", "-c", "user.name=nobody", "-c", "user.email=", "-c", "init.defaultBranch=main")


def run(folder: Path, *command: str, **more: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **more}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def checkout() -> list[str]:
    """Return the files that git knows."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs git's list of the files of a checkout")
    return run(ROOT, "git", "ls-files").splitlines()


def copy(folder: Path) -> Path:
    for name in checkout():
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def build(folder: Path, kind: str, **more: str) -> Path:
    """Build a ``wheel`` or an ``sdist`` of a folder; return its file."""
    run(folder, *_BUILD, "build", "-t", kind, "-d", str(folder / "built"), **more)
    (made,) = (folder / "built").glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository like ours whose only commit has a tag."""
    folder = copy(tmp_path_factory.mktemp("tagged"))
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "All"), ("tag", "v7.8.9")):
        run(folder, *_GIT, *command)
    return folder


@pytest.fixture(scope="module")
def wheel(tagged: Path) -> Path:
    return build(tagged, "wheel")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder as ``site-packages`` is when the wheel has been installed."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_an_sdist_makes_the_same_wheel_byte_by_byte(
    tagged: Path, wheel: Path, tmp_path: Path
) -> None:
    shutil.unpack_archive(build(tagged, "sdist"), tmp_path)
    (unpacked,) = tmp_path.iterdir()
    again = build(unpacked, "wheel")
    assert again.name == wheel.name == "beanstalk_conformance-7.8.9-py3-none-any.whl"
    assert again.read_bytes() == wheel.read_bytes()


def test_a_copy_without_git_can_be_built(tmp_path: Path) -> None:
    assert run(copy(tmp_path), *_BUILD, "metadata", "version").split() == ["0.0"]


def test_the_wheel_has_all_files_of_the_packages(installed: Path) -> None:
    wanted = {
        name
        for name in checkout()
        if name.startswith(tuple(f"{package}/" for package in PACKAGES))
        and not name.startswith("reports/gallery/")
        and (ROOT / name).exists()
    }
    found = {str(file.relative_to(installed)) for file in installed.rglob("*") if file.is_file()}
    more = {name for name in found - wanted if ".dist-info/" not in name}
    assert wanted <= found
    assert more == {"beanstalk_conformance.py"}
    assert {f"{package}/py.typed" for package in PACKAGES} <= found


def test_the_metadata_is_complete(installed: Path) -> None:
    (folder,) = installed.glob("*.dist-info")
    told = email.message_from_string((folder / "METADATA").read_text(encoding="utf-8"))
    assert told["License-Expression"] == "MIT"
    assert (folder / "licenses" / "LICENSE").is_file()
    assert told["Requires-Python"] == ">=3.11"
    assert told["Description-Content-Type"] == "text/markdown"
    versions = {f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)}
    assert {*versions, "Framework :: Pytest", "Typing :: Typed"} <= set(
        told.get_all("Classifier", [])
    )
    assert told.get_all("Project-URL")


def test_each_dependency_has_a_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    needed += itertools.chain(*project["project"]["optional-dependencies"].values())
    names = {re.split("[<>=~ ]", one)[0] for one in needed}
    stubs = {name for name in names if name.startswith("types-") or name.endswith("-stubs")}
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Dependencies")[2]
    told = re.findall(r"^\| (.*?) \| .+ \|$", table, re.MULTILINE)
    assert names - stubs == set(re.findall("`([^`]+)`", " ".join(told))) - {"tox", "tox-uv"}
    assert all(">=" in one for one in needed)


def test_the_wheel_runs_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    module = (sys.executable, "-m", "conformance")
    path = {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    where = run(tmp_path, sys.executable, "-c", "print(__import__('conformance').__file__)", **path)
    assert Path(where.strip()).is_relative_to(installed)
    assert "7.8.9" in run(tmp_path, *module, "--version", **path)
    said = run(tmp_path, *module, "run", "-q", "-k", "peek.", "--report=told", **path)
    assert "reference server 1.13 (profile 1.13): " in said
    assert {"report.html", "results.json"} <= {file.name for file in (tmp_path / "told").iterdir()}
