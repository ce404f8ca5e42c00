"""Servers that we start: a command line, a free port, and an end that always comes."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import random
import re
import select
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from conformance.target import starvation
from conformance.target.address import connect, hang_up
from conformance.target.starvation import Patience
from conformance.target.watchdog import ENDINGS, kill_marked, new_mark
from conformance.transcript import printable

# Below the range from which systems give out ports for outgoing connections.
_PORTS = range(15000, 32000)
START_LIMIT = 8.0
"""Seconds that a server may take until it listens, while it needs no CPU."""
PROBE_LIMIT = 5.0
"""Seconds within which a server must have answered for the first time, while it needs no CPU."""
_TRIES = 5
_FLAGS, _PF_EXITING = 6, 0x4
"""Where the system tells of a process that it is exiting, behind its name."""
_SAID = 2000


class LaunchError(Exception):
    """The server could not be started; the text says why, in one sentence."""


class DidNotStart(LaunchError):
    """The server was run, but it exited or did not listen; ``fate`` says which."""

    def __init__(self, fate: str, command: str, said: str) -> None:
        what = f"the launched server {fate}: {command}"
        super().__init__(f"{what}; it said: {said}" if said else what)
        self.fate = fate


class _ClaimedPort:
    """A free TCP port, kept from other workers until it is released."""

    def __init__(self, host: str) -> None:
        folder = Path(tempfile.gettempdir()) / f"beanstalk-conformance-ports-{os.getuid()}"
        folder.mkdir(exist_ok=True)
        self._host = host
        for self.number in random.sample(_PORTS, 200):
            self._lock = (folder / str(self.number)).open("wb")
            with contextlib.suppress(OSError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self.is_free:
                    return
            self._lock.close()
        raise LaunchError(f"no free TCP port found on {host}")

    @property
    def is_free(self) -> bool:
        """Return whether a server can listen there, even one that cannot share the port."""
        with socket.socket() as probe:
            try:
                probe.bind((self._host, self.number))
            except OSError:
                return False
        return True

    def release(self) -> None:
        self._lock.close()


def command_line(command: str, values: Mapping[str, object]) -> list[str]:
    """The arguments of a command template, its ``{names}`` filled in.

    A part in ``[brackets]`` is left out unless all its names have values. Raises
    :class:`LaunchError` if the template is not well-formed.
    """

    def part(match: re.Match[str]) -> str:
        try:
            return match[1].format_map(values)
        except KeyError:
            return ""

    try:
        arguments = shlex.split(re.sub(r"\[([^\][]*)\]", part, command).format_map(values))
    except (KeyError, ValueError, IndexError) as error:
        raise LaunchError(f"the command to launch is not well-formed: {command!r}") from error
    if not arguments:
        raise LaunchError("the command to launch is empty")
    return arguments


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Puts off signals that end a program, so that no process is started and then forgotten."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers = [signal.signal(number, lambda number, _: came.append(number)) for number in ENDINGS]
    try:
        yield
    finally:
        for interrupt, handler in zip(ENDINGS, handlers, strict=True):
            signal.signal(interrupt, handler)
        for number in came:
            signal.raise_signal(number)


class Launched:
    """A running server; ``address`` is where it listens. Always ended, at the latest with us.

    Raises :class:`LaunchError` if it cannot be run or does not listen in time.
    """

    def __init__(
        self,
        command: str,
        env: Mapping[str, str] | None = None,
        values: Mapping[str, object] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self._output = tempfile.TemporaryFile()
        self._mark = new_mark()
        for _ in range(_TRIES):
            self.has_ended = False
            self._port = _ClaimedPort(host)
            self.address = host, self._port.number
            arguments = command_line(
                command, {"host": host, "port": self._port.number, **(values or {})}
            )
            with _uninterrupted():
                self.process = self._start(arguments, {**os.environ, **self._mark, **(env or {})})
                atexit.register(self.end)
            self.meter = starvation.session(self.process.pid)
            if self._listens():
                return
            status = self.exit_status()
            # Somebody else may have taken the port; but who does not exit has not tried.
            taken = status is not None and not self._port.is_free
            self.end()
            if not taken:
                break
        fate = f"did not listen within {START_LIMIT:g} seconds"
        if status is not None:
            fate = f"{status} before it listened"
        raise DidNotStart(fate, shlex.join(arguments), self.said())

    def _start(self, arguments: list[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
        except OSError as error:
            self._port.release()
            raise LaunchError(f"cannot run {arguments[0]!r}: {error.strerror}") from error

    def _listens(self) -> bool:
        """Return whether the server accepts connections before it exits or the time is up."""
        patience = Patience(self.meter, START_LIMIT)
        while not patience.is_over and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(self.address, timeout=1):
                return self.process.poll() is None
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.005)
        return False

    def answers(self) -> bool:
        """Return whether the server speaks to its first client, or ends the connection.

        A server that is alive may listen long before a busy machine lets it come to that.
        """
        patience = Patience(self.meter, PROBE_LIMIT)
        with contextlib.suppress(OSError), connect(self.address, PROBE_LIMIT) as sock:
            sock.sendall(b"list-tube-used\r\n")
            answered = False
            while not answered and not patience.is_over and self.process.poll() is None:
                answered = bool(select.select([sock], [], [], 0.1)[0])
            hang_up(sock, 0.1 if not answered else PROBE_LIMIT)
            return answered
        return False

    def said(self) -> str:
        """The last that the server printed, escape sequences neutralised."""
        end = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(end - _SAID, 0))
        return printable(self._output.read().decode(errors="replace").strip())

    @property
    def is_exiting(self) -> bool:
        """Return whether its process is about to be gone, as its connections are."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            stat = Path("/proc", str(self.process.pid), "stat").read_text()
            return bool(int(stat.rpartition(")")[2].split()[_FLAGS]) & _PF_EXITING)
        return False

    def exit_status(self) -> str | None:
        """Return how the server ended, None if it runs."""
        status = self.process.poll()
        if status is None:
            return None
        if status < 0:
            return f"ended by {signal.Signals(-status).name}"
        return f"exited with status {status}"

    def signal(self, number: int) -> None:
        """Sends a signal to the server."""
        self.process.send_signal(number)

    def __enter__(self) -> Launched:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Ends the server and all that it has started; harmless if done already."""
        atexit.unregister(self.end)
        if self.has_ended:
            # Its number may be that of another process by now.
            return
        self.has_ended = True
        if self.process.poll() is not None:
            # What goes on without it has daemonised itself.
            kill_marked(self._mark)
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)
                # A stopped server hears nothing but SIGKILL until it goes on.
                os.killpg(self.process.pid, signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1)
                break
        self._port.release()
