"""The set-up of the tests: what it installs, and how it names what it cannot install."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests import ROOT

PYTHON = """
if [ "$2" = venv ]; then mkdir -p .venv/bin; ln -sf "$BIN/true" .venv/bin/pip; fi
"""
"""A Python that makes virtual environments, and is new enough."""
APT = """
for name; do :; done
echo "$1 $name" >> "$BIN/asked"
if [ "$1" = install ] && [ "$name" = beanstalkd ]; then ln -s "$BIN/true" "$BIN/$name"; fi
if [ "$1" = install ] && [ "$name" = chromium ]; then exit 100; fi
"""
"""A package manager that knows beanstalkd, and no chromium."""


class Machine:
    """A machine that has a few programs only, with a copy of the checkout's set-up."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.checkout = folder / "checkout"
        shutil.copytree(ROOT / ".ci", self.checkout / ".ci")
        for name in ("bash", "sh", "dirname", "env", "ls", "ln", "mkdir", "true"):
            (self.bin / name).symlink_to(shutil.which(name) or name)
        self.give("python3", PYTHON)

    def give(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(f"#!{shutil.which('sh')}\n{script}\n")
        path.chmod(0o755)

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.bin), "BIN": str(self.bin), **more}
        return subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=self.checkout,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def set_up(self, **more: str) -> subprocess.CompletedProcess[str]:
        return self.run("bash", ".ci/setup", **more)

    def asked(self) -> list[str]:
        """Return what the package manager was asked to install."""
        lines = (self.bin / "asked").read_text().splitlines()
        return [line.removeprefix("install ") for line in lines if line.startswith("install ")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_setup_installs_what_is_missing_and_names_what_cannot_be(machine: Machine) -> None:
    machine.give("apt-get", APT)
    machine.give("id", "echo 0")
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert {"beanstalkd", "chromium"} <= set(machine.asked())
    assert "beanstalkd is not installed" not in done.stderr
    assert "chromium is not installed and cannot be; left out: tests of reports" in done.stderr
    assert (machine.checkout / ".venv").exists()


@pytest.mark.parametrize("sudo", ["", "exit 1"])
def test_setup_without_root_names_the_tests_that_are_left_out(machine: Machine, sudo: str) -> None:
    machine.give("apt-get", APT)
    machine.give("id", "echo 1000")
    if sudo:
        machine.give("sudo", sudo)
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert "left out: the suite on the real beanstalkd" in done.stderr
    assert not (machine.bin / "asked").exists()


def test_setup_uses_sudo_where_it_may(machine: Machine) -> None:
    machine.give("apt-get", APT)
    machine.give("id", "echo 1000")
    machine.give("sudo", 'if [ "$1" = -n ]; then shift; fi; exec "$@"')
    assert machine.set_up().returncode == 0
    assert "beanstalkd" in machine.asked()


def test_ci_leaves_nothing_out(machine: Machine) -> None:
    done = machine.run("bash", ".ci/run")
    assert done.returncode == 1
    assert "beanstalkd is not installed" in done.stderr


def test_an_old_python_is_refused_in_one_sentence(machine: Machine) -> None:
    machine.give("python3", 'case "$2" in *version*) exit 1;; esac; echo "Python 3.9.2"')
    done = machine.set_up()
    assert done.returncode == 1
    assert done.stderr == "setup: Python 3.9.2 is too old; Python 3.11 or newer is needed\n"


def test_a_command_runs_only_where_its_program_is_installed(machine: Machine) -> None:
    command = ("sh", ".ci/where-installed", "beanstalkd", "sh", "-c", "exit 3")
    left_out = machine.run(*command)
    assert left_out.returncode == 0
    assert "LEFT OUT, as beanstalkd is not installed: sh -c exit 3" in left_out.stderr
    machine.give("beanstalkd", "")
    assert machine.run(*command).returncode == 3
