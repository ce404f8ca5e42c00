"""Two named pipes, for a driver that its author starts, in a debugger for example."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from pathlib import Path

from conformance.clients.driver import Channel, DriverEnded
from conformance.printable import printable

QUESTIONS, ANSWERS = "questions", "answers"
_LOOK = 0.1
"""Seconds between two looks for a driver."""


class ListenedDriver(Channel):
    """A driver at the other ends of the pipes; it is used until it ends or owes an answer."""

    def ask(self, question: str) -> None:
        """Send a question, and show it: its author may have to wait for it."""
        super().ask(question)
        print(printable(f"{self._number} {question[:200]}"), flush=True)

    def skip(self, line: str) -> None:
        """Show what the library prints: the pipe hides it from the author."""
        print(printable(f"  printed: {line[:200]}"), flush=True)

    @property
    def is_usable(self) -> bool:
        """Return whether the driver can get the next question."""
        return not self.is_asked and not self.has_ended

    def release(self) -> None:
        """Close both pipes, so that the driver ends."""
        for descriptor in (self._in, self._out):
            with contextlib.suppress(OSError):
                os.close(descriptor)


class Listener:
    """The pipes, in a folder. Raises :class:`DriverEnded` if they cannot be made."""

    def __init__(self, folder: Path) -> None:
        self._paths = (folder / QUESTIONS, folder / ANSWERS)
        self._driver: ListenedDriver | None = None
        for path in self._paths:
            try:
                if not (path.exists() and stat.S_ISFIFO(path.stat().st_mode)):
                    os.mkfifo(path)
            except (OSError, AttributeError) as error:
                reason = getattr(error, "strerror", None) or error
                raise DriverEnded(f"cannot make the named pipe {path}: {reason}") from None

    def start(self) -> Channel:
        """Return the driver, or wait until there is one."""
        if self._driver is not None and self._driver.is_usable:
            return self._driver
        self._release()
        print(f"waiting for a driver: DRIVER <{QUESTIONS} >{ANSWERS}", flush=True)
        answers = os.open(self._paths[1], os.O_RDONLY | os.O_NONBLOCK)
        while True:
            try:
                questions = os.open(self._paths[0], os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError as error:
                # Nobody reads it yet.
                if error.errno != errno.ENXIO:
                    raise
                time.sleep(_LOOK)
        self._driver = ListenedDriver(questions, answers)
        return self._driver

    def _release(self) -> None:
        if self._driver is not None:
            self._driver.release()
            self._driver = None

    def close(self) -> None:
        """End the driver, and remove the pipes."""
        self._release()
        for path in self._paths:
            path.unlink(missing_ok=True)
