"""Capture files and links: each format gives the same segments, and damage is one sentence."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable

import pytest

from conformance.captures.files import CaptureFile, DamagedCapture, is_capture
from conformance.captures.segments import Decoder, shown
from conformance.traffic.events import Kind
from tests.captures.packets import LINKS, SERVER, Packet, Talk, pcap, pcapng, segments

V6 = (b"\x20\x01\x0d\xb8" + bytes(11) + b"\x01", 7000)


def packets(server: tuple[bytes, int] = SERVER) -> list[Packet]:
    """Return the packets of a short conversation."""
    put = (1, Kind.SENT, b"put 0 0 60 5\r\nhello\r\n"), (1, Kind.RECEIVED, b"INSERTED 1\r\n")
    return Talk(server=server).talk((1, Kind.OPENED, b""), *put, (1, Kind.CLIENT_ENDED, b""))


def expected(sent: list[Packet], unit: int) -> list[tuple[object, ...]]:
    return [
        (one.at // unit * unit, one.source, one.target, one.seq % 2**32, one.flags, one.data)
        for one in sent
    ]


def read(data: bytes) -> list[tuple[object, ...]]:
    return [
        (one.at, one.source, one.target, one.seq, one.flags, one.data) for one in segments(data)
    ]


@pytest.mark.parametrize("nano", [False, True])
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("write", [pcap, pcapng])
def test_all_formats(write: Callable[..., bytes], order: str, nano: bool) -> None:
    data = write(packets(), order=order, nano=nano)
    assert is_capture(data[:4])
    assert read(data) == expected(packets(), 1 if nano else 1000)


@pytest.mark.parametrize("server", [SERVER, V6])
@pytest.mark.parametrize("link", LINKS)
def test_all_links(link: str, server: tuple[bytes, int]) -> None:
    assert read(pcap(packets(server), link)) == expected(packets(server), 1000)


def test_a_capture_of_two_sections_with_other_byte_orders() -> None:
    data = pcapng(packets()[:3]) + pcapng(packets()[3:], "raw", ">", nano=True)
    assert read(data) == expected(packets()[:3], 1000) + expected(packets()[3:], 1)


def test_a_frame_that_was_cut_knows_its_size() -> None:
    whole = packets()[3]
    for cut in (1, len(whole.data)):
        (found,) = segments(pcap([whole._replace(cut=cut)]))
        assert found.size == len(whole.data)
        assert found.data == whole.data[:-cut]


def test_a_segment_whose_size_is_left_to_the_network_card() -> None:
    ip = bytearray(packets()[3].encoded())
    ip[2:4] = b"\0\0"
    data = pcap([])[:20] + struct.pack("<IIIII", 101, 1, 0, len(ip), len(ip)) + ip
    (found,) = segments(data)
    assert found.data == packets()[3].data


def test_a_file_that_ends_early_is_read_up_to_there() -> None:
    for data in (pcap(packets()), pcapng(packets())):
        for missing in (1, 7, 30):
            file = CaptureFile(io.BytesIO(data[:-missing]))
            assert len([*file.frames()]) == len(packets()) - 1
            assert file.is_cut


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (pcap([]) + struct.pack("<IIII", 0, 0, 2**31, 5), "packet 1 claims to have 2,147,483,648"),
        (pcapng([]) + struct.pack("<II", 6, 13), "there is no block"),
        (pcapng([]) + struct.pack("<II", 6, 2**31), "claims to have"),
        (pcapng([]) + struct.pack("<III4s", 6, 16, 9, b""), "packet 1 is malformed"),
        (b"\x0a\x0d\x0d\x0a" + bytes(30), "has no byte order"),
        (b"\x0a\x0d\x0d\x0a" + struct.pack("<II", 4, 0x1A2B3C4D), "has no length"),
    ],
)
def test_damage_is_one_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(DamagedCapture, match=sentence):
        list(CaptureFile(io.BytesIO(data)).frames())


def test_hostile_frames_are_counted() -> None:
    whole = packets()[3].encoded()
    for place in range(60):
        for link in (0, 1, 101, 113, 276):
            decoder = Decoder()
            damaged = whole[:place] + b"\xff" * (len(whole) - place)
            body = pcap([])[:20] + struct.pack("<I", link)
            frames = CaptureFile(
                io.BytesIO(body + struct.pack("<IIII", 0, 0, len(damaged), 0) + damaged)
            ).frames()
            list(decoder.segments(frames))
            assert decoder.frames == 1


def test_what_is_not_read_is_counted() -> None:
    decoder = Decoder()
    data = pcap(packets())[:20] + struct.pack("<I", 147) + pcap(packets())[24:]
    assert [*decoder.segments(CaptureFile(io.BytesIO(data)).frames())] == []
    assert decoder.links == {147: len(packets())}


def test_endpoints_are_shown_as_people_write_them() -> None:
    assert shown(SERVER) == "10.0.0.1:11300"
    assert shown(V6) == "[2001:db8::1]:7000"
