"""One TCP connection: its segments, in any order and with gaps, become the bytes of each direction.

A segment is delivered after all bytes before it, and after all that it acknowledges. Of bytes that
come twice, the first copy counts. Bytes that the other side has acknowledged will not be sent
again: if they do not come, they are a gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from conformance.captures.segments import ACK, FIN, RST, SYN, TcpSegment

OPENER, OTHER = 0, 1
"""The sides of a connection: the one that has opened it, or was seen first, and the other one."""
HELD = 64
"""Segments that wait for bytes which were acknowledged, before these are a gap."""
MOST_HELD = 4_096
MOST_BYTES = 8 << 20
"""Segments and bytes that wait for anything."""
MOST_STARTING = 8
"""Segments that wait for the start of a connection."""
_WAIT = 2 * 10**9
"""Nanoseconds for which bytes that were acknowledged may come late."""
_HALF, _MASK = 1 << 31, (1 << 32) - 1


class What(Enum):
    """The kinds of parts that a connection is made of."""

    BEGIN = "begin"
    """It was seen from its start."""
    MIDDLE = "middle"
    """It had begun before."""
    DATA = "data"
    END = "end"
    """This side sends nothing more."""
    RESET = "reset"
    GAP = "gap"
    """Bytes are missing."""
    BLOCKED = "blocked"
    """This side takes no more bytes."""
    UNBLOCKED = "unblocked"
    LOST = "lost"
    """Its end was not seen: another connection has its ports."""
    EVICTED = "evicted"
    """It is not followed any more, as too many connections are open."""


class Part(NamedTuple):
    """A part of a connection, sent by a side.

    ``missing``: bytes of a gap. ``since``: if any are missing, the time until which none were.
    ``is_cut``: the frame had these bytes, and the capture does not.
    """

    what: What
    side: int
    data: bytes = b""
    missing: int = 0
    since: int = 0
    is_cut: bool = False


@dataclass(slots=True)
class _Half:
    """One direction. ``next``: the number of the next byte to deliver, counted without wrapping."""

    next: int = 0
    acked: int = 0
    since: int = 0
    has_ended: bool = False
    has_room: bool = True

    def place(self, seq: int) -> int:
        """Return the number of a byte, or of one that was acknowledged."""
        return self.next + ((seq - self.next + _HALF) & _MASK) - _HALF


class _Waiting(NamedTuple):
    """A segment that waits; it was the ``number``-th one.

    ``is_early``: it says something, and acknowledges bytes that come after it.
    """

    side: int
    segment: TcpSegment
    number: int = 0
    is_early: bool = False


class TcpConnection:
    """Puts the segments of a connection in order; ``take`` and ``finish`` yield its parts.

    ``first``: the sequence number of its first segment; None if that was not seen. ``disorder``:
    within how many segments of the capture others came that it had acknowledged before.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        self.held_bytes = 0
        self.disorder = 0
        self.is_closed = False
        self.has_begun = False
        self._other_first: int | None = None
        self._halves = (_Half(), _Half())
        self._held: list[_Waiting] = []
        self._number = 0

    @property
    def is_waiting(self) -> bool:
        """Return whether segments wait for others."""
        return bool(self._held)

    def take(
        self, segment: TcpSegment, side: int, number: int = 0, is_tight: bool = False
    ) -> Iterator[Part]:
        """Take the ``number``-th segment of the capture.

        ``is_tight``: there is no room to keep it.
        """
        if self.is_closed:
            return
        self._number = number
        half = self._halves[side]
        if segment.has_room != half.has_room and not segment.flags & RST:
            half.has_room = segment.has_room
            yield Part(What.UNBLOCKED if half.has_room else What.BLOCKED, side)
        if self.has_begun and not self._held and self._fits(segment, side):
            yield from self._deliver(segment, side)
            return
        is_early = self.has_begun and self._says_more(segment, side)
        is_early = is_early and self._is_early(segment, side)
        self._held.append(_Waiting(side, segment, number, is_early))
        self.held_bytes += len(segment.data)
        if not self.has_begun:
            if not self._begins():
                is_full = len(self._held) >= MOST_STARTING or is_tight or segment.flags & RST
                if is_full:
                    yield from self._start()
                    yield from self._drain()
                return
            yield from self._start()
        yield from self._drain()
        yield from self.expire(segment.at, is_tight)

    def expire(self, now: int, is_tight: bool = False) -> Iterator[Part]:
        """Yield gaps for what has been missing for too long."""
        while self._held and self.has_begun and self._is_stuck(now, is_tight):
            yield from self._skip()
            yield from self._drain()

    @property
    def since(self) -> int:
        """Return until when everything that its opener sent was seen."""
        return self._halves[OPENER].since

    def finish(self) -> Iterator[Part]:
        """Yield what is left at the end of the capture."""
        if not self.has_begun:
            yield from self._start()
            yield from self._drain()
        # What comes after missing bytes may have been done: nothing shows which side has lost them.
        while self._held:
            yield from self._skip()
            yield from self._drain()

    # ------------------------------------------------------------ the start

    def turn(self) -> None:
        """Let the other side be the opener; only before it has begun."""
        self._held = [one._replace(side=1 - one.side) for one in self._held]

    def _begins(self) -> bool:
        """Return whether the starts of both directions have been seen."""
        for side, segment, *_ in self._held:
            if segment.flags & SYN and segment.flags & ACK:
                self.first = (segment.ack - 1) & _MASK
                self._other_first = segment.seq
            elif segment.flags & SYN:
                self.first = segment.seq
            elif (
                self.first is not None
                and self._other_first is None
                and side == OPENER
                and segment.flags & ACK
                and (segment.seq - self.first) & _MASK == 1
            ):
                # It has had nothing but the answer to its SYN.
                self._other_first = (segment.ack - 1) & _MASK
        return self.first is not None and self._other_first is not None

    def _start(self) -> Iterator[Part]:
        """Begin to deliver, at the start of the connection or in its middle."""
        at = self._held[0].segment.at if self._held else 0
        opener, other = self._halves
        opener.since = other.since = at
        if self.first is not None:
            opener.next = (self.first + 1) & _MASK
            is_whole = True
            if self._other_first is not None:
                other.next = (self._other_first + 1) & _MASK
            elif answers := [one.segment for one in self._held if one.side == OTHER]:
                is_whole = bool(answers[0].flags & RST)
                other.next = answers[0].seq
            else:
                # Nobody has answered.
                is_whole = False
        else:
            is_whole = False
            for side, segment, *_ in reversed(self._held):
                self._halves[side].next = segment.seq
                if segment.flags & ACK:
                    self._halves[1 - side].next = segment.ack
        for half in self._halves:
            half.acked = half.next
        self.has_begun = True
        yield Part(What.BEGIN if is_whole else What.MIDDLE, OPENER)

    # ------------------------------------------------------------ order

    def _is_early(self, segment: TcpSegment, side: int) -> bool:
        """Return whether a segment acknowledges bytes that were not delivered; note which."""
        if not segment.flags & ACK:
            return False
        peer = self._halves[1 - side]
        acked = peer.place(segment.ack)
        peer.acked = max(peer.acked, acked)
        return acked > peer.next

    def _says_more(self, segment: TcpSegment, side: int) -> bool:
        """Return whether a segment has more than what was delivered."""
        half = self._halves[side]
        is_new = half.place(segment.seq) + segment.size > half.next
        return is_new or bool(segment.flags & (FIN | RST))

    def _fits(self, segment: TcpSegment, side: int) -> bool:
        """Return whether a segment can be delivered."""
        half = self._halves[side]
        place = half.place(segment.seq) + bool(segment.flags & SYN)
        return not self._is_early(segment, side) and place <= half.next

    def _drain(self) -> Iterator[Part]:
        """Deliver all held segments that fit by now."""
        is_moving = bool(self._held)
        while is_moving and not self.is_closed:
            is_moving = False
            left: list[_Waiting] = []
            firsts: list[int | None] = [None, None]
            """The first byte of each side that an earlier held segment has."""
            for held in self._held:
                side, segment = held.side, held.segment
                half = self._halves[side]
                place = half.place(segment.seq)
                if not self.is_closed and self._fits(segment, side):
                    limit = firsts[side]
                    is_covered = limit is not None and half.next < limit < place + segment.size
                    yield from self._deliver(segment, side, limit if is_covered else None)
                    is_moving = True
                    if held.is_early:
                        self.disorder = max(self.disorder, self._number - held.number)
                    if not is_covered:
                        self.held_bytes -= len(segment.data)
                        continue
                if place > half.next:
                    limit = firsts[side]
                    firsts[side] = place if limit is None else min(place, limit)
                left.append(held)
            self._held = left
        if self.is_closed:
            self._held = []
            self.held_bytes = 0

    def _deliver(self, segment: TcpSegment, side: int, limit: int | None = None) -> Iterator[Part]:
        """Yield what is new in a segment, up to a byte that an earlier one has."""
        half = self._halves[side]
        flags = segment.flags
        place = half.place(segment.seq) + bool(flags & SYN)
        end = place + segment.size
        is_whole = limit is None
        upto = end if limit is None else limit
        if upto > half.next:
            new = segment.data[half.next - place : upto - place]
            if new:
                half.next += len(new)
                yield Part(What.DATA, side, new)
            if half.next < upto:
                missing, half.next = upto - half.next, upto
                yield Part(What.GAP, side, b"", missing, half.since, True)
        if place <= half.next:
            half.since = segment.at
        if is_whole and flags & RST:
            self.is_closed = True
            yield Part(What.RESET, side)
        elif is_whole and flags & FIN and not half.has_ended and half.next == end:
            half.has_ended = True
            half.next += 1
            yield Part(What.END, side)
            self.is_closed = self._halves[1 - side].has_ended

    # ------------------------------------------------------------ gaps

    def _hole(self) -> tuple[int, int]:
        """Return the side that the first held segment waits for, and the end of what is missing."""
        side, segment, *_ = self._held[0]
        half, peer = self._halves[side], self._halves[1 - side]
        waits_for = side
        if segment.flags & ACK and peer.place(segment.ack) > peer.next:
            waits_for = 1 - side
        half = self._halves[waits_for]
        places = [half.place(one.segment.seq) for one in self._held if one.side == waits_for]
        ahead = [place for place in places if place > half.next]
        if half.acked > half.next:
            ahead.append(half.acked)
        return waits_for, min(ahead, default=half.next)

    def _is_proven(self) -> bool:
        """Return whether missing bytes were acknowledged, so that they are not sent again."""
        half = self._halves[self._hole()[0]]
        return half.acked > half.next

    def _is_stuck(self, now: int, is_tight: bool) -> bool:
        """Return whether no more time is given to missing bytes."""
        if len(self._held) > MOST_HELD or self.held_bytes > MOST_BYTES or is_tight:
            return True
        is_late = now - self._held[0].segment.at > _WAIT
        if is_late and any(one.segment.flags & RST for one in self._held):
            # Nobody sends anything again.
            return True
        return (is_late or len(self._held) > HELD) and self._is_proven()

    def _skip(self) -> Iterator[Part]:
        """Go on after the first gap."""
        side, end = self._hole()
        half = self._halves[side]
        missing = end - half.next
        if missing <= 0:
            # No byte would be won: the first held segment makes no sense.
            self.held_bytes -= len(self._held.pop(0).segment.data)
            return
        half.next = end
        # What waited for these bytes was not early.
        self._held = [one._replace(is_early=False) for one in self._held]
        yield Part(What.GAP, side, b"", missing, half.since)
