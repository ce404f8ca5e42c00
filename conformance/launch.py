"""Servers that we start: a command line, a free port, and an end that always comes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

# Below the range from which systems give out ports for outgoing connections.
_PORTS = range(15000, 32000)
_START_LIMIT = 10.0
_TRIES = 5


class LaunchError(Exception):
    """The server could not be started; the text says why, in one sentence."""


def claim_port(host: str) -> tuple[int, IO[bytes]]:
    """A free TCP port, and the lock that keeps it from other workers until it is closed."""
    folder = Path(tempfile.gettempdir()) / f"beanstalk-conformance-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for port in random.sample(_PORTS, 200):
        lock = (folder / str(port)).open("wb")
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind((host, port))
            return port, lock
        lock.close()
    raise LaunchError(f"no free TCP port found on {host}")


class Launched:
    """A running server. ``output()`` is what it printed, ``address`` where it listens."""

    def __init__(self, process: subprocess.Popen[bytes], host: str, port: int) -> None:
        self.process = process
        self.host = host
        self.port = port

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    def signal(self, number: int) -> None:
        """Sends a signal to the server."""
        self.process.send_signal(number)


def _arguments(command: str, host: str, port: int) -> list[str]:
    try:
        return shlex.split(command.format(host=host, port=port))
    except (KeyError, ValueError, IndexError) as error:
        raise LaunchError(f"the command to launch is not well-formed: {command!r}") from error


def _await_listening(process: subprocess.Popen[bytes], host: str, port: int) -> bool:
    """Whether the server accepts connections before it exits or the time is up."""
    limit = time.monotonic() + _START_LIMIT
    while time.monotonic() < limit and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
            return process.poll() is None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.01)
    return False


@contextlib.contextmanager
def launched(
    command: str, env: Mapping[str, str] | None = None, host: str = "127.0.0.1"
) -> Iterator[Launched]:
    """Runs ``command`` with ``{host}`` and ``{port}`` filled in, until the context ends.

    Raises :class:`LaunchError` if it cannot be run or does not listen within 10 seconds.
    """
    for _ in range(_TRIES):
        port, lock = claim_port(host)
        arguments = _arguments(command, host, port)
        with lock, tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen(
                    arguments,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(env or {})},
                    start_new_session=True,
                )
            except OSError as error:
                raise LaunchError(f"cannot run {arguments[0]!r}: {error.strerror}") from error
            try:
                if _await_listening(process, host, port):
                    yield Launched(process, host, port)
                    return
            finally:
                _end(process)
            output.seek(0)
            said = output.read(2000).decode(errors="replace").strip()
    status = process.returncode
    raise LaunchError(
        f"the launched server did not listen on {host}:{port} within {_START_LIMIT:.0f} seconds"
        f" (exit status {status}): {arguments}" + (f"; it said: {said}" if said else "")
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the server and everything that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
            return
