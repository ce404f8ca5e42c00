"""The event loop in a thread of its own, and calls into it from other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from reference_server.loop import Loop

T = TypeVar("T")

TIMEOUT = 30.0
"""Seconds of real time that a call into the loop may take: a server may have a fault."""


class LoopThread:
    """A :class:`Loop` that runs until :meth:`close`."""

    def __init__(self, name: str) -> None:
        self.loop = Loop()
        self._thread = threading.Thread(target=self.loop.run, name=name, daemon=True)
        self._thread.start()

    @property
    def native_id(self) -> int:
        """The number that the system has given to the thread."""
        assert self._thread.native_id is not None
        return self._thread.native_id

    @property
    def is_running(self) -> bool:
        """True while the thread runs; in a fork of its process it does not."""
        return self._thread.is_alive()

    def call(self, function: Callable[[], T]) -> T:
        """Return the result of a function that is called between two events of the loop.

        Raises its exception, or TimeoutError after :data:`TIMEOUT` seconds.
        """
        return _result(self.loop.call_soon, function)

    def call_when_idle(self, function: Callable[[], T]) -> T:
        """Call a function as :meth:`call` does, after all that clients have sent before."""
        return _result(self.loop.call_when_idle, function)

    def close(self) -> None:
        """End the thread, and close the loop; raises TimeoutError if something keeps it busy."""
        self.loop.stop()
        self._thread.join(TIMEOUT)
        if self.is_running:
            raise TimeoutError(f"the {self._thread.name} has been busy for {TIMEOUT:g} seconds")
        self.loop.close()


def _result(schedule: Callable[[Callable[[], object]], object], function: Callable[[], T]) -> T:
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(function())
        except Exception as error:
            done.set_exception(error)

    schedule(run)
    try:
        return done.result(TIMEOUT)
    except TimeoutError:
        if done.done():
            raise
        raise TimeoutError(f"the server has been busy for {TIMEOUT:g} seconds") from None
