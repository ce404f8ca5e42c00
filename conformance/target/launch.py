"""Starts servers: a command line, a free port, and a guaranteed end."""

from __future__ import annotations

import atexit
import contextlib
import errno
import math
import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from conformance.printable import printable
from conformance.target import instrumented, starvation
from conformance.target.address import connect
from conformance.target.command import LaunchError as LaunchError
from conformance.target.command import command_line, listens_on_path
from conformance.target.limits import USUAL, Limits
from conformance.target.place import ClaimedPort, FreePlace, SocketFolder
from conformance.target.sanitizers import ABORTING, reports
from conformance.target.starvation import ENOUGH, Timeout
from conformance.target.transport import FLOOD, Transport
from conformance.target.vitals import WATCH
from conformance.target.watchdog import ENDINGS, kill_marked, new_mark
from conformance.verdict import Outage, OutcomeKind
from reference_server.profiles import LIST_TUBE_USED
from reference_server.wire import CRLF

_TRIES = 5
_IN_USE = os.strerror(errno.EADDRINUSE).lower().encode()
_FLAGS, _PF_EXITING = 6, 0x4
"""The field after the name in /proc/PID/stat, and its bit, that show that a process exits."""
_SAID, _REPORT = 2000, 2**14
"""Bytes of what a server has printed that are shown, and among which a report is looked for."""
_UNREAD = 1_000_000
"""Bytes of the server's output that are read at a time."""
_LOOK = 0.1
"""Seconds between two checks of whether an unresponsive server has exited."""
_EXIT, _LAST_WORDS = 0.8, 2.0
"""Seconds for an exit that was asked for, and for which it may need a CPU then, at most."""
_ENDLESS: set[str] = set()
"""Commands of servers that had to be killed: they have no last words."""


def with_what_it_said(message: str, said: str) -> str:
    """Append the server's own output to a message."""
    return f"{message}; it said: {said}" if said else message


class DidNotStart(LaunchError):
    """The server was run, but it exited or did not listen; ``how`` says which.

    ``status`` is its exit status, negative if a signal has ended it; None if it did not listen.
    """

    def __init__(self, how: str, command: str, said: str, status: int | None = None) -> None:
        super().__init__(with_what_it_said(f"the launched server {how}: {command}", said))
        self.how = how
        self.said = said
        self.status = status

    @property
    def as_outage(self) -> Outage:
        """Return it as the outage of a target that was to start again."""
        how = f"the launched server {self.how}"
        if self.status is None:
            return Outage(OutcomeKind.HANGS, how)
        return Outage(
            OutcomeKind.CRASHED if self.status < 0 else OutcomeKind.GONE, how, max(-self.status, 0)
        )


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Put off signals that end a program, so that no process is started and then forgotten."""
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


def _drain(pipe: IO[bytes], file: IO[bytes]) -> None:
    """Write into a file what comes through a pipe, until nobody can write to it any more."""
    end = 0
    with pipe:
        while data := os.read(pipe.fileno(), 2**16):
            # Reading seeks in it.
            end += os.pwrite(file.fileno(), data, end)


class Launched:
    """A running server; ``where`` is where it listens. Always ended, at the latest with us.

    Raises :class:`LaunchError` if it cannot be run or does not listen in time. ``prefix``: the
    program that becomes the command, and its arguments. ``piped``: it prints into a pipe, which no
    limit on the size of files concerns. ``keeps_first``: its first connection, which shows that it
    listens, stays open as ``first``.
    """

    def __init__(
        self,
        command: str,
        env: Mapping[str, str] | None = None,
        values: Mapping[str, object] | None = None,
        host: str = "127.0.0.1",
        limits: Limits = USUAL,
        prefix: Sequence[str] = (),
        piped: bool = False,
        keeps_first: bool = False,
    ) -> None:
        self._command = command
        self._limits = limits
        self._piped = piped
        self._keeps_first = keeps_first
        self.first: Transport | None = None
        self._output = tempfile.TemporaryFile()
        self._heard = 0
        self._mark = new_mark()
        for _ in range(_TRIES):
            self.has_ended = False
            self._place: FreePlace = (
                SocketFolder() if listens_on_path(command) else ClaimedPort(host)
            )
            self.where = self._place.address
            words = {"host": host, **self._place.values, **(values or {})}
            arguments = [*prefix, *command_line(command, words)]
            begun = os.fstat(self._output.fileno()).st_size
            with _uninterrupted():
                self.process = self._start(arguments, {**os.environ, **self._mark, **(env or {})})
                WATCH.begins(self.process.pid)
                atexit.register(self.end)
            self.meter = starvation.session(self.process.pid)
            if self._listens():
                return
            status, code = self.exit_status(), self.process.poll()
            # Somebody else may have taken its place, perhaps for a moment, as a process has that
            # was forked while we looked; but a server that does not exit has not tried.
            taken = status is not None and (
                not self._place.is_free or _IN_USE in self._printed(begun).lower()
            )
            self.end()
            if not taken:
                break
        how = f"did not listen within {limits.start:g} seconds"
        if status is not None:
            how = f"{status} before it listened"
        raise DidNotStart(how, shlex.join(arguments), self.said(), code)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, unless it listens on a UNIX socket."""
        assert not isinstance(self.where, str)
        return self.where

    def _start(self, arguments: list[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        try:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if self._piped else self._output,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
        except OSError as error:
            self._place.release()
            raise LaunchError(f"cannot run {arguments[0]!r}: {error.strerror}") from error
        if process.stdout is not None:
            ends = process.stdout, self._output
            threading.Thread(target=_drain, args=ends, daemon=True).start()
        return process

    def _listens(self) -> bool:
        """Return whether the server accepts connections before it exits or the time is up."""
        timeout = Timeout(self.meter, self._limits.start, self._limits.starved)
        while not timeout.is_over and self.process.poll() is None:
            with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
                first = stack.enter_context(Transport(connect(self.where, 1)))
                if self._keeps_first:
                    stack.pop_all()
                    self.first = first
                return self.process.poll() is None
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.005)
        return False

    def answers(
        self, goodbye: float | None = None, asked: bytes = LIST_TUBE_USED, seconds: float = math.inf
    ) -> bool:
        """Return whether the server speaks to its first client, or ends the connection.

        On a busy machine, a server may listen long before it gets to its first client.
        ``goodbye``: the timeout for the end of the connection, if not the usual one.
        ``seconds``: that it has at most.
        """
        limits = self._limits
        seconds = min(limits.probe, seconds)
        timeout = Timeout(self.meter, seconds, limits.starved, ENOUGH * seconds)
        with (
            contextlib.suppress(OSError),
            Transport(connect(self.where, limits.probe)) as client,
        ):
            client.send(asked + CRLF)
            answered = False
            while not answered and not timeout.is_over and self.process.poll() is None:
                answered = bool(client.receive_within(_LOOK)) or client.ended
            client.half_close()
            # It has no more to do than that; some ignore it.
            seconds = limits.goodbye if goodbye is None else goodbye
            seconds = seconds if answered else _LOOK
            timeout = Timeout(self.meter, seconds, limits.probe, ENOUGH * seconds)
            left = FLOOD
            while not (client.ended or left <= 0 or timeout.is_over):
                left -= len(client.receive_within(min(seconds, _LOOK)))
            return answered
        return False

    @property
    def printed(self) -> int:
        """Return how many bytes the server has printed so far."""
        return self._output.seek(0, os.SEEK_END)

    def said(self, since: int = 0) -> str:
        """Return the last that the server printed, escape sequences neutralised.

        Nothing of the first ``since`` bytes. Of a sanitizer's report that has ended it, the
        beginning: only tables follow.
        """
        self._output.seek(max(self.printed - _REPORT, since))
        said = printable(self._output.read().decode(errors="replace").strip())
        fatal = [report.text for report in reports(said)] if said.endswith(ABORTING) else []
        return fatal[-1][:_SAID] if fatal else said[-_SAID:].strip()

    def new_output(self) -> str:
        """Return what the server has printed since this was asked last, neutralised."""
        new = self._printed(self._heard)
        self._heard += len(new)
        return printable(new.decode(errors="replace"))

    def _printed(self, begun: int) -> bytes:
        return os.pread(self._output.fileno(), _UNREAD, begun)

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
        """Send a signal to the server."""
        self.process.send_signal(number)

    def __enter__(self) -> Launched:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _has_exited(self, seconds: float) -> bool:
        """Return whether it exits in so many seconds, or a little later if it needs a CPU so long.

        What it prints as its last, a report of leaks for instance, may be the most important.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
            return True
        timeout = Timeout(self.meter, 2 * _LOOK, _LAST_WORDS)
        while self._command not in _ENDLESS and not timeout.is_over:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_LOOK)
                return True
        _ENDLESS.add(self._command)
        return False

    def end(self, hangs: bool = False) -> None:
        """End the server and all that it has started; harmless if done already.

        ``hangs``: it will not end by itself.
        """
        atexit.unregister(self.end)
        WATCH.ends(self.process.pid)
        if self.has_ended:
            # Its number may be that of another process by now.
            return
        self.has_ended = True
        if self.process.poll() is not None:
            # What goes on without it has daemonised itself.
            kill_marked(self._mark)
        for number in (signal.SIGTERM, signal.SIGKILL)[hangs:]:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)
                # A stopped server hears nothing but SIGKILL until it goes on.
                os.killpg(self.process.pid, signal.SIGCONT)
            if self._has_exited(instrumented.WRITES if instrumented.is_counting() else _EXIT):
                break
        if (self.process.poll() or 0) < 0:
            instrumented.note_loss()
        self._place.release()
