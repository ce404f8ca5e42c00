"""Reassembly: any order, repeats and overlaps give the same bytes, and gaps are reported."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from conformance.captures.flows import MAX_HELD, MAX_OPEN, STEP, Flows, in_time
from conformance.captures.reassembly import MOST_BYTES, What
from conformance.captures.segments import ACK, RST, SYN
from conformance.traffic.events import Event, Kind
from reference_server.state import SECOND
from tests.captures.packets import (
    SERVER,
    START,
    Packet,
    Talk,
    disordered,
    lossy,
    pcap,
    repeated,
    snapped,
)
from tests.servers import TSHARK, needs_tshark

OPENED = (1, Kind.OPENED, b"")
ENDED = ((1, Kind.CLIENT_ENDED, b""), (1, Kind.SERVER_ENDED, b""))


def random_talk(seed: int, clients: int = 4) -> Talk:
    """Return the packets of clients and a server that say anything."""
    chance = Random(seed)
    talk = Talk(mss=chance.choice((10, 100, 1460)), first=2**32 - chance.randrange(5000))
    now = START
    for conn in range(1, clients + 1):
        talk.take(Event(now, conn, Kind.OPENED, b""))
    for _ in range(200):
        now += chance.randrange(5 * SECOND // 1000)
        conn, kind = chance.randint(1, clients), chance.choice((Kind.SENT, Kind.RECEIVED))
        talk.take(Event(now, conn, kind, chance.randbytes(chance.randint(1, 300))))
    for conn in range(1, clients + 1):
        for kind in (Kind.CLIENT_ENDED, Kind.SERVER_ENDED):
            talk.take(Event(now + 1, conn, kind))
    return talk


def followed(packets: Iterable[Packet]) -> dict[int, tuple[bytes, bytes, list[str]]]:
    """Return the bytes of both sides of each connection, and everything else of it.

    The keys are the numbers that the clients' ports tell, those of a later connection negative.
    """
    said: dict[int, list[bytes]] = defaultdict(lambda: [b"", b""])
    others: dict[int, list[str]] = defaultdict(list)
    numbers: dict[int, int] = {}
    for found in Flows().parts(one.segment for one in packets):
        part = found.part
        conn = max(found.opener[1], found.other[1]) - 40000
        conn = numbers.setdefault(found.conn, -conn if conn in numbers.values() else conn)
        if part.what is What.DATA:
            said[conn][part.side] += part.data
        else:
            count = f" {part.missing}" if part.missing else ""
            others[conn].append(f"{part.what.value}{count}")
    return {conn: (*said[conn], others[conn]) for conn in others}  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(6))
def test_disorder_repeats_and_overlaps_change_nothing(seed: int) -> None:
    packets, chance = random_talk(seed).packets, Random(seed)
    whole = followed(packets)
    assert all(others == ["begin", "end", "end"] for _, _, others in whole.values())
    assert followed(disordered(packets, chance)) == whole
    assert followed(repeated(packets, chance)) == whole
    assert followed(disordered(repeated(packets, chance), chance)) == whole
    # The same, in a network or a capture that stamps what comes in its own order.
    for reach in (3, 8):
        late = disordered(packets, chance, reach)
        stamped = [one._replace(at=two.at) for one, two in zip(late, packets, strict=True)]
        assert {conn: two[:2] for conn, two in followed(stamped).items()} == {
            conn: two[:2] for conn, two in whole.items()
        }


@pytest.mark.parametrize("seed", range(6))
def test_every_missing_byte_is_counted(seed: int) -> None:
    packets = random_talk(seed).packets
    whole = followed(packets)
    cut = followed(snapped(packets, 7))
    for conn, (sent, received, _) in whole.items():
        less_sent, less_received, others = cut[conn]
        missing = sum(int(one[4:]) for one in others if one.startswith("gap"))
        assert len(less_sent) + len(less_received) + missing == len(sent) + len(received)


def test_a_gap_is_found_when_the_bytes_were_acknowledged() -> None:
    packets = Talk().talk(
        OPENED,
        (1, Kind.SENT, b"abc"),
        (1, Kind.SENT, b"defg"),
        (1, Kind.SENT, b"h"),
        (1, Kind.RECEIVED, b"x"),
        *ENDED,
    )
    lost = next(one for one in packets if one.data == b"defg")
    found = followed(one for one in packets if one is not lost)[1]
    assert found == (b"abch", b"x", ["begin", "gap 4", "end", "end"])
    # Here it is a packet that the network has lost: it comes again.
    again = [one for one in packets if one.ack <= lost.seq or one.source != SERVER]
    place = again.index(lost)
    again.insert(place + 3, again.pop(place))
    assert followed(again)[1][0] == b"abcdefgh"


def test_the_first_copy_of_a_byte_counts() -> None:
    packets = Talk().talk(OPENED, (1, Kind.SENT, b"abcdef"), (1, Kind.SENT, b"ghi"))
    first = next(one for one in packets if one.data == b"abcdef")
    other = first._replace(seq=first.seq + 3, data=b"XYZ", at=first.at - 1)
    last = next(one for one in packets if one.data == b"ghi")
    repeats = last._replace(seq=last.seq - 3, data=b"QQQghi", at=last.at + 1)
    assert followed(sorted([*packets, other, repeats]))[1][0] == b"abcXYZghi"


def test_keep_alives_say_nothing() -> None:
    packets = Talk().talk(OPENED, (1, Kind.SENT, b"abc"), (1, Kind.SENT, b"def"))
    last = packets[-2]
    alive = last._replace(seq=last.seq - 1, data=b"\0", at=last.at - 1)
    assert followed([*packets[:-2], alive, *packets[-2:]])[1][0] == b"abcdef"


@pytest.mark.parametrize("is_closed", [True, False])
def test_ports_are_used_again(is_closed: bool) -> None:
    first = Talk(first=1000).talk(OPENED, (1, Kind.SENT, b"first"), *(ENDED if is_closed else ()))
    second = Talk(first=900).talk(OPENED, (1, Kind.SENT, b"second"), *ENDED)
    later = [one._replace(at=one.at + SECOND) for one in second]
    found = followed([*first, *later])
    assert [one[0] for one in found.values()] == [b"first", b"second"]
    assert found[1][2] == (["begin", "end", "end"] if is_closed else ["begin", "lost"])


def test_a_connection_that_is_refused_or_reset() -> None:
    packets = Talk().talk(OPENED, (1, Kind.SENT, b"x"), (1, Kind.RESET, b"server"))
    assert followed(packets)[1][2] == ["begin", "reset"]
    syn = packets[0]
    refusal = Packet(syn.at + 1, syn.target, syn.source, 0, syn.seq + 1, RST | ACK)
    assert followed([syn, refusal])[1][2] == ["begin", "reset"]
    assert followed([syn, syn._replace(at=syn.at + SECOND)])[1][2] == ["middle"]


def test_a_capture_that_starts_in_the_middle() -> None:
    packets = Talk().talk(OPENED, (1, Kind.SENT, b"abc"), (1, Kind.SENT, b"def"))
    assert followed(packets[5:])[1] == (b"def", b"", ["middle"])


def test_times_are_put_in_order_unless_the_clock_was_set() -> None:
    packets = random_talk(1).packets
    found = [one.segment for one in packets]
    moved = [one.segment for one in disordered(packets, Random(1), 20)]
    assert [*in_time(moved)] == found
    half = len(found) // 2
    back = [one._replace(at=one.at - 10 * SECOND) for one in found[half:]]
    assert len(back) > STEP
    ordered = [*in_time(found[:half] + back)]
    assert [one._replace(at=0) for one in ordered] == [one._replace(at=0) for one in found]
    # Time goes on from there: a timeout that spans the step does not seem to be over early.
    times = [one.at for one in ordered]
    assert times == sorted(times)
    assert times[-1] - times[half] == found[-1].at - found[half].at


def test_hostile_captures_take_little_memory() -> None:
    """Segments that never fit, of one connection and of many, are not kept for ever."""
    chunk = b"x" * 60_000
    packets = []
    for number in range(400):
        packets += Talk(mss=60_000, first=5).talk((number, Kind.OPENED, b""))
        last = packets[-1]
        for place in range(3 if number else 300):
            ahead = last.seq + 70_000 * (1 + place)
            packets.append(last._replace(seq=ahead, data=chunk, at=last.at + place))
    flows = Flows()
    kept = [flows.held_bytes for _ in flows.parts(one.segment for one in packets)]
    assert max(kept) <= MAX_HELD + MOST_BYTES
    many = (
        Packet(START + port, (b"\x0a\x01\x01\x01", 1 + port), SERVER, 5, 0, SYN, b"").segment
        for port in range(60_000)
    )
    flows = Flows()
    list(flows.parts(many))
    assert flows.open_count <= MAX_OPEN


@needs_tshark
@pytest.mark.parametrize("change", ["nothing", "disorder", "repeats"])
def test_the_bytes_are_those_that_wireshark_puts_together(change: str, tmp_path: Path) -> None:
    assert TSHARK is not None
    changed = random_talk(10).packets
    if change == "repeats":
        changed = repeated(changed, Random(11))
    elif change == "disorder":
        # Wireshark takes what was acknowledged before as missing: only segments of one side change.
        for place in range(len(changed) - 1):
            one, two = changed[place : place + 2]
            if one.data and two.data and one.source == two.source and one.target == two.target:
                changed[place : place + 2] = two._replace(at=one.at), one._replace(at=two.at)
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap(changed, nano=True))
    found = followed(changed)
    for conn, (sent, received, _) in found.items():
        follow = f"follow,tcp,raw,10.0.0.1:11300,10.1.0.{conn}:{40000 + conn}"
        command = [TSHARK, "-r", str(path), "-q", "-z", follow]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        lines = re.findall(r"^(\t?)([0-9a-f]+)$", output, re.MULTILINE)
        theirs = {
            side: b"".join(bytes.fromhex(data) for tab, data in lines if tab == side)
            for side in ("", "\t")
        }
        # The first side is the one whose bytes came first.
        assert {sent, received} == {*theirs.values()}


def test_losses_never_invent_bytes() -> None:
    packets, chance = random_talk(3).packets, Random(3)
    whole = followed(packets)
    for _ in range(10):
        for conn, (sent, received, others) in followed(lossy(packets, chance, 0.03)).items():
            if others[0] != "begin":
                continue
            missing = sum(int(one[4:]) for one in others if one.startswith("gap"))
            assert len(sent) + len(received) + missing <= len(whole[conn][0] + whole[conn][1]) + 2
