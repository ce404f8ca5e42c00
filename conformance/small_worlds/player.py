"""Plays recorded conversations at wire speed, and compares replies with recorded ones.

A difference is no verdict. The target may have made another choice, or be slow; the caller judges
again what has come to it, with the oracle.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Iterator, Sequence

from conformance.random_testing.steps import Ask, Happen, Leave, Step, Wait
from conformance.random_testing.unjudged_clients import UnjudgedClients
from conformance.small_worlds.comparison import DifferentReply, ReplyComparison, with_plain_lines
from conformance.small_worlds.recording import Turn
from conformance.small_worlds.world import at_home
from conformance.target.cleanup import sweep
from conformance.target.signals import named
from conformance.target.starvation import SEEN, Starvation
from conformance.target.target import Target
from conformance.target.transport import Transport
from reference_server.wire import ProtocolError

STALL = 1.0
"""Seconds for which nothing comes until replies count as different that began differently."""
_LOOK = 0.2
"""Seconds without a reply after which it is looked whether somebody waits for a CPU."""
_BUSY = 10
"""The factor by which replies may take longer where we or the target wait for a CPU."""
_CRLF = b"\r\n"


class TourPlayer:
    """Plays turns on a target. ``comparison`` says what may differ from the recorded tour.

    ``own``: the tube that stands for ``HOME`` in what is written down, if any does.
    """

    def __init__(self, target: Target, comparison: ReplyComparison, own: str = "") -> None:
        self._own = own
        # What does not come in that time is judged again.
        self._timeout = max(target.limits.reply / 4, target.short_timeout())
        self._target = target
        self._comparison = comparison
        self._clients = UnjudgedClients(target)

    def play(self, turns: Iterable[Turn]) -> Iterator[Turn]:
        """Play turns, and yield each turn that the target answers as recorded.

        Raises DifferentReply or OSError.
        """
        self._comparison.begin()
        rest = iter(turns)
        following = next(rest, None)
        while (turn := following) is not None:
            self._do(turn.steps)
            # The target replies while the next turn is unpacked.
            following = next(rest, None)
            # A waiting client may get a job before the reply to its put reveals the id.
            for number, expected in sorted(turn.replies.items(), key=_names_no_job):
                self._compare(number, expected)
            for number in turn.ended:
                self._await_end(number)
            yield turn

    def close(self) -> None:
        """End all connections, and delete all that may be left in a tube of our own."""
        limits = self._target.limits
        for transport in self._clients.transports.values():
            transport.hang_up(limits.goodbye)
        self._clients.close()
        if self._own:
            with contextlib.suppress(OSError, EOFError, ProtocolError, ValueError):
                sweep(self._target, lambda tube: tube.startswith(self._own), limits.clean_up)

    def _do(self, steps: Sequence[Step]) -> None:
        step = steps[0]
        if isinstance(step, Ask):
            ids = self._comparison.ids
            said = [
                # A job of which no id is known yet has the one that was written down, if any.
                ask.text if ask.job is None else ask.text % ids.get(ask.job, ask.job)
                for ask in steps
                if isinstance(ask, Ask)
            ]
            self._clients.connect(step.client).send(at_home(b"".join(said), self._own))
        elif isinstance(step, Leave):
            self._clients.leave(step)
        elif isinstance(step, Wait):
            self._target.clock.move(step.seconds)
        elif isinstance(step, Happen):
            self._target.signal(named(step.event.decode()))

    def _compare(self, number: int, expected: bytes) -> None:
        transport = self._clients.transports[number]
        count, replies = expected.count(_CRLF), _Replies(transport, self._target, self._timeout)
        came = with_plain_lines(raw := replies.next_bytes())
        while came.count(_CRLF) < count or not came.endswith(_CRLF):
            # A different reply may be shorter: it has less time.
            more = replies.next_bytes(math.inf if expected.startswith(came) else STALL)
            if not more:
                raise DifferentReply
            raw += more
            came = with_plain_lines(raw)
        self._comparison.check(at_home(expected, self._own), came)

    def _await_end(self, number: int) -> None:
        transport = self._clients.transports[number]
        end = time.monotonic() + self._timeout
        while not transport.ended:
            if transport.receive_within(end - time.monotonic()) or time.monotonic() > end:
                raise DifferentReply
        self._clients.leave(Leave(number, half=False))


def _names_no_job(replies: tuple[int, bytes]) -> bool:
    """Tell whether no put is answered among the replies to a client."""
    return b"INSERTED " not in replies[1]


class _Replies:
    """The replies to what was sent, for ``timeout`` seconds; for longer where a CPU is wanting."""

    def __init__(self, transport: Transport, target: Target, timeout: float) -> None:
        self._transport, self._target = transport, target
        self._timeout = timeout
        self._begun = time.monotonic()
        self._starvation: Starvation | None = None

    def next_bytes(self, most: float = math.inf) -> bytes:
        """Return what comes next; empty if nothing does within ``most`` seconds, or in time."""
        end = time.monotonic() + most
        while not self._transport.ended and (left := min(self._left(), end - time.monotonic())) > 0:
            if self._starvation is None and time.monotonic() - self._begun > _LOOK:
                # To look for it takes time, which replies that come at once do not need.
                self._starvation = Starvation(self._target.cpu_time)
            if more := self._transport.receive_within(min(left, _LOOK)):
                return more
        return b""

    def _left(self) -> float:
        """Return how many seconds are left."""
        left = self._begun + self._timeout - time.monotonic()
        if left > 0 or self._starvation is None:
            return left
        starved = SEEN * self._starvation.since().seconds
        return left + min(starved, (_BUSY - 1) * self._timeout)
