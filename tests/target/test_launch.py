"""Servers that do not start, or only slowly, or only under a real clock."""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.run.options import Options
from conformance.target.address import TargetError, ask, visit
from conformance.target.command import LaunchError, check_command
from conformance.target.launch import DidNotStart, Launched
from conformance.target.launched_target import LaunchedTarget
from conformance.target.limits import Limits
from conformance.target.place import SOCKETS
from conformance.target.starvation import CpuTime
from conformance.verdict import Outage, OutcomeKind
from reference_server.profiles import LIST_TUBE_USED, NEWEST
from tests.command_line import refuses, suite
from tests.servers import REFERENCE_COMMAND, changed_server, needs_faketime


def test_a_server_that_exits_at_once_is_run_once(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with pytest.raises(DidNotStart) as caught:
        Launched(f"sh -c 'echo run >> {runs}; printf \"no license\\033[31m\\a\"; exit 3' {{port}}")
    assert caught.value.how == "exited with status 3 before it listened"
    assert str(caught.value).endswith(r"; it said: no license\x1b[31m\x07")
    assert runs.read_text() == "run\n"


@pytest.mark.parametrize(
    "taken",
    [
        # It takes the port with it.
        "sock.set_inheritable(True)\n"
        "    subprocess.Popen(['sleep', '3'], close_fds=False, start_new_session=True)",
        # It was taken for a moment.
        "print('bind(): Address already in use', flush=True)",
    ],
)
def test_a_server_whose_port_was_taken_is_run_again(taken: str, tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(
        "import os, socket, subprocess, sys, time\n"
        "port, mark = int(sys.argv[1]), sys.argv[2]\n"
        "sock = socket.socket()\n"
        "sock.bind(('127.0.0.1', port))\n"
        # If it listened before it exits, it might be found to have started.
        "if not os.path.exists(mark):\n"
        "    open(mark, 'w').close()\n"
        f"    {taken}\n"
        "    os._exit(1)\n"
        "sock.listen()\n"
        "time.sleep(60)\n"
    )
    with Launched(f"{sys.executable} {script} {{port}} {tmp_path / 'mark'}") as server:
        assert server.exit_status() is None


SLOW = """
import time
time.sleep(0.5)
end = time.process_time() + {seconds}
while time.process_time() < end:
    pass
"""


def test_a_server_that_needs_the_cpu_for_its_start_is_waited_for(tmp_path: Path) -> None:
    command = changed_server(tmp_path, SLOW.format(seconds=4))
    with Launched(command, limits=Limits(start=3.0)) as server:
        assert server.answers()


BUSY = """
import threading, time
plain = serve.ServedConnection.takes
def busy(self, data):
    serve.ServedConnection.takes = plain
    end = time.process_time() + 2
    while time.process_time() < end:
        pass
    plain(self, data)
serve.ServedConnection.takes = busy
"""


def test_a_first_answer_that_needs_the_cpu_is_waited_for(tmp_path: Path) -> None:
    with Launched(changed_server(tmp_path, BUSY), limits=Limits(probe=1.5)) as server:
        assert server.answers()


def test_a_server_that_is_silent_where_it_is_asked_first_is_asked_for_more(tmp_path: Path) -> None:
    silent = "Model._list_tube_used = Model._stats = lambda self, *_: None"
    command, limits = changed_server(tmp_path, silent), Limits(probe=1.0)
    with closing(LaunchedTarget(command, "real", limits=limits)) as target:
        assert target.probe() == replace(NEWEST, neutral=b"peek 0")
        assert target.outage() is None


def test_it_is_asked_for_more_before_it_was_waited_for_in_full(tmp_path: Path) -> None:
    silent = "Model._list_tube_used = lambda self, *_: None"
    limits, begun = Limits(probe=100.0), time.monotonic()
    target = LaunchedTarget(changed_server(tmp_path, silent), "real", limits=limits)
    with closing(target):
        assert time.monotonic() - begun < limits.probe
        assert target.sync_line == b"peek 0"


SLOW = """
    import time
    from reference_server.wire import Reply
    plain = Reply.encode

    def encode(self):
        time.sleep(2.5)
        return plain(self)

    Reply.encode = encode
"""


def test_a_server_that_answers_later_than_most_is_one(tmp_path: Path) -> None:
    with closing(LaunchedTarget(changed_server(tmp_path, SLOW), "real")) as target:
        assert target.sync_line == LIST_TUBE_USED


SILENT = "serve.ServedConnection.takes = lambda self, data: None"


def test_a_server_that_never_answers(tmp_path: Path) -> None:
    command = changed_server(tmp_path, SILENT)
    target = LaunchedTarget(command, "real", limits=Limits(probe=1.0))
    try:
        target.probe()
        assert target.traits.defect is not None
        assert target.traits.defect.observed == "no reply within 1 seconds"
    finally:
        target.close()


def test_a_server_that_is_stopped_hangs() -> None:
    target = LaunchedTarget(REFERENCE_COMMAND, "real")
    try:
        target.signal(signal.SIGSTOP)
        how = "a new client got no answer within 2 seconds"
        assert target.outage() == Outage(OutcomeKind.HANGS, how)
    finally:
        target.close()


def test_a_server_that_has_run_for_long_and_answers_nobody_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = LaunchedTarget(REFERENCE_COMMAND, "real")
    try:
        target.signal(signal.SIGSTOP)
        # Others keep it waiting as well; it has 3 s of a CPU in a second.
        monkeypatch.setattr(
            target, "cpu_time", lambda: CpuTime(3 * time.monotonic(), time.monotonic())
        )
        began = time.monotonic()
        assert "hangs" in str(target.outage())
        assert time.monotonic() - began < target.limits.starved
    finally:
        target.close()


def test_a_server_that_must_wait_for_a_cpu_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    target = LaunchedTarget(REFERENCE_COMMAND, "real")
    try:
        target.signal(signal.SIGSTOP)
        monkeypatch.setattr(target, "cpu_time", lambda: CpuTime(0.0, time.monotonic()))
        awakes = threading.Timer(3, target.signal, [signal.SIGCONT])
        awakes.start()
        assert target.outage() is None
        awakes.join()
    finally:
        target.close()


@pytest.mark.parametrize(
    "prints", ["sys.stderr.write('no statistics')", "os.truncate(sys.stderr.fileno(), 0)"]
)
def test_a_server_that_does_not_survive_the_first_question_is_surveyed(
    tmp_path: Path, prints: str
) -> None:
    dies = f"""
    def stats(self, conn):
        {prints}
        sys.stderr.flush()
        os._exit(3)

    Model._stats = stats
    """
    with closing(LaunchedTarget(changed_server(tmp_path, dies), "real")) as target:
        target.probe()
        assert set(target.traits.unusable) == {"stats"}
        assert str(target.traits.unusable["stats"].outage) == (
            "the target crashed: exited with status 3"
        )


UNFAKED = """
if "LD_PRELOAD" in os.environ:
    {instead}
"""


@needs_faketime
@pytest.mark.parametrize(
    ("instead", "reason", "start"),
    [
        ("sys.exit('no')", "exited with status 1 before it listened", 8.0),
        ("import time; time.sleep(60)", "did not listen within 1 seconds", 1.0),
        (SILENT, "does not answer", 8.0),
    ],
)
def test_a_server_that_does_not_start_under_libfaketime(
    tmp_path: Path, instead: str, reason: str, start: float
) -> None:
    limits = Limits(start=start, probe=1.0)
    command = changed_server(tmp_path, UNFAKED.format(instead=instead))
    told = f"under libfaketime, the launched server {reason}"
    target = LaunchedTarget(command, limits=limits)
    try:
        assert not target.clock.movable
        assert target.clock_reason == told
        assert target.probe().name == "1.13"
    finally:
        target.close()
    with pytest.raises(TargetError, match=f"a fake clock is not possible: {told}"):
        LaunchedTarget(command, "fake", limits=limits)


@needs_faketime
def test_the_run_goes_on_in_real_time(tmp_path: Path) -> None:
    command = changed_server(tmp_path, UNFAKED.format(instead="sys.exit('no')"))
    done = suite(f"--launch={command}", "-v", "-k", "test_a_timeout_of_zero_answers_at_once")
    assert done.returncode == 0, done.stdout
    reason = "under libfaketime, the launched server exited with status 1 before it listened"
    assert f"real clock ({reason})" in done.stdout


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("0.5", "did not listen within 0.5 seconds"),
        (
            "nan",
            "the time until a server listens is more than 0 and at most 100,000,000 seconds",
        ),
    ],
)
@pytest.mark.parametrize("clock", ["real", "auto"])
def test_how_long_a_server_may_take_is_an_option(limit: str, said: str, clock: str) -> None:
    command = f"{sys.executable} -c 'import time; time.sleep(99)' {{port}}"
    chosen = (f"--start-timeout={limit}", f"--clock={clock}", "-k", "test_quit")
    refuses(suite(f"--launch={command}", *chosen), said)
    again = Options(None, command, "auto", start_timeout=20).chosen
    assert again[-1] == "--beanstalk-start-timeout=20"


@pytest.mark.parametrize("clock", ["real", "auto"])
def test_a_server_that_does_not_start_at_all_is_run_once_and_told_in_one_sentence(
    tmp_path: Path, clock: str
) -> None:
    runs = tmp_path / "runs"
    with pytest.raises(
        LaunchError, match=r"exited with status 7 before it listened: .*; it said: no"
    ):
        LaunchedTarget(f"sh -c 'echo no; echo run >> {runs}; exit 7' {{port}}", clock)
    assert runs.read_text() == "run\n"


SAYS_MUCH = """
    import sys

    def reserve(self, *asked):
        for _ in range(100):
            sys.stderr.write("x" * 1000 + "\\n")
        sys.stderr.write("the end\\n")
        return plain(self, *asked)

    plain, Model._reserve = Model._reserve, reserve
"""


def test_a_server_may_print_though_its_files_must_not_grow(tmp_path: Path) -> None:
    command = changed_server(tmp_path, SAYS_MUCH)
    with closing(LaunchedTarget(command, clock="real", heedless=True)) as target:
        assert target.pid is not None
        resource.prlimit(target.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        with visit(target.address, 5) as client:
            assert ask(client, b"reserve-with-timeout 0", 60).word == "TIMED_OUT"
        end = time.monotonic() + 60
        while "the end" not in target.said() and time.monotonic() < end:
            time.sleep(0.01)
        assert target.said().endswith("x\nthe end")


def test_a_server_that_was_ended_is_not_signalled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Launched(REFERENCE_COMMAND)
    server.end()
    signalled: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda pid, _: signalled.append(pid))
    server.end()
    assert signalled == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (" ", "is empty"),
        ("server {port", "is not well-formed"),
        ("server {port} {nonsense}", "has {nonsense}; there are only {port}, {path}, {host}"),
        ("server {port} -s {path}", "has {port} and {path}: give one of them"),
        ("server -z 5", "has no place for the address: it needs {port} or {path}"),
        ("server [-p {port}]", "has no place for the address"),
    ],
)
def test_commands_that_nobody_could_reach(command: str, said: str) -> None:
    with pytest.raises(LaunchError, match=re.escape(said)):
        check_command(command)


@pytest.mark.parametrize("clock", ["real", "auto"])
def test_a_server_on_a_unix_socket_only(clock: str) -> None:
    folder, name = Path(tempfile.gettempdir()), f"{SOCKETS}{os.getpid()}-*"
    target = LaunchedTarget(f"{sys.executable} -m reference_server -l unix:{{path}}", clock)
    try:
        assert target.probe() is NEWEST
        assert target.address == str(next(folder.glob(name)) / "socket")
        target.restart()
        assert target.outage() is None
    finally:
        target.close()
    assert not list(folder.glob(name))


def test_a_command_without_a_place_is_refused_before_anything_runs(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    command = f"sh -c 'echo run >> {runs}'"
    for done in (suite(f"--launch={command}"), suite(f"--launch={command}", "--clock=real")):
        refuses(done, "has no place for the address: it needs {port} or {path}")
    assert not runs.exists()


@needs_faketime
def test_a_server_of_which_only_one_runs_at_a_time_is_refused(tmp_path: Path) -> None:
    command = f"flock -nF {tmp_path}/lock {REFERENCE_COMMAND}"
    done = suite(f"--launch={command}", "-k", "test_quit")
    refuses(done, "only one of these servers runs at a time; while another one runs, it exited")
    done = suite(
        f"--launch={command}", "--clock=real", "-k", "test_a_timeout_of_zero or exhaustion"
    )
    assert "not testable: only one of these servers runs at a time: a second exited" in done.stdout
    assert "error" not in done.stdout
