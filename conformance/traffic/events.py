"""The events of connections, as the forwarder sees them, and their encoding."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple


class Kind(IntEnum):
    """The kinds of events."""

    OPENED = 1
    """A client has connected; the data is its address."""
    SENT = 2
    """The client has sent bytes; the server has not got them before."""
    RECEIVED = 3
    """The server has sent bytes."""
    CLIENT_ENDED = 4
    """The client sends nothing more."""
    SERVER_ENDED = 5
    """The server sends nothing more."""
    CLOSED = 6
    """The connection has ended in both directions."""
    RESET = 7
    """The connection was reset; the data is the side, ``client`` or ``server``."""
    DROPPED = 8
    """The rest of the connection is not judged, up to JOINED, CLOSED or RESET; the data is why."""
    JOINED = 9
    """A connection is judged from here on, of which not all was seen; the data is its address."""
    BLOCKED = 10
    """The client does not read: nothing more of the server is taken from now on."""
    UNBLOCKED = 11
    """It is taken again."""


ENDS = (Kind.CLOSED, Kind.RESET)
"""The events that are the last of a connection."""


class Event(NamedTuple):
    """An event ``at`` nanoseconds of the wall clock, about connection ``conn``."""

    at: int
    conn: int
    kind: Kind
    data: bytes = b""


_HEAD = struct.Struct("<QIBI")
LONGEST = 1 << 20
"""Bytes of data of one event that are accepted."""


def encoded(at: int, conn: int, kind: Kind, data: bytes = b"") -> bytes:
    """Return an event as a frame."""
    return _HEAD.pack(at, conn, kind, len(data)) + data


class EventReader:
    """Takes frames out of bytes in any segmentation."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def read(self, data: bytes) -> Iterator[Event]:
        """Yield the events that are complete; raise ValueError for what is no frame."""
        buffer = self._buffer
        buffer += data
        place = 0
        while len(buffer) - place >= _HEAD.size:
            at, conn, kind, size = _HEAD.unpack_from(buffer, place)
            if size > LONGEST:
                raise ValueError(f"a frame of {size} bytes")
            end = place + _HEAD.size + size
            if len(buffer) < end:
                break
            yield Event(at, conn, Kind(kind), bytes(buffer[place + _HEAD.size : end]))
            place = end
        del buffer[:place]
