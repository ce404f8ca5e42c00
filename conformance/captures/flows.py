"""All TCP connections of a capture: segments in, numbered parts of connections out."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from conformance.captures.reassembly import OPENER, OTHER, Part, TcpConnection, What
from conformance.captures.segments import ACK, SYN, Endpoint, TcpSegment

MAX_OPEN = 50_000
"""Connections that are followed at the same time; beyond, the one that is idle for longest ends."""
MAX_HELD = 64 << 20
"""Bytes of all connections that wait for missing ones."""
SORTED = 256
"""Segments within which the times of a capture are put in order."""
LATEST = 10**8
STEP = 32
"""Segments in a row that are more than ``LATEST`` nanoseconds late: the clock was set."""
_EVERY = 1024
"""Segments between two searches for connections that have timed out."""


class FlowPart(NamedTuple):
    """A part of connection ``conn``; ``opener`` has opened it, or was seen first."""

    at: int
    conn: int
    opener: Endpoint
    other: Endpoint
    part: Part


class _Flow:
    __slots__ = ("connection", "ends", "number")

    def __init__(self, number: int, opener: Endpoint, other: Endpoint) -> None:
        self.number = number
        self.ends = (opener, other)
        self.connection = TcpConnection()


def in_time(segments: Iterable[TcpSegment]) -> Iterator[TcpSegment]:
    """Yield segments by their times, as far as these are a little out of order."""
    waiting: list[tuple[int, int, TcpSegment]] = []
    behind: list[TcpSegment] = []
    newest = number = offset = 0
    for segment in segments:
        if offset:
            segment = segment._replace(at=segment.at + offset)
        behind.append(segment)
        if segment.at < newest - LATEST:
            if len(behind) < STEP:
                continue
            # The clock was set back: time goes on from what it has shown last.
            while waiting:
                yield heapq.heappop(waiting)[2]
            offset += newest - behind[0].at
            shift = newest - behind[0].at
            behind = [one._replace(at=one.at + shift) for one in behind]
        for one in behind:
            number += 1
            newest = max(newest, one.at)
            heapq.heappush(waiting, (one.at, number, one))
        behind.clear()
        while len(waiting) > SORTED:
            yield heapq.heappop(waiting)[2]
    for place, one in enumerate(behind, number + 1):
        heapq.heappush(waiting, (one.at, place, one))
    while waiting:
        yield heapq.heappop(waiting)[2]


class Flows:
    """Follows connections. ``count``: how many there were; ``now``: a time that never goes back.

    ``disorder``: within how many segments the capture is out of order. ``taken``: segments so far.
    ``held_bytes``: bytes that wait for missing ones.
    """

    def __init__(self) -> None:
        self.count = 0
        self.disorder = 0
        self.now = 0
        self._flows: OrderedDict[tuple[Endpoint, Endpoint], _Flow] = OrderedDict()
        self._waiting: dict[tuple[Endpoint, Endpoint], _Flow] = {}
        self.held_bytes = 0
        self.taken = 0

    @property
    def open_count(self) -> int:
        """Return how many connections are followed."""
        return len(self._flows)

    def parts(self, segments: Iterable[TcpSegment]) -> Iterator[FlowPart]:
        """Yield the parts of all connections in segments, to the end of the capture."""
        for segment in in_time(segments):
            self.now = max(self.now, segment.at)
            yield from self._take(segment)
            self.taken += 1
            if self.taken % _EVERY == 0:
                yield from self._expire()
        for flow in self._flows.values():
            yield from self._named(flow, flow.connection.finish())

    def _take(self, segment: TcpSegment) -> Iterator[FlowPart]:
        source, target = segment.source, segment.target
        key = (source, target) if source < target else (target, source)
        flow = self._flows.get(key)
        if flow is not None and _is_new(flow, segment):
            yield from self._forget(key, What.LOST)
            flow = None
        if flow is None:
            flow = self._opened(key, segment)
            if len(self._flows) > MAX_OPEN:
                yield from self._forget(next(iter(self._flows)), What.EVICTED)
        else:
            self._flows.move_to_end(key)
        connection = flow.connection
        if segment.flags & SYN and not connection.has_begun and flow.ends != _ends(segment):
            flow.ends = _ends(segment)
            connection.turn()
        side = OPENER if source == flow.ends[0] else OTHER
        is_tight = self.held_bytes > MAX_HELD
        yield from self._named(flow, connection.take(segment, side, self.taken, is_tight))
        self.disorder = max(self.disorder, connection.disorder)
        if connection.is_waiting:
            self._waiting[key] = flow
        elif self._waiting:
            self._waiting.pop(key, None)

    def _opened(self, key: tuple[Endpoint, Endpoint], segment: TcpSegment) -> _Flow:
        self.count += 1
        flow = self._flows[key] = _Flow(self.count, *_ends(segment))
        self._flows.move_to_end(key)
        return flow

    def _expire(self) -> Iterator[FlowPart]:
        for key, flow in [*self._waiting.items()]:
            yield from self._named(flow, flow.connection.expire(self.now))
            if not flow.connection.is_waiting:
                del self._waiting[key]

    def _forget(self, key: tuple[Endpoint, Endpoint], why: What) -> Iterator[FlowPart]:
        """Forget a connection, of which nothing more is seen."""
        flow = self._flows.pop(key)
        self._waiting.pop(key, None)
        yield from self._named(flow, flow.connection.finish())
        if not flow.connection.is_closed:
            yield from self._named(flow, [Part(why, OPENER, since=flow.connection.since)])

    def _named(self, flow: _Flow, parts: Iterable[Part]) -> Iterator[FlowPart]:
        before = flow.connection.held_bytes
        for part in parts:
            yield FlowPart(self.now, flow.number, *flow.ends, part)
        self.held_bytes += flow.connection.held_bytes - before


def _ends(segment: TcpSegment) -> tuple[Endpoint, Endpoint]:
    """Return the opener of a connection and the other side, as far as a segment shows."""
    is_answer = segment.flags & SYN and segment.flags & ACK
    ends = segment.source, segment.target
    return ends[::-1] if is_answer else ends


def _is_new(flow: _Flow, segment: TcpSegment) -> bool:
    """Return whether a segment begins another connection between the same ports."""
    if not segment.flags & SYN or segment.flags & ACK:
        return False
    first = flow.connection.first
    return first != segment.seq if first is not None else flow.connection.has_begun
