"""The process that serves is told by who listens, unless that may only forward."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.random_testing.budget import Budget
from conformance.target.address import ask, visit
from conformance.target.launched_target import LaunchedTarget
from conformance.target.serving import serving, signalled
from conformance.verdict import Inconclusive, NotTestable

OWN = [Path("/proc", str(os.getpid()))]


_LISTENS = """
import os, socket, sys
where = sys.argv[1]
while not os.times().user:  # a kernel that samples may count the start as its own time
    pass
server = socket.socket(socket.AF_UNIX if where else socket.AF_INET)
server.bind(where or ("127.0.0.1", 0))
server.listen()
print(where or server.getsockname()[1], flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def _listening(where: str = "") -> Iterator[tuple[int, str]]:
    """Give a process that only listens, and where it does: this one may be connected to others."""
    command = [sys.executable, "-c", _LISTENS, where]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdin
        assert one.stdout
        yield one.pid, one.stdout.readline().strip()
        one.stdin.close()


def test_the_process_that_listens_serves() -> None:
    with _listening() as (pid, port):
        (process,) = serving([Path("/proc", str(pid))], ("127.0.0.1", int(port)))
        assert pid in process.numbers
        assert process.cpu["rusage-utime"] > 0
        assert process.system["hostname"] == (os.uname().nodename,)


def test_the_process_of_a_unix_socket_serves(tmp_path: Path) -> None:
    with _listening(str(tmp_path / "socket")) as (pid, path):
        assert len(serving([Path("/proc", str(pid))], path)) == 1


def test_a_process_that_is_connected_to_another_server_may_only_forward() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_server(("127.0.0.1", 0)) as other,
        socket.create_connection(other.getsockname()),
        pytest.raises(NotTestable, match="may forward to another server"),
    ):
        serving(OWN, server.getsockname())


# Other tests may have left connections in this process.
_CONNECTS = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
print(server.getsockname()[1], flush=True)
while sys.argv[1]:
    for sock in [socket.socket() for _ in range(50)]:
        sock.close()
sys.stdin.read()
"""


@contextlib.contextmanager
def _connected(goes_on: str) -> Iterator[tuple[Path, int]]:
    """Run a server that is connected to itself: its folder of the system, and its port."""
    command = [sys.executable, "-c", _CONNECTS, goes_on]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield Path("/proc", str(process.pid)), int(process.stdout.readline())
        process.kill()


def test_a_server_that_is_connected_to_itself_forwards_nothing() -> None:
    with _connected("") as (folder, port):
        assert serving([folder], ("127.0.0.1", port))[0].folder == folder


def test_a_server_may_close_connections_while_it_is_looked_at() -> None:
    with _connected("and opens and closes") as (folder, port):
        for _ in range(200):
            assert serving([folder], ("127.0.0.1", port))


def test_a_server_whose_process_is_elsewhere_is_not_seen() -> None:
    with pytest.raises(NotTestable, match="can be seen"):
        serving([], ("127.0.0.1", 1))


def test_a_signal_is_for_the_process_that_listens() -> None:
    with _listening() as (pid, port):
        folders, address = [*OWN, Path("/proc", str(pid))], ("127.0.0.1", int(port))
        assert signalled(folders[1:], address, os.getpid()) == pid
        assert signalled(folders[1:], address, pid) == pid
        assert signalled([], address, os.getpid()) == os.getpid()


def test_a_server_that_a_script_has_started_gets_the_signal(tmp_path: Path) -> None:
    script = tmp_path / "start.sh"
    program = f'{sys.executable} -m reference_server -l "$1" -p "$2"'
    script.write_text(f"#!/bin/sh\n{program}\nexit 9\n")
    script.chmod(0o755)
    with contextlib.closing(LaunchedTarget(f"{script} {{host}} {{port}}", "real")) as target:
        target.signal(signal.SIGUSR1)
        with visit(target.address, 5) as client:
            reply = ask(client, b"put 0 0 60 1\r\na", 5)
            while reply.word == "INSERTED":
                reply = ask(client, b"put 0 0 60 1\r\na", 5)
        assert reply.word == "DRAINING"
        assert target.outage() is None


def test_what_did_not_fit_in_is_told_or_says_nothing() -> None:
    budget = Budget(60.0)
    next(budget.turns(10))
    with pytest.raises(Inconclusive, match="reached only 1 of 10 steps"):
        budget.reached(10, "steps")
    list(zip(budget.turns(10), range(4), strict=False))
    assert budget.reached(10, "steps").startswith("6 of 10 steps")
