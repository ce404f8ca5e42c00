"""Runs that are interrupted: nothing stays on a server of others, and no server of ours."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from conformance import yamlish
from conformance.run.interruption import Interruption
from conformance.run.options import Options
from conformance.run.suite import Suite
from conformance.target import clock
from conformance.target.address import Address, ask, ask_all, visit
from conformance.target.clock import FakeClock, clear_leftovers
from conformance.target.launch import Launched, LaunchError
from reports.results import read_results
from tests import ROOT
from tests.servers import REFERENCE_COMMAND

SUITE = ("pytest", "--pyargs", "conformance", "fuzz", "-p", "no:cacheprovider", "-q")
RUNS = {"alone": SUITE, "workers": (*SUITE, "-n", "2"), "fuzz": ("fuzz", "--jobs=2")}
LIMIT = 60.0
HEARD = """
import signal, runpy
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
runpy.run_module({!r}, run_name="__main__", alter_sys=True)
"""
"""Runs a module; where the tests run in the background, their children would ignore signals."""
needs_timeout = pytest.mark.skipif(shutil.which("timeout") is None, reason="there is no timeout")


@contextlib.contextmanager
def _running(*command: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a program of this Python, in a process group of its own, that hears all signals."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", HEARD.format(command[0]), *command[1:]],
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def _tubes(address: Address) -> list[str]:
    with visit(address, LIMIT) as sock:
        return yamlish.names(ask(sock, b"list-tubes", LIMIT).body or b"")


def _jobs(address: Address) -> int:
    with visit(address, LIMIT) as sock:
        stats = yamlish.dictionary(ask(sock, b"stats", LIMIT).body or b"")
    states = ("ready", "reserved", "delayed", "buried")
    return sum(int(stats[f"current-jobs-{state}"]) for state in states)


def _remote(server: Launched) -> str:
    return "--target={}:{}".format(*server.address)


@pytest.mark.parametrize(
    ("way", "number"),
    [
        *(("alone", number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)),
        *(("workers", number) for number in (signal.SIGINT, signal.SIGTERM)),
        ("fuzz", signal.SIGTERM),
    ],
)
def test_nothing_is_left_on_a_server_of_others(
    tmp_path: Path, way: str, number: signal.Signals
) -> None:
    with (
        Launched(REFERENCE_COMMAND) as server,
        _running(*RUNS[way], _remote(server), log=tmp_path / "log") as run,
    ):
        _await(lambda: _jobs(server.address) > 3)
        # A terminal tells all processes of Ctrl-C; others tell the first one of the end.
        if number == signal.SIGINT:
            os.killpg(run.pid, number)
        else:
            run.send_signal(number)
        run.wait(LIMIT)
        said = (tmp_path / "log").read_text()
        assert (_jobs(server.address), _tubes(server.address)) == (0, ["default"]), said
        assert "may be left" not in said
        assert "nothing was left on the server" in said
        assert "Traceback" not in said
        assert ".py:" not in said
        assert run.returncode == (0 if way == "fuzz" else pytest.ExitCode.INTERRUPTED), said
        assert ("interrupted after " in said) == (way == "fuzz")


def test_a_second_interrupt_ends_at_once_and_says_what_may_be_left(tmp_path: Path) -> None:
    with (
        Launched(REFERENCE_COMMAND) as server,
        _running(*SUITE, _remote(server), log=tmp_path / "log") as run,
    ):
        _await(lambda: _jobs(server.address) > 0)
        server.process.send_signal(signal.SIGSTOP)
        run.send_signal(signal.SIGINT)
        while run.poll() is None:
            time.sleep(0.2)
            run.send_signal(signal.SIGINT)
        server.process.send_signal(signal.SIGCONT)
        assert run.returncode == pytest.ExitCode.INTERRUPTED
    assert "jobs may be left in tubes conformance-" in (tmp_path / "log").read_text()


_GOES_ON = """
import contextlib, os, signal, time

def test_of_a_client() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.6)
    os.kill(os.getpid(), signal.SIGINT)
"""


def _interrupted(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """Run tests that interrupt themselves."""
    (folder / "test_that_interrupts.py").write_text(tests)
    with Launched(REFERENCE_COMMAND) as server:
        done = _told("pytest", str(folder), _remote(server), "-p", "no:cacheprovider", "-q")
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    return done


def test_a_second_interrupt_is_told_where_a_test_goes_on(tmp_path: Path) -> None:
    done = _interrupted(tmp_path, _GOES_ON)
    assert "interrupted again; jobs may be left in tubes conformance-" in done.stderr


_IN_A_CALLBACK = """
import os, signal, weakref

class Freed:
    pass

def test_that_frees() -> None:
    freed = Freed()
    _ = weakref.ref(freed, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    del freed

def test_that_is_not_run() -> None:
    pass
"""


def test_an_interrupt_that_python_ignores_is_raised_again_and_not_shown(tmp_path: Path) -> None:
    done = _interrupted(tmp_path, _IN_A_CALLBACK)
    assert "nothing was left on the server" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


_TAKES_LONG = """
import time
import pytest

@pytest.mark.requirement("use.using")
@pytest.mark.parametrize("number", range(2000))
def test_of_a_client(client, number: int) -> None:
    client.is_in_step()
    time.sleep(0.05)
"""


def _that_takes_long(folder: Path) -> list[str]:
    """Return the arguments of a run that takes long, and writes a report into ``folder``."""
    (folder / "test_takes_long.py").write_text(_TAKES_LONG)
    options = {"launch": REFERENCE_COMMAND, "beanstalk-clock": "real", "beanstalk-report": folder}
    told = [f"--{name}={value}" for name, value in options.items()]
    return [str(folder), "-p", "no:cacheprovider", "-q", *told]


@pytest.mark.parametrize("more", [(), ("-n", "2")], ids=["alone", "workers"])
def test_two_signals_at_once_are_one(tmp_path: Path, more: tuple[str, ...]) -> None:
    log = tmp_path / "log"
    with _running("pytest", *_that_takes_long(tmp_path), *more, log=log) as run:
        _await(lambda: re.search(rb"^\.{5}", log.read_bytes(), re.MULTILINE))
        # As `timeout` does: first the process, then its group.
        run.send_signal(signal.SIGINT)
        # Signals that nobody has taken yet are one for the system, too.
        time.sleep(0.02)
        os.killpg(run.pid, signal.SIGINT)
        run.wait(LIMIT)
    said = log.read_text()
    assert run.returncode == pytest.ExitCode.INTERRUPTED, said
    assert "interrupted again" not in said
    assert ": incomplete: " in said
    assert read_results(tmp_path / "results.json").verdict.word == "incomplete"


@needs_timeout
def test_a_run_that_timeout_interrupts_has_a_verdict_and_a_report(tmp_path: Path) -> None:
    command = ["timeout", "-s", "INT", "1000", sys.executable, "-c", HEARD.format("pytest")]
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, *_that_takes_long(tmp_path), "-n", "2"],
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await(lambda: re.search(rb"^\.{5}", log.read_bytes(), re.MULTILINE))
        # Its time is over: it would have had this signal from its timer.
        process.send_signal(signal.SIGALRM)
        process.wait(LIMIT)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    said = log.read_text()
    assert "interrupted again" not in said
    assert ": incomplete: " in said
    assert read_results(tmp_path / "results.json").verdict.word == "incomplete"


def test_what_a_killed_run_has_left_is_told_and_removed(tmp_path: Path) -> None:
    with Launched(REFERENCE_COMMAND) as server:
        with _running(*SUITE, _remote(server), log=tmp_path / "log") as run:
            _await(lambda: _jobs(server.address) > 0)
            run.kill()
        _put(server.address, "others", "conformance-0123abcd-00001")
        left = len(_tubes(server.address)) - 2
        with visit(server.address, LIMIT) as client:
            ask_all(client, [b"use conformance-0123abcd-00002", b"put 0 0 60 1\r\na"], LIMIT)
            next_run = _told("pytest", *SUITE[1:], _remote(server), "-k", "use.using")
            assert f"{left + 1} tubes of other runs: conformance-" in next_run.stdout
            done = _told("conformance", "cleanup", _remote(server))
            assert done.stdout.splitlines() == [
                f"removed tubes: {left}",
                "left alone, as they are in use: 1, conformance-0123abcd-00002 …",
            ]
            assert done.returncode == 1
        _await(lambda: _told("conformance", "cleanup", _remote(server)).returncode == 0)
        assert _tubes(server.address) == ["default", "others"]
        assert _jobs(server.address) == 1


def _put(address: Address, *tubes: str) -> None:
    with visit(address, LIMIT) as sock:
        for tube in tubes:
            ask_all(sock, [b"use %b" % tube.encode(), b"put 0 0 60 1\r\na"], LIMIT)


def _told(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_there_is_nothing_to_clean_up() -> None:
    done = _told("conformance", "cleanup", "--target=127.0.0.1:1")
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1


def _children(process: int, name: str) -> list[int]:
    """Return the processes that a process has started, by what is in their command lines."""
    found = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(process)], capture_output=True, text=True
    ).stdout
    lines = [line.split(maxsplit=1) for line in found.splitlines()]
    return [int(pid) for pid, args in lines if name in args]


def _runs(process: int) -> bool:
    """Return whether a process has a program; one that has ended may be there without it."""
    return Path(f"/proc/{process}/exe").exists()


def test_a_launched_server_ends_with_a_run_that_is_killed(tmp_path: Path) -> None:
    launch = ("--beanstalk-clock=real", f"--launch={REFERENCE_COMMAND}")
    with _running(*SUITE, *launch, log=tmp_path / "log") as run:
        _await(lambda: _children(run.pid, "reference_server"))
        started = _children(run.pid, "reference_server")
        run.kill()
        run.wait()
    _await(lambda: not any(_runs(pid) for pid in started))


def test_a_server_that_daemonises_itself_is_refused_and_ended(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with pytest.raises(LaunchError, match="exited with status 0 before it listened"):
        Launched(f"sh -c 'setsid sleep 1000 & echo $! >{file}' {{port}}")
    _await(lambda: not _runs(int(file.read_text())))


def test_a_server_is_ended_while_it_becomes_another_program(tmp_path: Path) -> None:
    again, file = tmp_path / "again", tmp_path / "pid"
    again.write_text(f"exec sh {again}")
    for _ in range(30):
        with pytest.raises(LaunchError):
            Launched(f"sh -c 'setsid sh {again} & echo $! >{file}' {{port}}")
        _await(lambda: not _runs(int(file.read_text())))


_STOPS = """
import os, signal, sys

def pytest_collection():
    os.kill(os.getpid(), signal.SIGINT)

def pytest_unconfigure():
    print("imported:", "hypothesis" in sys.modules)
"""


@pytest.mark.parametrize("more", [(), ("--full-trace",)])
def test_an_interrupted_run_does_not_begin_with_what_takes_seconds(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    (tmp_path / "stops.py").write_text(_STOPS)
    command = [sys.executable, "-m", *SUITE, "-p", "stops", *more, f"--launch={REFERENCE_COMMAND}"]
    folders = [str(tmp_path), str(ROOT)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert "imported: False" in done.stdout
    assert ("def pytest_collection" in done.stdout) == bool(more)


def test_the_folder_of_a_clock_goes_with_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "_SHARED_MEMORY", tmp_path / "shm")
    (tmp_path / "shm").mkdir()
    ended = subprocess.Popen(["true"])
    ended.wait()
    names = [f"beanstalk-conformance-clock-{pid}-x" for pid in (ended.pid, os.getpid())]
    for name in names:
        (tmp_path / "shm" / name).mkdir()
    clear_leftovers()
    assert [path.name for path in (tmp_path / "shm").iterdir()] == names[1:]
    with closing(FakeClock(tmp_path)) as faked:
        # To replace a file on a disk at each move of the clock would take milliseconds.
        assert Path(faked.environment()["FAKETIME_TIMESTAMP_FILE"]).is_relative_to(tmp_path / "shm")


def test_an_interrupted_worker_ends_without_freeing_its_memory(
    monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    at_exit: list[Callable[[], None]] = []
    codes: list[int] = []
    monkeypatch.setattr(atexit, "register", at_exit.append)
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    suite = Suite(Options(None, None, "auto", 0.25), distributed=True)
    worker = Interruption(pytestconfig, suite, is_worker=True)
    worker.attend()
    (end,) = at_exit
    end()
    assert not codes
    with pytest.raises(KeyboardInterrupt):
        worker._comes()
    end()
    assert codes == [pytest.ExitCode.INTERRUPTED]
