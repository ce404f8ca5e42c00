"""Targets that are slow, that crash, that hang, that do not follow our clock."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path

import pytest

from conformance.run.runner import run
from conformance.target.address import ask, visit
from conformance.target.builtin import BuiltIn
from conformance.target.clock import clear_leftovers
from conformance.target.command import LaunchError, command_line
from conformance.target.launch import Launched
from conformance.target.launched_target import LaunchedTarget
from conformance.target.resources import Resources
from conformance.target.target import Target
from conformance.verdict import NotTestable
from tests.command_line import TIMED, suite
from tests.faults import FILES, MUCH
from tests.parts import part_of, sample
from tests.proxy import proxy
from tests.servers import (
    BEANSTALKD_COMMAND,
    REFERENCE_COMMAND,
    changed_server,
    needs_beanstalkd,
    needs_faketime,
)

_LITTLE = [name for name in FILES if name not in ("test_errors", "test_numbers", *MUCH)]
"""Files of tests that send so little that single bytes take no hours."""


@pytest.mark.parametrize("part", sample([f"{n}/9" for n in range(9)], 9))
def test_a_slow_target_that_sends_single_bytes_passes(part: str) -> None:
    with Launched(REFERENCE_COMMAND) as server, proxy(server.address) as (host, port):
        few = ("--examples=4", "-k", " or ".join(f"{name}.py" for name in part_of(_LITTLE, part)))
        done = suite(f"--target={host}:{port}", "-n", "4", *few)
    assert done.returncode == 0, done.stdout


LENIENT = """
import re
from reference_server.wire import requests as wire
parse = wire.parse_line
def lenient(line, profile):
    taken = re.match(rb"(delete|kick-job|reserve-job)\\s+([+-]?\\d+)", line)
    return parse(b"%b %d" % (taken[1], int(taken[2]) % 2**64) if taken else line, profile)
wire.parse_line = lenient
"""


def test_jobs_of_others_are_safe_on_a_server_that_takes_what_is_malformed(tmp_path: Path) -> None:
    with (
        Launched(changed_server(tmp_path, LENIENT)) as server,
        visit(server.address, 5) as sock,
    ):
        for line in (b"use others", *[b"put 0 0 60 1\r\na", b"put 0 3600 60 1\r\na"] * 50):
            ask(sock, line, 5)
        host, port = server.address
        done = suite(f"--target={host}:{port}", "-k", "test_arguments")
        stats = ask(sock, b"stats-tube others", 5).body or b""
    assert "expected BAD_FORMAT" in done.stdout
    for line in (b"current-jobs-ready: 50", b"current-jobs-delayed: 50", b"total-jobs: 100"):
        assert line in stats


def _running(pattern: str) -> list[int]:
    """Return the processes whose command line contains this."""
    found = subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True)
    return [int(number) for number in found.stdout.split()]


EARLY = """
enqueue = Model._enqueue
def early(self, job):
    self.now -= 50_000_000 if job.delay else 0
    enqueue(self, job)
Model._enqueue = early
"""
LATE = """
due = Model.next_due.fget
Model.next_due = property(lambda self: due(self) and due(self) + {seconds} * SECOND)
"""


@needs_faketime
def test_a_timer_that_fires_a_twentieth_of_a_second_early(tmp_path: Path) -> None:
    done = suite(
        f"--launch={changed_server(tmp_path, EARLY)}", "-k", "waits_gets_a_job_when_its_delay"
    )
    assert done.returncode == 1
    assert "not before its time" in done.stdout
    assert "s early" in done.stdout


def test_timers_that_are_allowed_to_be_late(tmp_path: Path) -> None:
    command = changed_server(tmp_path, LATE.format(seconds=0.1))
    done = suite("--clock=real", f"--launch={command}", "-k", TIMED)
    assert done.returncode == 0, done.stdout


def test_timers_that_are_too_late(tmp_path: Path) -> None:
    command = changed_server(tmp_path, LATE.format(seconds=0.5))
    done = suite("--clock=real", f"--launch={command}", "-k", "test_a_reserve_times_out")
    assert done.returncode == 1
    assert "s later than allowed" in done.stdout
    allowed = suite(
        *(
            "--clock=real",
            "--lateness=0.5",
            f"--launch={changed_server(tmp_path, LATE.format(seconds=0.3))}",
        ),
        *("-k", "test_a_reserve_times_out"),
    )
    assert allowed.returncode == 0, allowed.stdout


SLOW_AND_WRONG = """
import re, time
from reference_server import stats
tube = stats.tube
stats.tube = lambda *of: re.sub(rb"(?m)^pause-time-left: .*", b"pause-time-left: 7", tube(*of))
plain = serve.ServedConnection.takes
def slow(self, data):
    if b"-tube " in data:
        time.sleep(1.2)
    plain(self, data)
serve.ServedConnection.takes = slow
"""


def test_what_a_slow_target_did_is_told_though_it_does_not_decide(tmp_path: Path) -> None:
    command, folder = changed_server(tmp_path, SLOW_AND_WRONG), tmp_path / "report"
    tests = ("--clock=real", f"--report={folder}", "-k", "nothing_is_left_of_a_pause")
    done = suite(f"--launch={command}", *tests)
    assert " inconclusive" in done.stdout, done.stdout
    (test,) = json.loads((folder / "results.json").read_text())["tests"]
    assert "3 times: expected " in test["reason"]
    evidence = test["evidence"]
    assert evidence["observed"] == "7"
    assert any("> stats-tube" in line for line in evidence["transcript"])


@pytest.mark.parametrize(
    ("number", "observed"),
    [
        (
            signal.SIGKILL,
            "the target crashed: ended by SIGKILL\nTARGET SAID\n  last words\n",
        ),
        (signal.SIGSTOP, "the target hangs: a new client got no answer within 2 seconds"),
    ],
)
def test_a_target_that_dies_in_the_middle(
    number: signal.Signals, observed: str, tmp_path: Path
) -> None:
    # The server sends itself the signal when somebody puts a job of this size.
    command = changed_server(
        tmp_path,
        f"""
        put = Model._put
        def deadly(self, conn, command):
            if command.size == 4096:
                print("last words", flush=True)
                os.kill(os.getpid(), {int(number)})
            put(self, conn, command)
        Model._put = deadly
        """,
    )
    done = suite(f"--launch={command}", "-k", "test_put_body")
    assert done.returncode == 1
    assert f"OBSERVED  {observed}" in done.stdout, done.stdout
    assert re.search(r"\n1 failed, \d+ passed", done.stdout), done.stdout
    assert not _running(str(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_launched_server_ends_with_the_run(number: signal.Signals, tmp_path: Path) -> None:
    mark = f"--mark={secrets.token_hex(8)}"
    server = tmp_path / "server.py"
    server.write_text("import sys\nfrom reference_server import serve\nserve.main(sys.argv[2:])\n")
    command = f"{sys.executable} {server} {mark} --host {{host}} --port {{port}}"
    test = ["--pyargs", "conformance.tests.test_put_ttr", "--beanstalk-clock=real"]
    # Where the tests run in the background of a shell, SIGINT is ignored, by their children, too.
    heard = "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler);"
    heard += " runpy.run_module('pytest', run_name='__main__')"
    process = subprocess.Popen(
        [sys.executable, "-c", heard, *test, "-q", "-p", "no:cacheprovider", f"--launch={command}"],
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not _running(f"server.py {mark} --host 127"):
        assert time.monotonic() < deadline
        assert process.poll() is None
    process.send_signal(number)
    process.wait(60)
    assert process.returncode != 0
    deadline = time.monotonic() + 60
    while _running(f"server.py {mark} --host 127"):
        assert time.monotonic() < deadline, "the server outlived the run"


@needs_faketime
def test_a_server_that_gets_less_than_it_needs_is_under_a_real_clock() -> None:
    # libfaketime needs a descriptor, and memory, to read what the time is.
    def needs(own_server: Target, resources: Resources) -> str:
        return "moved" if own_server.clock.movable else "real"

    with closing(LaunchedTarget(REFERENCE_COMMAND)) as target:
        assert target.clock.movable
        assert run(needs, {"own_server": None, "resources": None}, target).seen == "real"


@needs_faketime
def test_a_program_that_does_not_follow_libfaketime_is_tested_in_real_time(
    tmp_path: Path,
) -> None:
    # As a program that does not use libc's clock: the library never gets into it.
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(
        f'#!/bin/sh\nunset LD_PRELOAD\nexec {REFERENCE_COMMAND.split(" -m")[0]} "$@"\n'
    )
    wrapper.chmod(0o755)
    command = f"{wrapper} -m reference_server --host {{host}} --port {{port}}"
    done = suite(f"--launch={command}", "-v", "-k", "test_put_delay")
    assert done.returncode == 0, done.stdout
    assert "real clock (the launched server does not follow libfaketime)" in done.stdout
    refused = suite(f"--launch={command}", "--clock=fake")
    assert refused.returncode == 4
    assert "a fake clock is not possible" in refused.stderr


NO_TIME_NEVER_ENDS = """
    plain = Model._reserve

    def reserve(self, conn, timeout):
        return plain(self, conn, 0.01 if timeout == 0 else timeout)

    def set_wake_up(self, conn):
        if conn.timeout_at is not None:
            conn.wakes_at = conn.timeout_at = round(conn.timeout_at)
            self._timers.add((conn.wakes_at, Timer.WAIT, conn.id))

    Model._reserve, Model._set_wake_up = reserve, set_wake_up
"""


@needs_faketime
def test_a_program_under_whose_moved_clock_no_time_never_ends(tmp_path: Path) -> None:
    change = "from reference_server.state import Timer\n" + textwrap.dedent(NO_TIME_NEVER_ENDS)
    command = changed_server(tmp_path, change)
    done = suite(f"--launch={command}", "-v", "-k", "test_a_timeout_of_zero_answers_at_once")
    assert done.returncode == 0, done.stdout
    assert "real clock (under libfaketime, a timeout of 0 seconds never ends)" in done.stdout


@needs_beanstalkd
@needs_faketime
def test_beanstalkd_follows_libfaketime() -> None:
    done = suite(f"--launch={BEANSTALKD_COMMAND}", "-v", "-k", "put_delay and 3600")
    assert done.returncode == 0
    assert "clock moved by the tests" in done.stdout
    assert "1 passed" in done.stdout


def test_optional_parts_of_a_command() -> None:
    command = "server -p {port} [-z {max_job_size}] [-b {binlog}] '[x]'"
    assert command_line(command, {"port": 1}) == ["server", "-p", "1", "x"]
    assert command_line(command, {"port": 1, "max_job_size": 5}) == [
        *("server", "-p", "1", "-z", "5", "x")
    ]


def test_many_servers_at_once_have_ports_of_their_own() -> None:
    servers = [Launched(REFERENCE_COMMAND) for _ in range(8)]
    try:
        assert len({server.address for server in servers}) == 8
    finally:
        for server in servers:
            server.end()
    assert all(server.process.poll() is not None for server in servers)


def test_a_server_that_never_listens_is_given_up() -> None:
    # No other test that runs now starts the same command.
    seconds = 1_000_000 + os.getpid()
    with pytest.raises(LaunchError, match="did not listen within 8 seconds"):
        Launched(f"{sys.executable} -c 'import time; time.sleep({seconds})' {{port}}")
    assert not _running(f"time.sleep.{seconds}")


def test_the_clocks_of_dead_processes_are_removed() -> None:
    # Above the largest process id of any Linux.
    dead, alive = (Path(f"/dev/shm/faketime_shm_{pid}") for pid in (2**22 + 1, os.getpid()))
    dead.touch()
    alive.touch()
    clear_leftovers()
    assert (dead.exists(), alive.exists()) == (False, True)
    alive.unlink()


def test_bodies_that_a_target_does_not_take_are_not_tested() -> None:
    servers = [BuiltIn(max_job_size=1000), LaunchedTarget(REFERENCE_COMMAND, max_job_size=1000)]
    for server in servers:
        server.probe()
        server.needs_body(1000)
        with pytest.raises(
            NotTestable, match="needs a body of 3,000 bytes, the target takes 1,000"
        ):
            server.needs_body(3000)
        server.close()


HUGE_LIMIT = """
    from reference_server.wire import Reply

    plain = Reply.encode

    def encode(self):
        if self.word != "OK":
            return plain(self)
        body = self.body.replace(b"max-job-size: 65535", b"max-job-size: " + b"9" * 5000)
        return b"OK %d\\r\\n%b\\r\\n" % (len(body), body)

    Reply.encode = encode
"""


def test_a_limit_of_thousands_of_digits_ends_no_run(tmp_path: Path) -> None:
    launch = changed_server(tmp_path, HUGE_LIMIT)
    done = suite(f"--launch={launch}", "--clock=real", "-k", "use.using")
    assert done.returncode == 0, done.stdout + done.stderr
