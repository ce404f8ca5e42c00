"""System calls of a server that fail, and what becomes of the server."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.target.failing_calls import FailingCalls
from conformance.verdict import NotTestable
from tests.servers import needs_strace

_ACCEPTS = """
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    try:
        server.accept()[0].sendall(b"hello")
    except OSError:
        time.sleep(0.01)
"""


@pytest.fixture
def server() -> Iterator[tuple[Path, int]]:
    """Run a server that greets its clients: its folder of the system, and its port."""
    with subprocess.Popen([sys.executable, "-c", _ACCEPTS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield Path("/proc", str(process.pid)), int(process.stdout.readline())
        process.kill()


def _is_greeted(port: int, seconds: float) -> bool:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(seconds)
        with contextlib.suppress(TimeoutError):
            return client.recv(5) == b"hello"
    return False


@needs_strace
def test_calls_fail_until_they_succeed_again(server: tuple[Path, int]) -> None:
    folder, port = server
    failing = FailingCalls([folder], ["accept", "accept4"], "ENFILE")
    assert not _is_greeted(port, 0.1)
    assert failing.end() > 0
    assert _is_greeted(port, 30)


@needs_strace
def test_what_was_never_called_has_not_failed(server: tuple[Path, int]) -> None:
    failing = FailingCalls([server[0]], ["fsync"], "EIO")
    assert failing.end() == 0


def test_a_process_that_is_gone_cannot_be_held() -> None:
    with pytest.raises(NotTestable, match="strace"):
        FailingCalls([Path("/proc/999999999")], ["fsync"], "EIO")


def test_without_strace_no_call_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NotTestable, match="strace is not installed"):
        FailingCalls([Path("/proc/self")], ["fsync"], "EIO")


def test_a_strace_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: tuple[Path, int]
) -> None:
    fake = tmp_path / "strace"
    lines = (f"#!{sys.executable}", "import signal, time", "signal.signal(15, signal.SIG_IGN)")
    fake.write_text("\n".join((*lines, "time.sleep(1000)")))
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("conformance.target.failing_calls._SECONDS", 0.5)
    with pytest.raises(NotTestable, match="it takes too long"):
        FailingCalls([server[0]], ["accept"], "ENFILE")
