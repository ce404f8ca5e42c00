"""The event loop: sockets are served in the order in which the kernel reports what happened.

epoll is used edge-triggered. It reports each event once, and in order; level-triggered, it keeps
what it has reported in its queue, and finds it there before what happened since. Whoever does not
take all that there is (bytes to read, clients to accept) says so with :meth:`Loop.again`, and comes
after all others that have something.
"""

from __future__ import annotations

import contextlib
import select
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from reference_server.reserve import RESERVE
from reference_server.system import tell_error

T = TypeVar("T")

READ, WRITE, ERROR, HANGUP = 1, 4, 8, 16
"""The events that are waited for, and that have happened; the bits of poll(2)."""
_ALWAYS = select.EPOLLET | select.EPOLLRDHUP if hasattr(select, "epoll") else 0
_BATCH = 64
"""Events taken from the kernel at a time."""
_BUSY_ROUNDS = 500
"""Rounds of the loop that a call waits for an idle loop: clients may never stop."""
_ROOM = 0.5
"""Seconds after which refused clients are tried again."""

Handler = Callable[[int], object]
"""It takes what happened; another bit says that the other side sends nothing more."""


class Poller(Protocol):
    """The part of ``select.epoll`` that is needed."""

    def register(self, fd: int, eventmask: int, /) -> None: ...

    def modify(self, fd: int, eventmask: int, /) -> None: ...

    def unregister(self, fd: int, /) -> None: ...

    def poll(self, timeout: float | None, maxevents: int, /) -> Sequence[tuple[int, int]]: ...

    def close(self) -> None: ...


class Levels:
    """A poller for systems without epoll; it is level-triggered, and so less prompt."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, fd: int, eventmask: int) -> None:
        """Wait for these events of a descriptor; for none, forget it."""
        wanted = selectors.EVENT_READ if eventmask & READ else 0
        wanted |= selectors.EVENT_WRITE if eventmask & WRITE else 0
        if fd in self._selector.get_map():
            self._selector.unregister(fd)
        if wanted:
            self._selector.register(fd, wanted)

    modify = register

    def unregister(self, fd: int) -> None:
        """Forget a descriptor."""
        self.register(fd, 0)

    def poll(self, timeout: float | None, maxevents: int) -> Sequence[tuple[int, int]]:
        """Wait for events, and return all that there are."""
        return [
            (
                key.fd,
                (READ if events & selectors.EVENT_READ else 0)
                | (WRITE if events & selectors.EVENT_WRITE else 0),
            )
            for key, events in self._selector.select(timeout)
        ]

    def close(self) -> None:
        """Give back what the system lent."""
        self._selector.close()


def poller() -> Poller:
    """Return the best poller of this system."""
    return select.epoll() if hasattr(select, "epoll") else Levels()


class Loop:
    """Calls the handlers of sockets, and whatever else it is asked to, one after the other.

    ``before_wait`` is called before it waits; it returns how many seconds that may last at most.
    """

    def __init__(self) -> None:
        self.before_wait: Callable[[], float | None] = lambda: None
        self._poller = poller()
        self._handlers: dict[int, Handler] = {}
        self._forgotten: set[int] = set()
        self._without_room: set[int] = set()
        self._room_at = 0.0
        self._calls: deque[Callable[[], object]] = deque()
        self._idle_calls: deque[Callable[[], object]] = deque()
        self._busy_rounds = 0
        self._runs = True
        self._inside, self._outside = socket.socketpair()
        for end in (self._inside, self._outside):
            end.setblocking(False)
        self.watch(self._inside.fileno(), self._call)

    # ------------------------------------------------------------ sockets

    def watch(self, fd: int, handler: Handler) -> None:
        """Call ``handler`` with what happens to a descriptor: it can be read, or has ended."""
        self._handlers[fd] = handler
        self._poller.register(fd, _ALWAYS | READ)

    def again(self, fd: int, interest: int = READ) -> None:
        """Wait for these events; any of them that is there already is reported again."""
        self._poller.modify(fd, _ALWAYS | interest)

    def again_with_room(self, fd: int) -> None:
        """Report a descriptor again when another one has been forgotten, or after a while.

        What is missing may be another program's.
        """
        if not self._without_room:
            self._room_at = time.monotonic() + _ROOM
        self._without_room.add(fd)

    def forget(self, fd: int) -> None:
        """Report nothing more of a descriptor, which is about to be closed."""
        del self._handlers[fd]
        self._poller.unregister(fd)
        # The number may be taken again before the rest of a batch has been handled.
        self._forgotten.add(fd)
        self._without_room.discard(fd)
        self._make_room()

    def _make_room(self) -> None:
        while self._without_room:
            self.again(self._without_room.pop())

    # ------------------------------------------------------------ calls

    def wakeup_fd(self) -> int:
        """Return what the interpreter shall write to when a signal comes."""
        return self._outside.fileno()

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call this when all that has happened before has been handled; from any thread."""
        self._calls.append(function)
        with contextlib.suppress(BlockingIOError):
            self._outside.send(b"\0")

    def call_when_idle(self, function: Callable[[], object]) -> None:
        """Call this when nothing is left to handle, sent in however many pieces; from any thread.

        If clients never stop, it is called after :data:`_BUSY_ROUNDS`.
        """
        self.call_soon(lambda: self._idle_calls.append(function))

    def _idle(self, is_idle: bool) -> None:
        self._busy_rounds += 1
        if is_idle or self._busy_rounds > _BUSY_ROUNDS:
            self._busy_rounds = 0
            for _ in range(len(self._idle_calls)):
                _guarded(self._idle_calls.popleft())

    def stop(self) -> None:
        """Let :meth:`run` return soon; from any thread."""
        self.call_soon(self._stop)

    def _stop(self) -> None:
        self._runs = False

    def _call(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self._inside.recv(4096)
        for _ in range(len(self._calls)):
            _guarded(self._calls.popleft())

    # ------------------------------------------------------------ running

    def run(self) -> None:
        """Handle all that happens until :meth:`stop`.

        A handler that fails says so on standard error, and stops nobody else.
        """
        handlers, forgotten, poll = self._handlers, self._forgotten, self._poller.poll
        while self._runs:
            forgotten.clear()
            wait = self._longest_wait()
            if self._idle_calls:
                wait = 0.0
            happened = RESERVE.needed(partial(poll, wait, _BATCH))
            if self._idle_calls:
                self._idle(not happened)
            elif not happened and wait == _ROOM:
                # A clock that stands still does not show that this has passed.
                self._make_room()
            for fd, events in happened:
                if fd in forgotten:
                    continue
                try:
                    handlers[fd](events)
                except Exception:
                    tell_error()

    def _longest_wait(self) -> float | None:
        """Return how many seconds may be waited; None for as many as there are."""
        seconds = _guarded(self.before_wait)
        if not self._without_room:
            return seconds
        # A clock that is moved may go back.
        left = min(self._room_at - time.monotonic(), _ROOM)
        if left <= 0:
            self._make_room()
            return 0.0
        return left if seconds is None else min(left, seconds)

    def close(self) -> None:
        """Give back what the system lent, when it runs no more."""
        self._poller.close()
        self._inside.close()
        self._outside.close()


def _guarded(function: Callable[[], T]) -> T | None:
    """Return what a function gives, or None if it fails."""
    try:
        return function()
    except Exception:
        tell_error()
        return None
