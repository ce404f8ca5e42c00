"""Recorded conversations played at wire speed: what comes is compared with what was written down.

A difference is no verdict. The target may have made another choice, or be slow; who plays judges
again what has come to it, with the oracle.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

from conformance.random_testing.steps import Ask, Happen, Leave, Step, Wait
from conformance.small_worlds.comparison import Comparison, Unlike, with_plain_lines
from conformance.small_worlds.recording import Turn
from conformance.small_worlds.world import at_home
from conformance.target.cleanup import sweep
from conformance.target.signals import named
from conformance.target.target import Target
from conformance.target.transport import Transport
from reference_server.wire import ProtocolError

STALL = 1.0
"""Seconds for which nothing comes until replies are unlike that began otherwise."""
_CRLF = b"\r\n"


class Player:
    """Plays turns on a target. ``comparison`` tells what may differ from what is written down.

    ``own``: the tube that stands for ``HOME`` in what is written down, if any does.
    """

    def __init__(self, target: Target, comparison: Comparison, own: str = "") -> None:
        self._own = own
        # What does not come in that time is judged again.
        self._patience = max(target.limits.reply / 4, target.short_timeout())
        self._target = target
        self._comparison = comparison
        self._transports: dict[int, Transport] = {}

    def play(self, turns: Sequence[Turn]) -> Iterator[Turn]:
        """Play turns, and yield each that came out as written down; raise Unlike, OSError."""
        self._comparison.begin()
        for turn in turns:
            self._do(turn.steps)
            for number, expected in turn.replies.items():
                self._compare(turn, number, expected)
            for number in turn.ended:
                self._await_end(number)
            yield turn

    def close(self) -> None:
        """End all connections, and delete all that may be left in a tube of our own."""
        limits = self._target.limits
        for transport in self._transports.values():
            transport.hang_up(limits.goodbye)
        self._transports.clear()
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
            self._open(step.client).send(at_home(b"".join(said), self._own))
        elif isinstance(step, Leave):
            transport = self._transports[step.client]
            if step.half:
                transport.half_close()
            else:
                del self._transports[step.client]
                transport.close()
        elif isinstance(step, Wait):
            self._target.clock.move(step.seconds)
        elif isinstance(step, Happen):
            self._target.signal(named(step.event.decode()))

    def _open(self, number: int) -> Transport:
        if number not in self._transports:
            self._transports[number] = self._target.connect()
        return self._transports[number]

    def _compare(self, turn: Turn, number: int, expected: bytes) -> None:
        transport = self._transports[number]
        count = expected.count(_CRLF)
        raw = transport.receive_within(self._patience)
        came = with_plain_lines(raw)
        end = time.monotonic() + self._patience
        while came.count(_CRLF) < count or not came.endswith(_CRLF):
            left = end - time.monotonic()
            # What is unlike already may be shorter, and is not waited for as long.
            more = transport.receive_within(left if expected.startswith(came) else min(left, STALL))
            if not more:
                raise Unlike
            raw += more
            came = with_plain_lines(raw)
        self._comparison.check(at_home(expected, self._own), came)

    def _await_end(self, number: int) -> None:
        transport = self._transports.pop(number)
        with transport:
            end = time.monotonic() + self._patience
            while not transport.ended:
                if transport.receive_within(end - time.monotonic()) or time.monotonic() > end:
                    raise Unlike
