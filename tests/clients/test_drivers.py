"""The drivers of client libraries, the templates of drivers, and drivers in a debugger."""

from __future__ import annotations

import contextlib
import os
import pty
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.clients.campaign import ClientCampaign
from conformance.clients.cases import all_cases
from conformance.clients.driver import Driver
from conformance.clients.listening import ANSWERS, QUESTIONS
from conformance.clients.server import ScriptedServer
from conformance.console.client import TEMPLATES
from tests import ROOT
from tests.clients.faults import PROGRAM_FAULTS
from tests.servers import needs_gcc, needs_npm

CLIENTS = Path(__file__).parent
DRIVERS = Path(str(files("conformance.clients") / "drivers"))
FOLDER = Path(str(files("conformance.clients") / "templates"))
TRIED = ("send.put", "send.delete", "reply.reserve-reserved", "reply.delete-not-found")
"""Requirements that all of these libraries meet."""
PYTHON = {"greenstalk": 25, "aiostalk": 25, "pystalk": 19, "pystalkd": 24}
NODE = {"node-beanstalk": 25, "fivebeans": 24, "jackd": 26}
"""Libraries, and how many of the operations their drivers support."""


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


def has(*command: str) -> bool:
    """Return whether a program can load a library."""
    with contextlib.suppress(OSError):
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    return False


def judge(*command: str, supported: int) -> None:
    """Check the operations that a driver supports, and requirements that its library meets."""
    campaign = ClientCampaign(lambda: Driver(command), timeout=20.0, workers=1)
    found = campaign.self_test()
    assert len(found) + len(("connect",)) == supported, sorted(found)
    outcomes = campaign.run([case for case in all_cases() if case.slug in TRIED])
    assert [(one.case.id, one.reason) for one in outcomes if one.verdict != "pass"] == []


def test_a_driver_that_spins_ends_with_the_suite(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    script = f"import os; open({str(place)!r}, 'w').write(str(os.getpid()) + '.')\nwhile True: pass"
    command = [sys.executable, "-m", "conformance", "client", "--", sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as suite:
        while not (place.exists() and place.read_text().endswith(".")):
            assert suite.poll() is None
            time.sleep(0.01)
        suite.kill()
    folder = Path("/proc") / place.read_text().rstrip(".")
    end = time.monotonic() + 60
    while (folder / "exe").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not (folder / "exe").exists()


@pytest.mark.parametrize("library", PYTHON)
def test_a_driver_in_python(library: str) -> None:
    judge(sys.executable, str(DRIVERS / f"drive_{library}.py"), supported=PYTHON[library])


@needs_npm
def test_the_drivers_in_javascript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(CLIENTS / "package.json", tmp_path)
    install = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
    done = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("NODE_PATH", str(tmp_path / "node_modules"))
    for library, supported in NODE.items():
        name = library.replace("-", "_")
        judge("node", str(DRIVERS / f"drive_{name}.js"), supported=supported)


@pytest.mark.skipif(not has("ruby", "-rbeaneater", "-e", ""), reason="no beaneater for ruby")
def test_the_driver_in_ruby() -> None:
    judge("ruby", str(DRIVERS / "drive_beaneater.rb"), supported=24)


@pytest.mark.skipif(
    not has("php", "-r", 'require "Pheanstalk/autoload.php";'), reason="no pheanstalk for php"
)
def test_the_driver_in_php() -> None:
    judge("php", str(DRIVERS / "drive_pheanstalk.php"), supported=24)


@pytest.mark.skipif(not has("perl", "-MBeanstalk::Client", "-e", ""), reason="no library for perl")
def test_the_driver_in_perl() -> None:
    judge("perl", str(DRIVERS / "drive_beanstalk_client.pl"), supported=24)


@pytest.mark.skipif(not has("lua5.4", "-e", 'require "haricot"'), reason="no haricot for lua")
def test_the_driver_in_lua() -> None:
    judge("lua5.4", str(DRIVERS / "drive_haricot.lua"), supported=24)


@pytest.mark.parametrize("program", sorted(DRIVERS.iterdir()), ids=lambda program: program.name)
def test_a_driver_is_short(program: Path) -> None:
    if program.is_file():
        assert len(program.read_text().splitlines()) <= 60


@pytest.mark.parametrize("language", TEMPLATES)
def test_a_template_is_printed_and_short(language: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["client", "--template", language]) == 0
    said = capsys.readouterr().out
    assert said == (FOLDER / TEMPLATES[language]).read_text()
    assert len(said.splitlines()) <= 30


TINY: dict[str, tuple[str, pytest.MarkDecorator | tuple[()]]] = {
    "python": (f"PYTHONPATH=TINY {sys.executable} TEMPLATE", ()),
    "node": ("NODE_PATH=TINY node TEMPLATE", needs("node")),
    "ruby": ("ruby -ITINY TEMPLATE", needs("ruby")),
    "php": ("php -d include_path=TINY TEMPLATE", needs("php")),
    "perl": ("perl -ITINY TEMPLATE", needs("perl")),
    "lua": (
        "LUA_PATH='TINY/?.lua;;' lua5.4 TEMPLATE",
        pytest.mark.skipif(not has("lua5.4", "-e", 'require "socket"'), reason="no lua-socket"),
    ),
    "c": ("gcc -ITINY TEMPLATE -o BUILT/driver && BUILT/driver", needs_gcc),
    "java": ("javac -cp TINY -sourcepath TINY -d BUILT TEMPLATE && java -cp BUILT Driver",
             needs("javac")),
}  # fmt: skip
"""How each template runs with the tiny client of its language; that for Go is only parsed."""


@pytest.mark.parametrize(
    ("language", "command"),
    [pytest.param(name, command, marks=marks) for name, (command, marks) in TINY.items()],
)
def test_a_template_runs_a_tiny_client(language: str, command: str, tmp_path: Path) -> None:
    for name, path in {
        "TINY": CLIENTS / "tiny",
        "TEMPLATE": FOLDER / TEMPLATES[language],
        "BUILT": tmp_path,
    }.items():
        command = command.replace(name, shlex.quote(str(path)))
    driver, server = Driver(["sh", "-c", command]), ScriptedServer(jobs=(b"a\r\nb",))
    questions = {
        f"connect 127.0.0.1 {server.port}": "ok",
        "put 7 0 60 x6869": "ok 2",
        "reserve": "ok 1 x610d0a62",
        "delete 1": "ok",
        "kick 3": "unsupported",
    }
    try:
        for question, answer in questions.items():
            assert str(server.await_answer(driver, question, 60)) == answer, driver.said()
        wrong = server.await_answer(driver, "delete 99", 60)
        assert wrong is not None
        assert wrong.word == "error", driver.said()
    finally:
        driver.close()
        server.close()


@needs("gofmt")
def test_the_template_in_go_can_be_parsed() -> None:
    done = subprocess.run(["gofmt", "-e", FOLDER / "driver.go"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def listening(folder: Path, only: str) -> Iterator[subprocess.Popen[str]]:
    command = (sys.executable, "-m", "conformance", "client", "--listen", "--only", only)
    paths: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(ROOT)}
    suite = subprocess.Popen(command, cwd=folder, env=paths, stdout=subprocess.PIPE, text=True)
    try:
        assert suite.stdout is not None
        assert suite.stdout.readline() == "waiting for a driver: DRIVER <questions >answers\n"
        yield suite
    finally:
        suite.kill()
        suite.communicate()


def test_a_driver_that_its_author_starts(tmp_path: Path) -> None:
    program = tmp_path / "driver.py"
    program.write_text("print('hello from the library')\n" + (CLIENTS / "driver.py").read_text())
    with listening(tmp_path, "send.[pu]*") as suite:
        run = f"{sys.executable} {program} <{QUESTIONS} >{ANSWERS}"
        subprocess.run(["sh", "-c", run], cwd=tmp_path, timeout=60, check=True)
        said, _ = suite.communicate(timeout=60)
    assert "printed: hello from the library" in said
    assert "put 3 2 50 x6162" in said
    assert "no deviation in the 7 of" in said
    assert suite.returncode == 0
    assert not (tmp_path / QUESTIONS).exists()


def test_a_driver_that_ends_is_waited_for_again(tmp_path: Path) -> None:
    broken = "for q in open(0):\n n, o, *w = q.split()\n"
    broken += " if o == 'delete': raise SystemExit\n print('@beanstalk', n, 'ok 1', flush=True)\n"
    run = f"{sys.executable} -c {shlex.quote(broken)} <{QUESTIONS} >{ANSWERS}"
    with listening(tmp_path, "send.largest-id") as suite:
        subprocess.run(["sh", "-c", run], cwd=tmp_path, timeout=60, check=True)
        subprocess.run(["sh", "-c", run], cwd=tmp_path, timeout=60, check=True)
        said, _ = suite.communicate(timeout=60)
    assert said.count("waiting for a driver") == 1
    assert "OBSERVED" in said
    assert suite.returncode == 1


def test_a_driver_that_its_author_starts_plays_random_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = PROGRAM_FAULTS["uses no tube twice"]
    (tmp_path / "driver.py").write_text(fault.source())
    monkeypatch.chdir(tmp_path)
    # Those that wait for replies would take minutes, one after another.
    directed = [case for case in all_cases() if case.slug.startswith("send.")]
    monkeypatch.setattr("conformance.console.client.all_cases", lambda: directed)
    run = f"until [ -p {ANSWERS} ]; do sleep 0.05; done; "
    run += f"{sys.executable} driver.py <{QUESTIONS} >{ANSWERS}"
    driver = subprocess.Popen(["sh", "-c", run])
    try:
        assert main(["client", "--listen", "--only", fault.slug]) == 1
    finally:
        driver.kill()
        driver.wait()
    said = capsys.readouterr().out
    assert said.count("waiting for a driver") == 1
    assert f"fail: client::{fault.slug}" in said
    assert "1 must requirement broken" in said


def test_a_driver_in_pdb(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "client-drivers.md").read_text()
    [row] = [line for line in page.splitlines() if line.startswith("| pdb |")]
    command = row.split("`")[1].replace("python", sys.executable, 1)
    shutil.copy(CLIENTS / "driver.py", tmp_path / "my_driver.py")
    with listening(tmp_path, "send.put") as suite:
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(tmp_path)
            os.execvp("sh", ["sh", "-c", command])
        shown = _read(terminal, b"(Pdb)")
        os.write(terminal, b"p 6 * 7\n")
        shown += _read(terminal, b"42")
        os.write(terminal, b"c\n")
        said, _ = suite.communicate(timeout=60)
        os.waitpid(child, 0)
        os.close(terminal)
    assert b"client.py" not in shown
    assert "no deviation in the 1 of" in said


def _read(terminal: int, wanted: bytes) -> bytes:
    shown, limit = b"", time.monotonic() + 60
    while wanted not in shown and time.monotonic() < limit:
        shown += os.read(terminal, 4096)
    assert wanted in shown
    return shown


def test_pipes_that_cannot_be_made_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / QUESTIONS).write_text("mine")
    monkeypatch.chdir(tmp_path)
    assert main(["client", "--listen"]) == 4
    assert "cannot make the named pipe questions: File exists" in capsys.readouterr().err
    assert (tmp_path / QUESTIONS).read_text() == "mine"
    assert main(["client", "--listen", "--", "driver"]) == 4
    assert "leave out its command" in capsys.readouterr().err
