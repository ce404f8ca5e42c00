"""Capture files: pcap and pcapng, in both byte orders, read as a stream of frames."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

MAX_FRAME = 1 << 18
"""Bytes of the largest frame, as libpcap has it."""
_MAX_BLOCK = MAX_FRAME + (1 << 16)
"""Bytes of the largest block that is kept: a frame and its options."""
_SECOND = 10**9
_LATEST = 1 << 62
"""A time of the next century, in nanoseconds: no stamp is later."""
_PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""The magic numbers of pcap: byte order, and nanoseconds of a unit of its stamps."""
_SECTION = b"\x0a\x0d\x0d\x0a"
_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _STATISTICS, _PACKET = 1, 2, 3, 5, 6
_TSRESOL, _TSOFFSET = 9, 14
_INTERFACE_DROPS, _SYSTEM_DROPS = 5, 7
MAGIC_SIZE = 4
"""Bytes from which a capture is recognised."""


class DamagedCapture(Exception):
    """A file that begins as a capture, and is none; the sentence says where."""


class Frame(NamedTuple):
    """A captured frame; ``at``: nanoseconds of the wall clock, ``link``: the type of its link."""

    at: int
    link: int
    data: bytes


class _Interface(NamedTuple):
    link: int
    snap: int
    per_second: int
    offset: int


def is_capture(begin: bytes) -> bool:
    """Return whether a file that begins so is a capture."""
    return begin[:MAGIC_SIZE] in _PCAP or begin[:MAGIC_SIZE] == _SECTION


class CaptureFile:
    """Reads frames. ``is_cut``: the file ends in the middle of one.

    ``dropped``: packets that the capture has lost, as far as it has counted them.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.is_cut = False
        self.dropped = 0
        self._file = file
        self._count = 0

    def frames(self) -> Iterator[Frame]:
        """Yield the frames of the whole file; raise :class:`DamagedCapture`."""
        magic = self._read(MAGIC_SIZE)
        if magic in _PCAP:
            yield from self._pcap(*_PCAP[magic])
        elif magic == _SECTION:
            yield from self._pcapng()

    def _read(self, size: int) -> bytes:
        """Return so many bytes, or none at the end of the file."""
        data = self._file.read(size)
        if len(data) < size:
            self.is_cut |= bool(data)
            return b""
        return data

    def _rest(self, size: int) -> bytes:
        """Return more bytes of what has begun."""
        data = self._read(size)
        self.is_cut |= not data and size > 0
        return data

    def _checked(self, size: int, most: int) -> int:
        self._count += 1
        if size > most:
            raise DamagedCapture(f"packet {self._count:,} claims to have {size:,} bytes")
        return size

    # ------------------------------------------------------------ pcap

    def _pcap(self, order: str, unit: int) -> Iterator[Frame]:
        head, record = self._rest(20), struct.Struct(order + "IIII")
        if not head:
            return
        link = int(struct.unpack(order + "I", head[16:])[0]) & 0xFFFF
        while stamp := self._read(record.size):
            seconds, fraction, size, _ = record.unpack(stamp)
            data = self._rest(self._checked(size, MAX_FRAME))
            if len(data) < size:
                return
            yield Frame(seconds * _SECOND + fraction * unit, link, data)

    # ------------------------------------------------------------ pcapng

    def _pcapng(self) -> Iterator[Frame]:
        order, interfaces, at = self._section(), list[_Interface](), 0
        drops: dict[int, int] = {}
        while order and (head := self._read(8)):
            if head[:4] == _SECTION:
                # The length comes in the order that this section has.
                order, interfaces = self._section(head[4:]), []
                drops.clear()
                continue
            kind, size = struct.unpack(order + "II", head)
            if size < 12 or size % 4:
                raise DamagedCapture(f"after packet {self._count:,} there is no block of pcapng")
            if kind not in (_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _STATISTICS, _PACKET):
                self._skip(size - 8)
                continue
            body = self._rest(self._checked(size - 8, _MAX_BLOCK))[:-4]
            if not body:
                return
            try:
                if kind == _INTERFACE:
                    self._count -= 1
                    interfaces.append(_interface(order, body))
                    continue
                if kind == _STATISTICS:
                    self._count -= 1
                    number, dropped = _dropped(order, body)
                    self.dropped += max(dropped - drops.get(number, 0), 0)
                    drops[number] = dropped
                    continue
                frame = _frame(order, kind, body, interfaces, at)
            except (struct.error, IndexError):
                raise DamagedCapture(f"packet {self._count:,} is malformed") from None
            at = frame.at
            yield frame

    def _section(self, length: bytes = b"") -> str:
        """Read the head of a section, and return its byte order, or nothing at the end."""
        head = length + self._rest(8 - len(length))
        if len(head) < 8:
            return ""
        if head[4:] not in _ORDERS:
            raise DamagedCapture("a section of pcapng has no byte order")
        order = _ORDERS[head[4:]]
        (size,) = struct.unpack(order + "I", head[:4])
        if size < 28 or size % 4:
            raise DamagedCapture("the first block of pcapng has no length")
        self._skip(size - 12)
        return order

    def _skip(self, size: int) -> None:
        while size > 0 and (data := self._rest(min(size, 1 << 16))):
            size -= len(data)


def _interface(order: str, body: bytes) -> _Interface:
    link, _, snap = struct.unpack(order + "HHI", body[:8])
    per_second, offset = 10**6, 0
    for code, value in _options(order, body, 8):
        if code == _TSRESOL and len(value) == 1:
            per_second = 2 ** (value[0] & 0x7F) if value[0] & 0x80 else 10 ** value[0]
        elif code == _TSOFFSET and len(value) == 8:
            (offset,) = struct.unpack(order + "q", value)
    return _Interface(link, snap, per_second, offset)


def _dropped(order: str, body: bytes) -> tuple[int, int]:
    """Return the number of an interface, and how many packets of it were lost so far."""
    (number,) = struct.unpack(order + "I", body[:4])
    return number, sum(
        struct.unpack(order + "Q", value)[0]
        for code, value in _options(order, body, 12)
        if code in (_INTERFACE_DROPS, _SYSTEM_DROPS) and len(value) == 8
    )


def _options(order: str, body: bytes, place: int) -> Iterator[tuple[int, bytes]]:
    """Yield the options of a block."""
    while place + 4 <= len(body):
        code, size = struct.unpack_from(order + "HH", body, place)
        if code == 0:
            break
        yield code, body[place + 4 : place + 4 + size]
        place += 4 + size + -size % 4


def _frame(order: str, kind: int, body: bytes, interfaces: list[_Interface], last: int) -> Frame:
    """Return the frame of a block. ``last``: the time of the frame before."""
    if kind == _SIMPLE_PACKET:
        one = interfaces[0]
        (size,) = struct.unpack_from(order + "I", body)
        return Frame(last, one.link, body[4 : 4 + min(size, one.snap or size)])
    form = "H2xIII" if kind == _OLD_PACKET else "IIII"
    number, high, low, size = struct.unpack_from(order + form, body)
    one = interfaces[number]
    units = high << 32 | low
    at = one.offset * _SECOND + units * _SECOND // one.per_second
    return Frame(min(max(at, 0), _LATEST), one.link, body[20 : 20 + size])
