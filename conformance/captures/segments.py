"""TCP segments, decoded from frames of any link that beanstalk is usually captured on."""

from __future__ import annotations

import ipaddress
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import dpkt

from conformance.captures.files import Frame

Endpoint = tuple[bytes, int]
"""An address as the packet has it, and a port."""
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
_FRAGMENT = 44
_IP_TYPES = (b"\x08\x00", b"\x86\xdd")


class TcpSegment(NamedTuple):
    """A TCP segment. ``size``: its bytes on the wire; ``data`` has fewer if the frame was cut."""

    at: int
    source: Endpoint
    target: Endpoint
    seq: int
    ack: int
    flags: int
    data: bytes
    size: int
    has_room: bool = True
    """Its sender takes more bytes."""


def shown(endpoint: Endpoint) -> str:
    """Return an endpoint as people write it."""
    address = ipaddress.ip_address(endpoint[0])
    host = f"[{address}]" if address.version == 6 else str(address)
    return f"{host}:{endpoint[1]}"


def is_loopback(endpoint: Endpoint) -> bool:
    """Return whether no network is between an endpoint and its peers."""
    return ipaddress.ip_address(endpoint[0]).is_loopback


def _ip(data: bytes) -> Any:
    return dpkt.ip6.IP6(data) if data[:1] >= b"\x60" else dpkt.ip.IP(data)


def _ethernet(data: bytes) -> Any:
    # The usual kinds need no help, and this is faster.
    return _ip(data[14:]) if data[12:14] in _IP_TYPES else dpkt.ethernet.Ethernet(data).data


def _after_family(data: bytes) -> Any:
    return _ip(data[4:])


_LINKS: dict[int, Callable[[bytes], Any]] = {
    0: _after_family,
    1: _ethernet,
    12: _ip,
    14: _ip,
    101: _ip,
    108: _after_family,
    113: lambda data: dpkt.sll.SLL(data).data,
    228: _ip,
    229: _ip,
    276: lambda data: dpkt.sll2.SLL2(data).data,
}
"""Decoders of frames by their link type, as https://www.tcpdump.org/linktypes.html numbers them."""


class Decoder:
    """Decodes frames. ``frames``: their count; ``links``: how many are of links unknown here.

    ``malformed``: frames that no decoder understands. ``fragments``: parts of IP packets, which are
    not put together.
    """

    def __init__(self) -> None:
        self.frames = self.malformed = self.fragments = 0
        self.links: Counter[int] = Counter()

    def segments(self, frames: Iterable[Frame]) -> Iterator[TcpSegment]:
        """Yield the TCP segments in frames."""
        for at, link, data in frames:
            self.frames += 1
            decode = _LINKS.get(link)
            if decode is None:
                self.links[link] += 1
                continue
            try:
                segment = self._segment(at, decode(data))
            except (dpkt.Error, struct.error, ValueError, IndexError, AttributeError, KeyError):
                # dpkt raises more than its own errors for frames that somebody has forged.
                self.malformed += 1
                continue
            if segment is not None:
                yield segment

    def _segment(self, at: int, packet: Any) -> TcpSegment | None:
        """Return the segment in a packet, if it has one."""
        if isinstance(packet, dpkt.ip.IP):
            protocol, is_part = packet.p, bool(packet.mf or packet.offset)
            size = packet.len - packet.hl * 4 if packet.len else -1
        elif isinstance(packet, dpkt.ip6.IP6):
            headers = packet.all_extension_headers
            protocol, is_part = getattr(packet, "p", packet.nxt), packet.nxt == _FRAGMENT
            size = packet.plen - sum(one.length for one in headers) if packet.plen else -1
        else:
            return None
        if protocol != dpkt.ip.IP_PROTO_TCP:
            return None
        tcp = packet.data
        if is_part or not isinstance(tcp, dpkt.tcp.TCP):
            self.fragments += is_part
            self.malformed += not is_part
            return None
        # Without a length, the system has left it to the network card.
        size = len(tcp.data) if size < 0 else max(size - tcp.off * 4, 0)
        source, target = (packet.src, tcp.sport), (packet.dst, tcp.dport)
        data = bytes(tcp.data[:size])
        flags, has_room = tcp.flags, tcp.win > 0
        return TcpSegment(at, source, target, tcp.seq, tcp.ack, flags, data, size, has_room)
