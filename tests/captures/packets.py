"""Captures that tests make: packets of conversations, rewritten as networks and captures do."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import NamedTuple

import dpkt

from conformance.captures.files import CaptureFile
from conformance.captures.flows import Flows
from conformance.captures.judging import JudgedServer, judged
from conformance.captures.segments import ACK, FIN, RST, SYN, Decoder, TcpSegment
from conformance.captures.survey import survey
from conformance.traffic.events import Event, Kind
from reference_server.profiles import NEWEST, Profile
from reference_server.state import SECOND

PSH = 0x08
SERVER = (b"\x0a\x00\x00\x01", 11300)
START = 1_700_000_000 * SECOND


class Packet(NamedTuple):
    """A TCP packet. ``cut``: bytes at its end that the capture does not have."""

    at: int
    source: tuple[bytes, int]
    target: tuple[bytes, int]
    seq: int
    ack: int
    flags: int
    data: bytes = b""
    cut: int = 0
    has_room: bool = True

    @property
    def segment(self) -> TcpSegment:
        """Return what a capture shows of it."""
        data = self.data[: len(self.data) - self.cut]
        seq, ack = self.seq % 2**32, self.ack % 2**32
        ends = self.source, self.target
        size = len(self.data)
        return TcpSegment(self.at, *ends, seq, ack, self.flags, data, size, self.has_room)

    def encoded(self) -> bytes:
        """Return it as an IP packet, cut at its end."""
        tcp = dpkt.tcp.TCP(
            sport=self.source[1],
            dport=self.target[1],
            seq=self.seq % 2**32,
            ack=self.ack % 2**32,
            flags=self.flags,
            win=65535 if self.has_room else 0,
            data=self.data,
        )
        source, target = self.source[0], self.target[0]
        if len(source) == 4:
            size = 20 + len(tcp)
            whole = bytes(dpkt.ip.IP(src=source, dst=target, p=6, len=size, data=tcp))
        else:
            whole = bytes(dpkt.ip6.IP6(src=source, dst=target, nxt=6, plen=len(tcp), data=tcp))
        return whole[: len(whole) - self.cut]


class Talk:
    """Makes the packets of connections; the events are those that a proxy would see.

    ``mss``: bytes of data of one packet at most. ``first``: where sequence numbers begin.
    """

    def __init__(
        self,
        mss: int = 1460,
        first: int = 2**32 - 5000,
        server: tuple[bytes, int] = SERVER,
        acks: bool = True,
    ) -> None:
        self.packets: list[Packet] = []
        self._mss = mss
        self._first = first
        self._server = server
        self._acks = acks
        self._numbers: dict[int, list[int]] = {}
        self._last = 0

    def take(self, event: Event) -> None:
        """Add the packets of an event."""
        at, conn, kind, data = event
        if kind is Kind.OPENED:
            self._numbers[conn] = [self._first, self._first + 77]
            self._add(at, conn, 0, SYN)
            self._add(at, conn, 1, SYN | ACK)
            self._add(at, conn, 0, ACK)
        elif kind is Kind.SENT or kind is Kind.RECEIVED:
            side = int(kind is Kind.RECEIVED)
            for place in range(0, len(data), self._mss):
                self._add(at, conn, side, ACK | PSH, data[place : place + self._mss])
            if self._acks:
                self._add(at, conn, 1 - side, ACK)
        elif kind is Kind.CLIENT_ENDED or kind is Kind.SERVER_ENDED:
            self._add(at, conn, int(kind is Kind.SERVER_ENDED), FIN | ACK)
        elif kind is Kind.BLOCKED:
            self._add(at, conn, 0, ACK)
            self.packets[-1] = self.packets[-1]._replace(has_room=False)
        elif kind is Kind.RESET:
            self._add(at, conn, int(data == b"server"), RST | ACK)

    def talk(self, *events: tuple[int, Kind, bytes]) -> list[Packet]:
        """Return the packets of events that are 1 ms apart."""
        for number, (conn, kind, data) in enumerate(events):
            self.take(Event(START + number * SECOND // 1000, conn, kind, data))
        return self.packets

    def _add(self, at: int, conn: int, side: int, flags: int, data: bytes = b"") -> None:
        numbers = self._numbers[conn]
        host, port = self._server
        client = (host[:-3] + struct.pack(">I", 0x010000 + conn)[1:], 40000 + conn % 20000)
        ends = (client, (host, port))
        ack = numbers[1 - side] if flags & ACK else 0
        # No two packets have the same time.
        at = self._last = max(at, self._last + 1)
        self.packets.append(Packet(at, ends[side], ends[1 - side], numbers[side], ack, flags, data))
        numbers[side] += len(data) + bool(flags & SYN) + bool(flags & FIN)


# ------------------------------------------------------------ files

LINKS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "ethernet": (1, lambda ip: bytes(12) + _kind(ip) + ip + _padding(ip)),
    "vlan": (1, lambda ip: bytes(12) + b"\x81\x00\x00\x07" + _kind(ip) + ip),
    "cooked": (113, lambda ip: bytes(14) + _kind(ip) + ip),
    "cooked 2": (276, lambda ip: _kind(ip) + bytes(18) + ip),
    "null": (0, lambda ip: struct.pack("<I", 2 if ip[0] >> 4 == 4 else 30) + ip),
    "loop": (108, lambda ip: struct.pack(">I", 2 if ip[0] >> 4 == 4 else 24) + ip),
    "raw": (101, bytes),
}
"""Link types, and the frames of IP packets on them."""


def _padding(ip: bytes) -> bytes:
    """Return what makes a packet as long as the shortest frame, if the capture has all of it."""
    is_whole = int.from_bytes(ip[2:4]) == len(ip)
    return bytes(max(0, 46 - len(ip))) if is_whole else b""


def _kind(ip: bytes) -> bytes:
    return b"\x08\x00" if ip[0] >> 4 == 4 else b"\x86\xdd"


def pcap(
    packets: Iterable[Packet], link: str = "ethernet", order: str = "<", nano: bool = False
) -> bytes:
    """Return a capture in the format of tcpdump."""
    number, framed = LINKS[link]
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, 262144, number)]
    for packet in packets:
        frame = framed(packet.encoded())
        seconds, rest = divmod(packet.at, SECOND)
        rest //= 1 if nano else 1000
        parts += [struct.pack(order + "IIII", seconds, rest, len(frame), len(frame)), frame]
    return b"".join(parts)


def pcapng(
    packets: Iterable[Packet],
    link: str = "ethernet",
    order: str = "<",
    nano: bool = False,
    dropped: int = 0,
) -> bytes:
    """Return a capture in the format of Wireshark; it has counted packets that it has dropped."""
    number, framed = LINKS[link]

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = struct.pack(order + "I", len(body) + 12)
        return struct.pack(order + "I", kind) + size + body + size

    resolution = struct.pack(order + "HHB3xHH", 9, 1, 9, 0, 0) if nano else b""
    parts = [
        block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)),
        block(1, struct.pack(order + "HHI", number, 0, 262144) + resolution),
        block(5, bytes(12)),
    ]
    for packet in packets:
        frame = framed(packet.encoded())
        units = packet.at // (1 if nano else 1000)
        head = struct.pack(order + "IIIII", 0, units >> 32, units % 2**32, len(frame), len(frame))
        parts.append(block(6, head + frame))
    # A counter is written now and then, and never goes back.
    counts = (dropped // 2, dropped) if dropped else ()
    options = (struct.pack(order + "HHQHHQ", 4, 8, 9, 5, 8, count) for count in counts)
    parts += [block(5, bytes(12) + option) for option in options]
    return b"".join(parts)


# ------------------------------------------------------------ verdicts


def segments(data: bytes) -> list[TcpSegment]:
    """Return the segments of a capture."""
    return [*Decoder().segments(CaptureFile(io.BytesIO(data)).frames())]


def verdict(packets: Iterable[Packet], profile: Profile = NEWEST) -> list[JudgedServer]:
    """Return the servers of a capture with these packets, judged."""
    found = [one.segment for one in packets]
    return judged(Flows(), found, survey(Flows(), found, profile), profile)


def alarms(servers: Iterable[JudgedServer]) -> list[str]:
    """Return the alarms about servers."""
    return [one.sentence for server in servers for one in server.judge.known.alarms.kept]


# ------------------------------------------------------------ rewriting


def disordered(packets: Sequence[Packet], chance: Random, reach: int = 6) -> list[Packet]:
    """Return packets in another order, each a few places away; they keep their times."""
    order = sorted(range(len(packets)), key=lambda place: place + chance.uniform(0, reach))
    return [packets[place] for place in order]


def repeated(packets: Iterable[Packet], chance: Random) -> list[Packet]:
    """Return packets of which some come twice, or again with the bytes before or after them."""
    result: list[Packet] = []
    last: dict[tuple[object, object], Packet] = {}
    for packet in packets:
        result.append(packet)
        key = packet.source, packet.target
        before = last.get(key)
        is_next = before is not None and before.seq + len(before.data) == packet.seq
        if packet.data and before is not None and before.data and is_next:
            # A retransmission that begins in the middle of the one before.
            half = len(before.data) // 2
            data = before.data[half:] + packet.data
            if chance.random() < 0.2:
                result.append(packet._replace(seq=before.seq + half, data=data))
        if chance.random() < 0.1:
            result.append(packet)
        if chance.random() < 0.02 and packet.flags == ACK:
            # A keep-alive.
            result.append(packet._replace(seq=packet.seq - 1, data=b"\0"))
        last[key] = packet
    return result


def lossy(packets: Iterable[Packet], chance: Random, share: float = 0.01) -> list[Packet]:
    """Return packets without some, which the capture has lost, alone and in a row."""
    result: list[Packet] = []
    losing = 0
    for packet in packets:
        if losing == 0 and chance.random() < share:
            losing = chance.choice((1, 1, 2, 5, 20))
        if losing:
            losing -= 1
        else:
            result.append(packet)
    return result


def snapped(packets: Iterable[Packet], size: int) -> list[Packet]:
    """Return packets with so many bytes of data at most, as a snap length leaves them."""
    return [packet._replace(cut=max(len(packet.data) - size, 0)) for packet in packets]
