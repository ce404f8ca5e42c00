"""The end of an interrupted run: quick, and with nothing left on a shared server."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from conformance.run.suite import Suite
from conformance.target.cleanup import NOTHING_LEFT
from conformance.target.watchdog import ENDINGS

GRACE = 0.5
"""Seconds after a signal in which further signals belong to it.

`timeout`, for one, signals first the process and then its group: the process gets two.
"""
_SLOW = "hypothesispytest"
"""The plugin that imports all of Hypothesis for its summary, if nobody has done so before."""


class Interrupted(KeyboardInterrupt):
    """A signal has ended the run; pytest shows this name, and no place in the code."""

    __module__ = "builtins"


def _without_interrupts(
    show: Callable[[sys.UnraisableHookArgs], object],
) -> Callable[[sys.UnraisableHookArgs], None]:
    """Return a hook that shows what Python ignores, but no interrupt, which is raised again."""

    def hook(ignored: sys.UnraisableHookArgs) -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            show(ignored)

    return hook


class Interruption:
    """Ends a run on a signal, in all of its processes; a later second signal ends it at once."""

    def __init__(self, config: pytest.Config, suite: Suite, is_worker: bool) -> None:
        self._config = config
        self._suite = suite
        self._is_worker = is_worker
        self._workers: list[int] = []
        self._has_come = False
        # With --full-trace, pytest shows the places only of the very exception.
        self._exception = KeyboardInterrupt if config.option.fulltrace else Interrupted
        self._first_at = 0.0

    def attend(self) -> None:
        """Take all signals that end a program, unless they are ignored, as nohup has it."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in ENDINGS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._comes)
        if self._is_worker:
            # Before all else is registered, so that it comes last.
            atexit.register(self._end)

    def _end(self) -> None:
        """End an interrupted worker at once: to free its memory piece by piece takes long."""
        if self._has_come:
            os._exit(pytest.ExitCode.INTERRUPTED)

    def _comes(self, *_: object) -> None:
        if self._has_come:
            if not self._is_worker and time.monotonic() - self._first_at > GRACE:
                self._give_up()
            return
        self._has_come, self._first_at = True, time.monotonic()
        for worker in self._workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGTERM)
        sys.unraisablehook = _without_interrupts(sys.unraisablehook)
        raise self._exception

    def _give_up(self) -> NoReturn:
        leftovers = self._suite.what_may_be_left()
        if (capture := self._config.pluginmanager.get_plugin("capturemanager")) is not None:
            # A test goes on if the first signal came where Python ignores exceptions.
            capture.suspend_global_capture()
        sys.stderr.write(
            f"\ninterrupted again; {leftovers}\n" if leftovers else "\ninterrupted again\n"
        )
        sys.stderr.flush()
        os._exit(pytest.ExitCode.INTERRUPTED)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        if self._has_come:
            # It has come where Python ignores exceptions, such as while an object is freed.
            raise self._exception

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Skip the slow parts of the end of a run that say nothing about the target."""
        if not self._config.option.fulltrace:
            # The sources of all files on the way would be read, and are not shown.
            excinfo.traceback = excinfo.traceback[-1:]
        if (plugin := self._config.pluginmanager.get_plugin(_SLOW)) is not None:
            self._config.pluginmanager.unregister(plugin)

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """Print that nothing was left on a shared server, if that is true."""
        if self._is_worker or self._suite.options.address is None or not self._has_come:
            return
        # A run that has just begun may have nothing to print with.
        if not self._suite.close() and self._config.pluginmanager.has_plugin("terminalreporter"):
            self._config.get_terminal_writer().line(NOTHING_LEFT)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: Any) -> None:
        self._workers.append(node.gateway._rinfo().pid)
