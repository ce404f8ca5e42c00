"""The fixtures of the pytest plugin, in projects that use nothing else of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beanstalk_conformance import PACKAGES
from tests.project.test_other_projects import PYTEST, run

ASK = """
import socket


def ask(server, data):
    with socket.create_connection(server.address, 20) as sock:
        sock.sendall(data)
        return sock.recv(1000)
"""
WORKS = """
from asking import ask


def test_put(beanstalk_server):
    assert ask(beanstalk_server, b"put 0 0 60 1\\r\\na\\r\\n") == b"INSERTED 1\\r\\n"
    (job,) = beanstalk_server.jobs(tube="default")
    assert job.body == b"a"


def test_fresh(beanstalk_server, beanstalk_clock):
    assert ask(beanstalk_server, b"put 0 3600 60 1\\r\\na\\r\\n") == b"INSERTED 1\\r\\n"
    assert beanstalk_clock is beanstalk_server.clock
    beanstalk_clock.advance(3600)
    assert ask(beanstalk_server, b"reserve-with-timeout 0\\r\\n") == b"RESERVED 1 1\\r\\na\\r\\n"
"""
FAILS = """
import pytest
from asking import ask


def test_fails(beanstalk_server):
    ask(beanstalk_server, b"use mail\\r\\n")
    assert False


@pytest.fixture
def broken(beanstalk_server):
    ask(beanstalk_server, b"use post\\r\\n")
    raise KeyError("broken")


def test_has_no_setup(broken):
    pass


@pytest.fixture
def untidy(beanstalk_server):
    yield
    ask(beanstalk_server, b"use past\\r\\n")
    raise KeyError("untidy")


def test_has_no_end(untidy):
    pass


def test_passes(beanstalk_server):
    ask(beanstalk_server, b"use fine\\r\\n")


def test_uses_no_server():
    assert False
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "asking.py").write_text(ASK)
    return tmp_path


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_the_fixtures_work_where_the_plugin_is_installed(
    project: Path, options: tuple[str, ...]
) -> None:
    for number in range(4):
        (project / f"test_{number}.py").write_text(WORKS)
    done = run(project, *PYTEST, "-W", "error", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_failing_test_shows_its_conversation(project: Path, options: tuple[str, ...]) -> None:
    (project / "test_it.py").write_text(FAILS)
    done = run(project, *PYTEST, *options)
    assert "2 failed, 2 passed, 2 errors" in done.stdout
    assert done.stdout.count("- beanstalk transcript -") == 3
    for tube in ("mail", "post", "past"):
        # On a busy machine, a line of time is between the two.
        assert f"  A > use {tube}\\r\\n\n" in done.stdout
        assert f"  A < USING {tube}\\r\\n\n" in done.stdout
    assert "USING fine" not in done.stdout


def test_an_indirect_parameter_is_a_fault(project: Path) -> None:
    (project / "test_it.py").write_text(
        """
import pytest
from asking import ask

FAULT = "the-last-watched-tube-can-be-ignored"


@pytest.mark.parametrize("beanstalk_server", [FAULT], indirect=True)
def test_it(beanstalk_server):
    assert ask(beanstalk_server, b"ignore default\\r\\n") == b"WATCHING 0\\r\\n"
"""
    )
    assert run(project, *PYTEST).returncode == 0


LOADED = """
import json
import sys
from pathlib import Path


def pytest_sessionfinish(session):
    plugins = [name for name, _ in session.config.pluginmanager.list_name_plugin()]
    Path("loaded.json").write_text(json.dumps([list(sys.modules), plugins]))
"""
OURS = {"beanstalk_conformance", *PACKAGES}


@pytest.mark.parametrize("uses", [True, False])
def test_nothing_else_of_the_suite_is_loaded(project: Path, uses: bool) -> None:
    (project / "conftest.py").write_text(LOADED)
    (project / "test_it.py").write_text(WORKS if uses else "def test_it():\n    pass\n")
    done = run(project, *PYTEST)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("2 passed" if uses else "1 passed") in done.stdout
    modules, plugins = json.loads((project / "loaded.json").read_text())
    loaded = [name for name in modules if name.partition(".")[0] in OURS]
    packages = {name.partition(".")[0] for name in loaded}
    assert packages == {"beanstalk_conformance"} | ({"reference_server"} if uses else set())
    assert not any(name.startswith("reference_server.faults") for name in loaded)
    assert ("beanstalk_transcripts" in plugins) == uses
    assert "conformance.run.plugin" not in plugins


def test_a_package_of_the_same_name_is_named(project: Path) -> None:
    package = project / "reference_server"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (project / "test_it.py").write_text(f"import reference_server\n{WORKS}")
    done = run(project, *PYTEST)
    assert done.returncode == 1
    assert f"{package} shadows the package reference_server" in done.stdout
    assert "Traceback" not in done.stdout
    assert "entry.py" not in done.stdout


def test_the_fixtures_are_listed_with_what_they_do(project: Path) -> None:
    listed = run(project, *PYTEST, "--fixtures").stdout
    assert "beanstalk_server -- " in listed
    assert "Run a beanstalk server on a free port of 127.0.0.1" in listed
    assert "beanstalk_clock -- " in listed
