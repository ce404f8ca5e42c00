"""The clock of an embedded server, in seconds, as tests read and move it."""

from __future__ import annotations

import math
from collections.abc import Callable

from reference_server.clock import MovableClock

LONGEST = 2.0**32
"""The most seconds by which the clock is moved at once: beyond every TTR and delay."""


class BeanstalkClock:
    """The server's clock: all TTRs, delays, pauses and timeouts depend on it, and nothing else.

    It flows as real time does, until :meth:`freeze` lets it stand still. The fixture
    ``beanstalk_clock`` is a clock that stands still.
    """

    def __init__(
        self,
        shown: MovableClock,
        run: Callable[[Callable[[], None]], None],
        move: Callable[[int], None],
    ) -> None:
        """Take a clock that ``run``, which calls functions in the server's thread, may change.

        ``move`` moves it by nanoseconds, and lets timers fire on the way.
        """
        self._shown = shown
        self._run = run
        self._move = move

    @property
    def seconds(self) -> float:
        """The time that the clock shows, in seconds from an arbitrary start; it never goes back."""
        return self._shown.now / 1e9

    def advance(self, seconds: float) -> None:
        """Move the clock forward, and let everything fire that is due by then.

        The server first handles all that clients have sent. Timers fire in the order of their
        deadlines, each at its own time (protocol text, "Job Lifecycle" and "Worker Commands"):
        jobs whose TTR or delay is over become ready, pauses end, and waiting clients get
        ``RESERVED``, ``DEADLINE_SOON`` or ``TIMED_OUT``. When this returns, all of these replies
        have been sent.

        ``seconds``: 0 to 2**32. Raises ValueError for any other number, and RuntimeError if the
        server has stopped.
        """
        if not 0 <= seconds <= LONGEST:
            raise ValueError(f"the clock is advanced by 0 to 2**32 seconds, not by {seconds!r}")
        self._run(lambda: self._move(math.ceil(seconds * 1e9)))

    def freeze(self) -> None:
        """Let the clock stand still: from now on it moves only when it is advanced.

        A client that waits, for example in ``reserve-with-timeout 5``, waits until then. Raises
        RuntimeError if the server has stopped.
        """
        self._run(self._shown.freeze)

    def flow(self) -> None:
        """Let the clock flow again, from the time that it shows.

        Raises RuntimeError if the server has stopped.
        """
        self._run(self._shown.flow)
