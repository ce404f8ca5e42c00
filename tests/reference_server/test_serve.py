"""The reference server as a process: its options, signals, limits and manners."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from conformance.target.address import ask, connect, visit
from conformance.target.launch import Launched
from reference_server import loop
from reference_server.wire import INSERTED
from tests.servers import (
    BEANSTALKD_COMMAND,
    REFERENCE_COMMAND,
    changed_server,
    needs_beanstalkd,
)

POLLERS = ["", "from reference_server import loop; loop.poller = loop.Levels"]
"""epoll, and what there is without."""


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Launched]:
    with Launched(changed_server(tmp_path, getattr(request, "param", ""))) as running:
        yield running


@contextlib.contextmanager
def _at_a_path(path: Path) -> Iterator[str]:
    """Yield a server at a UNIX socket; it ends with SIGTERM."""
    command = [sys.executable, "-m", "reference_server", "--host", f"unix:{path}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert str(path) in process.stdout.readline().decode()
    yield str(path)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    process.stdout.close()


def exchange(address: tuple[str, int] | str, data: bytes) -> bytes:
    """What comes back for ``data`` and a half-close, until the end."""
    with connect(address, 10) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        answer = bytearray()
        while chunk := sock.recv(65536):
            answer += chunk
        return bytes(answer)


def test_it_says_where_it_listens_and_ends_cleanly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "reference_server", "--port", "0"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    ready = process.stdout.readline().decode()
    match = re.fullmatch(r"beanstalk reference server, .* listening on (.*):(\d+)\n", ready)
    assert match is not None
    answer = exchange((match[1], int(match[2])), b"put 0 0 1 5\r\nhello\r\nreserve\r\n")
    assert answer == b"INSERTED 1\r\nRESERVED 1 5\r\nhello\r\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    process.stdout.close()


def test_it_ends_cleanly_as_soon_as_it_can_be_seen_to_listen(tmp_path: Path) -> None:
    change = """
        from reference_server.serve import Server
        plain = Server.start

        def start(*args):
            where = plain(*args)
            os.kill(os.getpid(), 15)
            return where

        Server.start = start
        """
    command = shlex.split(changed_server(tmp_path, change).format(host="127.0.0.1", port=0))
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with _at_a_path(path) as where:
        assert exchange(where, b"list-tube-used\r\n") == b"USING default\r\n"
    assert not path.exists()


def test_drain_mode(server: Launched) -> None:
    with visit(server.address, 10) as sock:
        assert ask(sock, b"put 0 0 60 1\r\na", 10) == INSERTED(1)
        server.signal(signal.SIGUSR1)
        deadline = time.monotonic() + 10
        while ask(sock, b"put 0 0 60 1\r\na", 10).word != "DRAINING":
            assert time.monotonic() < deadline
        assert b"draining: true" in (ask(sock, b"stats", 10).body or b"")
        assert ask(sock, b"reserve", 10).word == "RESERVED"
    assert exchange(server.address, b"list-tube-used\r\n") == b"USING default\r\n"


def test_max_job_size() -> None:
    with Launched(REFERENCE_COMMAND, values={"max_job_size": 10}) as server:
        data = b"put 0 0 60 10\r\n0123456789\r\nput 0 0 60 11\r\n01234567890\r\nstats\r\n"
        answer = exchange(server.address, data)
    assert answer.startswith(b"INSERTED 1\r\nJOB_TOO_BIG\r\nOK ")
    assert b"\nmax-job-size: 10\n" in answer


@pytest.mark.parametrize(
    "command",
    [REFERENCE_COMMAND, pytest.param(BEANSTALKD_COMMAND, marks=needs_beanstalkd)],
    ids=["reference", "beanstalkd"],
)
def test_no_job_may_be_larger_than_a_gigabyte(command: str) -> None:
    with Launched(command, values={"max_job_size": 2**31}) as server:
        assert b"\nmax-job-size: 1073741824\n" in exchange(server.address, b"stats\r\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "70000"], "a port is a number from 0 to 65535"),
        (["--port", "x"], "invalid int value"),
        (["-z", "-1"], "-z takes a size in bytes"),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1"),
        (["--profile", "9"], "there is no profile '9'"),
        (["--max-jobs-ready", "9"], "profile 1.13 has no limit of ready jobs"),
        (["--profile", "0.6", "--max-jobs-ready", "0"], "--max-jobs-ready takes a count"),
    ],
)
def test_wrong_options(arguments: list[str], message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reference_server", *arguments], capture_output=True, text=True
    )
    assert done.returncode == 4
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_more_clients_than_descriptors_are_served_as_others_leave(tmp_path: Path) -> None:
    few = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))"
    with Launched(changed_server(tmp_path, few)) as server:
        socks = [connect(server.address, 10) for _ in range(40)]
        for sock in socks:
            sock.sendall(b"list-tube-used\r\n")
        for sock in socks:
            with sock:
                assert sock.recv(100) == b"USING default\r\n"


def test_a_failure_ends_the_connection_of_its_client_alone(tmp_path: Path) -> None:
    change = "Model._kick = lambda *_: 1 / 0"
    with Launched(changed_server(tmp_path, change)) as server, visit(server.address, 10) as other:
        assert ask(other, b"list-tube-used", 10).word == "USING"
        assert exchange(server.address, b"list-tube-used\r\nkick 1\r\n") == b""
        assert b"\ncurrent-connections: 1\n" in (ask(other, b"stats", 10).body or b"")


def _memory(server: Launched) -> int:
    """Return resident memory of the server in bytes."""
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_two_thousand_connections(server: Launched) -> None:
    before = _memory(server)
    socks = [connect(server.address, 10) for _ in range(2000)]
    try:
        for sock in socks:
            sock.sendall(b"reserve\r\n")
        with visit(server.address, 10) as observer:
            while b"\ncurrent-waiting: 2000\n" not in (ask(observer, b"stats", 10).body or b""):
                pass
            put = b"".join(b"put 0 0 600 1\r\na\r\n" for _ in socks)
            observer.send(put)
            for sock in socks:
                assert sock.recv(100).startswith(b"RESERVED ")
        assert _memory(server) - before < 100 * 2**20
    finally:
        for sock in socks:
            sock.close()


@pytest.mark.campaign
def test_two_hundred_thousand_jobs(server: Launched) -> None:
    count, batch = 200_000, 1000
    jobs = b"".join(b"put %d 0 60 1\r\na\r\n" % (n * 7919 % 1000) for n in range(batch))
    with connect(server.address, 60) as sock, sock.makefile("rb") as replies:
        for _ in range(count // batch):
            sock.sendall(jobs)
            for _ in range(batch):
                assert replies.readline().startswith(b"INSERTED ")
        sock.sendall(b"reserve\r\n" * batch)
        for _ in range(batch):
            assert replies.readline().startswith(b"RESERVED ")
            replies.readline()
        sock.sendall(b"stats\r\n")
        stats = [replies.readline() for _ in range(8)]
    assert b"current-jobs-ready: %d\n" % (count - batch) in stats


def _with_large_replies(address: tuple[str, int] | str) -> None:
    body = b"x" * 65000
    answer = exchange(address, b"put 0 0 60 65000\r\n%b\r\n" % body + b"peek 1\r\n" * 300)
    assert answer == b"INSERTED 1\r\n" + b"FOUND 1 65000\r\n%b\r\n" % body * 300


@pytest.mark.parametrize("server", POLLERS, indirect=True)
def test_large_replies(server: Launched) -> None:
    _with_large_replies(server.address)


def test_large_replies_over_a_unix_socket(tmp_path: Path) -> None:
    with _at_a_path(tmp_path / "socket") as path:
        _with_large_replies(path)


@pytest.mark.parametrize("server", POLLERS, indirect=True)
def test_a_client_that_does_not_read_costs_little_and_stops_nobody(server: Launched) -> None:
    body = b"x" * 65000
    put = b"put 0 0 60 %d\r\n%b\r\n" % (len(body), body)
    assert exchange(server.address, put) == b"INSERTED 1\r\n"
    with connect(server.address, 10) as greedy:
        before = _memory(server)
        greedy.setblocking(False)
        sent = 0
        line = b"peek 1\r\n" * 1000
        for _ in range(200):
            try:
                sent += greedy.send(line)
            except BlockingIOError:
                assert exchange(server.address, b"list-tube-used\r\n") == b"USING default\r\n"
        # It asked for more than a gigabyte.
        assert sent // 8 * len(body) > 2**30
        assert _memory(server) - before < 20 * 2**20


@pytest.mark.parametrize("server", POLLERS, indirect=True)
def test_a_client_that_sends_on_while_it_waits_costs_little(server: Launched) -> None:
    with connect(server.address, 10) as sock:
        sock.sendall(b"reserve\r\n")
        assert exchange(server.address, b"list-tube-used\r\n") == b"USING default\r\n"
        before = _memory(server)
        sock.setblocking(False)
        refused = 0
        for _ in range(3000):
            try:
                sock.send(b"list-tube-used\r\n" * 1000)
            except BlockingIOError:
                refused += 1
        assert refused
        assert exchange(server.address, b"list-tube-used\r\n") == b"USING default\r\n"
        assert _memory(server) - before < 20 * 2**20


@pytest.mark.parametrize("server", POLLERS, indirect=True)
def test_a_client_that_has_sent_much_while_it_waited_is_read_again(server: Launched) -> None:
    with connect(server.address, 10) as waiting, visit(server.address, 10) as other:
        body = b"x" * 65000
        waiting.sendall(b"reserve\r\n" + (b"put 0 0 60 65000\r\n" + body + b"\r\n") * 3)
        waiting.sendall(b"use the-end\r\n")
        ask(other, b"list-tube-used", 10)
        ask(other, b"put 0 0 60 0\r\n", 10)
        replies = waiting.makefile("rb")
        lines = [replies.readline() for _ in range(6)]
    assert lines[0] == b"RESERVED 1 0\r\n"
    assert lines[-1] == b"USING the-end\r\n"


def test_it_waits_no_longer_where_its_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0**9])
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: next(clock, 0.0)))
    running = loop.Loop()
    running.again_with_room(running.wakeup_fd())
    with contextlib.closing(running):
        running.stop()
        running.run()


def test_where_there_is_no_room_it_does_not_look_again_with_each_timer() -> None:
    running, waits, tries = loop.Loop(), iter([0.001] * 20), []
    ours, theirs = socket.socketpair()

    def has_no_room(_: int) -> None:
        tries.append(time.monotonic())
        running.again_with_room(ours.fileno())

    def before_wait() -> float:
        seconds = next(waits, None)
        if seconds is None:
            running.stop()
        return seconds or 0.0

    with contextlib.closing(running), ours, theirs:
        running.watch(ours.fileno(), has_no_room)
        running.before_wait = before_wait
        theirs.send(b"a")
        running.run()
    assert len(tries) < 5
