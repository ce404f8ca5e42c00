"""A driver and its process: it may crash, hang, flood its output or close its input."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence

from conformance.clients.protocol import PREFIX, Answer, DriverError, parse_answer
from conformance.target.starvation import CpuTime, session
from conformance.target.vitals import vitals
from conformance.target.watchdog import new_mark

LONGEST_LINE = 4 << 20
"""Bytes of a line of output: more of an answer is dropped, more of another line is an error."""
_READ = 1 << 16


class DriverEnded(Exception):
    """The process of the driver ended, or takes no questions; the text says how."""


class Channel:
    """The lines between suite and driver, over two descriptors."""

    def __init__(self, questions: int, answers: int) -> None:
        self._in, self._out = questions, answers
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._buffer = bytearray()
        self._unsent = b""
        self._number = 0
        self.is_asked = False
        """True while an answer is due."""
        self.has_ended = False

    def fileno(self) -> int:
        """Return the descriptor of its output, for a selector."""
        return self._out

    def ask(self, question: str) -> None:
        """Send a question; raise :class:`DriverEnded`."""
        self._number += 1
        self.is_asked = True
        self._unsent += f"{self._number} {question}\n".encode()
        self.push()

    @property
    def unread(self) -> list[int]:
        """The descriptor of its input, if a part of a question is left for that."""
        return [self._in] if self._unsent else []

    def push(self) -> None:
        """Send the part of a question that the driver has not read yet."""
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._in, self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self.has_ended = True
            raise DriverEnded(self.ending("the driver takes no questions")) from None

    def answer(self) -> Answer | None:
        """Return the answer, None until it is there.

        Raises :class:`DriverError` and :class:`DriverEnded`.
        """
        try:
            read = os.read(self._out, _READ)
        except BlockingIOError:
            return None
        if not read:
            self.has_ended = True
            raise DriverEnded(self.ending("the driver ended"))
        self._buffer += read
        while (end := self._buffer.find(b"\n")) >= 0:
            line = self._buffer[:end].decode("utf-8", "replace")
            del self._buffer[: end + 1]
            if answer := parse_answer(line, self._number):
                self.is_asked = False
                return answer
            self.skip(line)
        if len(self._buffer) > LONGEST_LINE:
            if self._buffer.startswith(PREFIX.encode()):
                # The text of an error: its beginning is enough.
                del self._buffer[LONGEST_LINE:]
                return None
            raise DriverError(f"the driver prints a line of more than {LONGEST_LINE:,} bytes")
        return None

    def skip(self, line: str) -> None:
        """Take a line that is no answer: the library has printed it."""

    def ending(self, what: str) -> str:
        """Return in words how the driver ended."""
        return what

    def said(self) -> str:
        """Return the last line of its error output, as far as it is known."""
        return ""

    def memory(self) -> int:
        """Return the most memory that the processes had, in bytes; 0 if that cannot be read."""
        return 0

    def cpu_time(self) -> CpuTime:
        """Return how long the driver ran, and waited for a CPU; 0 if that cannot be read."""
        return CpuTime()

    def close(self) -> None:
        """Stop to use the driver."""


class Driver(Channel):
    """A driver that the suite starts, in a process group of its own."""

    def __init__(self, command: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, **new_mark()},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._errors.close()
            reason = getattr(error, "strerror", None) or error
            raise DriverEnded(f"cannot start the driver {command[0]}: {reason}") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        super().__init__(self._process.stdin.fileno(), self._process.stdout.fileno())
        self._meter = session(self._process.pid)

    def ending(self, what: str) -> str:
        """Return in words how the process ended, with the end of its error output."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.returncode
        how = "" if code is None else f" (exit code {code})"
        if code is not None and code < 0:
            how = f" ({signal.strsignal(-code) or f'signal {-code}'})"
        said = self.said()
        return f"{what}{how}" + (f": {said}" if said else "")

    def said(self) -> str:
        """Return the last line of its error output."""
        size = os.fstat(self._errors.fileno()).st_size
        tail = os.pread(self._errors.fileno(), 4096, max(0, size - 4096))
        lines = tail.decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def memory(self) -> int:
        """Return the most memory that the processes had, in bytes; 0 if that cannot be read."""
        found = vitals(self._process.pid)
        return found.memory if found else 0

    def cpu_time(self) -> CpuTime:
        """Return how long the processes ran, and waited for a CPU; 0 if that cannot be read."""
        return self._meter.read()

    def close(self) -> None:
        """Kill the process and all that it started."""
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(OSError):
                assert stream is not None
                stream.close()
