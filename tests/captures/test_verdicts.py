"""Verdicts on captures: those of the proxy's judge, and never an alarm for what was not seen."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random

import pytest

from conformance.__main__ import main
from conformance.captures.flows import Flows
from conformance.captures.joining import SILENCE
from conformance.captures.survey import survey
from conformance.traffic.events import Event, Kind
from conformance.traffic.judge import TrafficJudge
from reference_server.faults import FAULTS, NO_FAULT, Fault
from reference_server.profiles import NEWEST
from reference_server.state import SECOND
from tests import ROOT, traffic_load
from tests.captures.packets import (
    SERVER,
    START,
    Packet,
    Talk,
    alarms,
    disordered,
    lossy,
    pcap,
    pcapng,
    repeated,
    snapped,
    verdict,
)
from tests.servers import BEANSTALKD, TCPDUMP, needs_beanstalkd, needs_tcpdump
from tests.traffic.served_traffic import WHILE, Traffic
from tests.traffic.simulated_traffic import Simulation

FAULTY = (
    "a-second-delete-succeeds",
    "every-seventh-job-is-not-kept",
    "use-names-the-tube-used-before",
    "peek-does-not-show-reserved-jobs",
)
OPENED = (1, Kind.OPENED, b"")
PUT = ((1, Kind.SENT, b"put 0 0 60 1\r\nx\r\n"), (1, Kind.RECEIVED, b"INSERTED 7\r\n"))


def traffic(
    seed: int, fault: Fault = NO_FAULT, prior: int = 0
) -> tuple[list[Packet], TrafficJudge]:
    """Return the packets of simulated clients, and the judge of the same events."""
    talk, judge = Talk(mss=Random(seed).choice((40, 500, 1460))), TrafficJudge()

    def take(event: Event) -> None:
        talk.take(event)
        judge.take(event)

    Simulation(seed, take, clients=3 + seed % 5, fault=fault, prior=prior).run(500)
    return talk.packets, judge


def stamped(packets: Sequence[Packet], others: Iterable[Packet]) -> list[Packet]:
    """Return other packets with the times of these."""
    return [other._replace(at=one.at) for one, other in zip(packets, others, strict=True)]


def of_judge(judge: TrafficJudge) -> list[str]:
    """Return alarms without the name of the connection."""
    return [one.sentence.partition(": ")[2] for one in judge.known.alarms.kept]


def talk_of(conn: int, *said: bytes) -> list[tuple[int, Kind, bytes]]:
    """Return the events of a client that waits for each reply."""
    kinds = (Kind.SENT, Kind.RECEIVED)
    return [(conn, kinds[number % 2], data) for number, data in enumerate(said)]


# ------------------------------------------------------------ the same as the proxy


@pytest.mark.parametrize("seed", range(5))
def test_a_right_server_raises_no_alarm_however_packets_come(seed: int) -> None:
    packets, judge = traffic(seed, prior=5 * (seed % 2))
    chance = Random(seed)
    for changed in (
        packets,
        disordered(packets, chance),
        repeated(packets, chance),
        disordered(repeated(packets, chance), chance),
    ):
        (server,) = verdict(changed)
        assert alarms([server]) == []
        assert (server.judge.requests, server.judge.replies) == (judge.requests, judge.replies)
        assert server.gaps == server.earlier == 0


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_raises_the_alarms_that_the_proxy_raises(name: str) -> None:
    (fault,) = (one for one in FAULTS.values() if one.name == name)
    packets, judge = traffic(2, fault)
    assert judge.known.alarms.counts["server"]
    chance = Random(2)
    for changed in (packets, disordered(repeated(packets, chance), chance)):
        (server,) = verdict(changed)
        assert of_judge(server.judge) == of_judge(judge)


@pytest.mark.parametrize("seed", range(5))
def test_disorder_that_no_time_shows_is_no_alarm(seed: int) -> None:
    packets, _ = traffic(seed)
    late = stamped(packets, disordered(packets, Random(seed), 5))
    found = [one.segment for one in late]
    assert survey(Flows(), found, NEWEST).disorder > 0
    assert alarms(verdict(late)) == []


# ------------------------------------------------------------ what is not seen


@pytest.mark.parametrize("seed", range(8))
def test_a_gap_is_no_alarm_and_is_counted(seed: int) -> None:
    packets, judge = traffic(seed)
    chance = Random(seed)
    for changed in (
        lossy(packets, chance),
        disordered(lossy(packets, chance, 0.003), chance),
        snapped(packets, 30),
    ):
        (server,) = verdict(changed)
        assert alarms([server]) == []
        # Losses at the end of a conversation cannot be seen.
        assert server.gaps or server.earlier or judge.requests - server.judge.requests < 10
    assert server.cut == server.gaps > 0
    assert server.missing
    assert server.first_gap
    assert server.judge.requests < judge.requests


def test_a_request_that_is_missing_explains_what_others_see_before_the_gap_shows() -> None:
    deletes = talk_of(2, b"delete 7\r\n", b"DELETED\r\n")
    sees = talk_of(1, b"peek 7\r\n", b"NOT_FOUND\r\n")
    later = talk_of(2, b"list-tube-used\r\n", b"USING default\r\n")
    before = (OPENED, (2, Kind.OPENED, b""), *PUT)
    whole = Talk().talk(*before, *deletes, *sees, *later)
    assert alarms(verdict(whole)) == []
    lost = [one for one in whole if one.source[1] != 40002 and one.target[1] != 40002]
    first = [one for one in whole if one not in lost]
    begun, said = first[:3], first[3:]
    rest = sorted([*lost, *begun, *said[-4:]])
    (server,) = verdict(rest)
    assert alarms([server]) == []
    assert server.missing == len(b"delete 7\r\nDELETED\r\n")
    # Without any sign of that client, the server is wrong.
    assert len(alarms(verdict(sorted([*lost, *begun])))) == 1


def test_a_request_that_is_missing_at_the_end_explains_what_others_see() -> None:
    deletes = talk_of(2, b"delete 7\r\n", b"DELETED\r\n")
    later = (2, Kind.SENT, b"list-tube-used\r\n")
    sees = talk_of(1, b"peek 7\r\n", b"NOT_FOUND\r\n")
    begun = OPENED, (2, Kind.OPENED, b""), *PUT
    whole = Talk(acks=False).talk(*begun, *deletes, later, *sees)
    lost = b"delete 7\r\n", b"DELETED\r\n"
    # Nobody has acknowledged what comes after the gap, and the capture ends.
    sent = [one for one in whole if one.source[1] == 40002]
    last = next(one for one in sent if one.data == later[2])
    seen = [one for one in whole if one.data not in lost]
    ack = sent[1].ack
    (server,) = verdict(one._replace(ack=ack) if one is last else one for one in seen)
    assert alarms([server]) == []
    assert server.missing >= len(lost[0])


def test_packets_that_the_capture_has_counted_and_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = Talk().talk(OPENED, *PUT, *talk_of(1, b"delete 7\r\n", b"NOT_FOUND\r\n"))
    assert check(tmp_path, pcapng(packets)) == 1
    capsys.readouterr()
    for order in "<>":
        assert check(tmp_path, pcapng(packets, order=order, dropped=12)) == 0
        assert "the capture has lost 12 packets" in capsys.readouterr().out
    # What one connection decides, in which nothing is missing, is decided all the same.
    wrong = Talk().talk(OPENED, *talk_of(1, b"use mail\r\n", b"USING video\r\n"))
    assert check(tmp_path, pcapng(wrong, dropped=1)) == 1


@pytest.mark.parametrize(
    ("host", "is_blocked", "verdict_of_it"),
    [
        (b"\x7f\0\0\x01", False, "server"),
        (b"\x0a\0\0\x01", False, "suspicion"),
        (b"\x7f\0\0\x01", True, ""),
    ],
)
def test_a_reply_that_is_overdue(host: bytes, is_blocked: bool, verdict_of_it: str) -> None:
    talk = Talk(server=(host, 11300))
    served = Traffic(talk.take)
    served.say(b"reserve-with-timeout 1\r\n")
    if is_blocked:
        served.event(1, Kind.BLOCKED)
    served.serve(2 * WHILE)
    (server,) = verdict(talk.packets)
    assert [one.about for one in server.judge.known.alarms.kept] == [verdict_of_it] * (
        verdict_of_it != ""
    )
    # In a capture that is known to lack bytes, the reply may be among them.
    lost = [one for one in talk.packets if one.data][20]
    assert alarms(verdict(one for one in talk.packets if one is not lost)) == []


@pytest.mark.parametrize("seed", range(8))
def test_a_capture_may_begin_anywhere(seed: int) -> None:
    packets, _ = traffic(seed, prior=3)
    for share in (0.1, 0.3, 0.6):
        servers = verdict(packets[int(len(packets) * share) :])
        assert alarms(servers) == []
        assert all(server.earlier for server in servers)


def exchanges(conn: int, first: int, count: int) -> list[tuple[int, Kind, bytes]]:
    """Return a client that puts and deletes jobs, from id ``first`` on."""
    said: list[bytes] = []
    for id in range(first, first + count):
        said += [b"put 0 0 60 1\r\nx\r\n", b"INSERTED %d\r\n" % id]
        said += [b"peek %d\r\n" % id, b"FOUND %d 1\r\nx\r\n" % id]
        said += [b"delete %d\r\n" % id, b"DELETED\r\n"]
    return talk_of(conn, *said)


def test_after_a_start_in_the_middle_it_is_judged_again() -> None:
    # More than a second, at one event each millisecond.
    busy = exchanges(1, 1, 300)
    wrong = talk_of(1, *(data for _, _, data in PUT), b"peek 7\r\n", b"NOT_FOUND\r\n")
    wrong = [(conn, kind, data.replace(b"7", b"777")) for conn, kind, data in wrong]
    packets = Talk().talk(OPENED, *busy, *wrong)
    (server,) = verdict(packets[40:])
    (alarm,) = alarms([server])
    assert "job 777, which is ready" in alarm
    assert server.earlier == server.joined == 1
    assert 0 < server.followed < server.totals.last - server.totals.first


def test_a_worker_that_waited_before_the_capture_is_no_alarm() -> None:
    """Its first packet is its job, which another client misses at the same time."""
    worker = [
        (2, Kind.OPENED, b""),
        *talk_of(2, b"reserve\r\n"),
    ]
    before = Talk().talk(OPENED, *worker)
    begin = len(before)
    talk = Talk()
    given = (2, Kind.RECEIVED, b"RESERVED 7 1\r\nx\r\n")
    asked, missing = talk_of(1, b"delete 7\r\n", b"NOT_FOUND\r\n")
    done = talk_of(2, b"delete 7\r\n", b"DELETED\r\n", b"reserve\r\n")
    packets = talk.talk(OPENED, *worker, *exchanges(1, 1, 2), *PUT, asked, missing, given, *done)
    third = talk_of(3, b"list-tube-used\r\n", b"USING default\r\n")
    later = Talk().talk((3, Kind.OPENED, b""), *third)
    shown = packets[begin:] + [one._replace(at=one.at + 3 * SECOND) for one in later]
    assert alarms(verdict(shown)) == []
    # The client that puts was seen from its start, and the worker only now.
    shown = [one for one in packets if packets.index(one) < 3 or packets.index(one) >= begin]
    (server,) = verdict(shown)
    assert alarms([server]) == []
    assert server.earlier == 1


def test_silence_shows_that_nothing_is_unanswered() -> None:
    talk = Talk()
    now = START
    talk.take(Event(now, 1, Kind.OPENED))
    for number in range(1, 9):
        for _, kind, data in exchanges(1, number, 1)[:2]:
            now += SECOND // 1000
            talk.take(Event(now, 1, kind, data))
        now += 2 * SILENCE
    (server,) = verdict(talk.packets[7:])
    assert (server.earlier, server.joined) == (1, 1)
    assert server.judge.replies > 0


# ------------------------------------------------------------ servers


def test_servers_are_found_at_any_port_and_judged_apart() -> None:
    others = (b"\x0a\x00\x00\x02", 4711)
    one = Talk().talk(OPENED, *PUT)
    two = Talk(server=others).talk(OPENED, *PUT, *talk_of(1, b"peek 7\r\n", b"NOT_FOUND\r\n"))
    web = Talk(server=(b"\x0a\x00\x00\x03", 80)).talk(
        OPENED, *talk_of(1, b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n")
    )
    cache = Talk(server=(b"\x0a\x00\x00\x04", 11211)).talk(
        OPENED,
        *talk_of(1, b"delete 7\r\n", b"NOT_FOUND\r\n", b"stats\r\n", b"STAT pid 1\r\n"),
    )
    servers = verdict(sorted([*one, *two, *web, *cache]))
    assert [server.name for server in servers] == ["10.0.0.1:11300", "10.0.0.2:4711"]
    assert [len(alarms([server])) for server in servers] == [0, 1]


# ------------------------------------------------------------ the command


def check(tmp_path: Path, data: bytes) -> int:
    path = tmp_path / "capture"
    path.write_bytes(data)
    return main(["check", str(path)])


def test_check_prints_what_the_proxy_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = Talk().talk(OPENED, *PUT, *talk_of(1, b"delete 7\r\n", b"NOT_FOUND\r\n"))
    for write in (pcap, pcapng):
        assert check(tmp_path, write(packets)) == 1
        output = capsys.readouterr().out
        assert "server 10.0.0.1:11300\n" in output
        assert "SERVER  delete NOT_FOUND, connection 10.1.0.1:40001, 2023-11-14T22:13:20" in output
        assert "EXPECTED  a reply about job 7, which is ready" in output
        assert "1 alarm about the server, 0 about clients, 0 suspicions" in output
    assert check(tmp_path, pcap(packets[:-4])) == 0
    assert "0 alarms about the server" in capsys.readouterr().out


def test_check_says_what_was_not_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packets = Talk().talk(OPENED, *exchanges(1, 1, 50))
    lost = [one for one in packets if one.data.startswith(b"put")][7]
    assert check(tmp_path, pcap(one for one in packets if one is not lost)[:-5]) == 0
    output = capsys.readouterr().out
    assert "not seen: 17 bytes in 1 gap; the first: 17 bytes of its client on 10.1.0.1" in output
    assert "jobs were followed in 0.0" in output
    assert "note: the file ends in the middle of a frame" in output
    assert check(tmp_path, pcap(packets[20:])) == 0
    assert "begun before the capture: 1 conversation" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (pcap([]), "no beanstalk conversation in it: 0 frames, 0 TCP connections"),
        (
            pcap([one for one in Talk().talk(OPENED, *PUT) if one.target == SERVER]),
            "it has requests and no replies; capture both directions",
        ),
        (
            pcap(Talk().talk(OPENED))[:20] + b"\x93\0\0\0" + pcap(Talk().talk(OPENED))[24:],
            "frames of link type 147 cannot be read",
        ),
        (pcap([]) + b"\xff" * 16, "packet 1 claims to have 4,294,967,295 bytes"),
    ],
)
def test_bad_captures_are_one_sentence(
    tmp_path: Path, data: bytes, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, data) == 4
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("is_file", [True, False])
def test_a_capture_on_standard_input(tmp_path: Path, is_file: bool) -> None:
    data = pcap(Talk().talk(OPENED, *PUT))
    command = [sys.executable, "-m", "conformance", "check", "-"]
    if is_file:
        (tmp_path / "capture").write_bytes(data)
        with (tmp_path / "capture").open("rb") as file:
            done = subprocess.run(command, stdin=file, capture_output=True, cwd=ROOT)
    else:
        done = subprocess.run(command, input=data, capture_output=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert b"1 connection, 1 request, 1 replies" in done.stdout


def said(port: int, path: Path, name: bytes) -> bool:
    """Use a tube on a server; return whether the capture has that by now."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 60) as sock:
        sock.sendall(b"use %b\r\n" % name)
        sock.recv(100)
    return path.exists() and b"use %b" % name in path.read_bytes()


def waited(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@needs_tcpdump
@needs_beanstalkd
def test_the_packets_of_real_clients(tmp_path: Path) -> None:
    assert TCPDUMP is not None
    assert BEANSTALKD is not None
    path = tmp_path / "capture"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    dump = [TCPDUMP, "-i", "lo", "-w", str(path), "--immediate-mode", "-U", "-B", "65536"]
    with contextlib.ExitStack() as stack:
        capture = subprocess.Popen(
            [*dump, "tcp", "port", str(port)], stderr=subprocess.PIPE, text=True
        )
        stack.callback(capture.kill)
        assert capture.stderr is not None
        line = capture.stderr.readline()
        if "listening" not in line:
            pytest.skip(f"tcpdump cannot capture here: {line.strip()}")
        server = subprocess.Popen([BEANSTALKD, "-l", "127.0.0.1", "-p", str(port)])
        stack.callback(server.kill)
        waited(lambda: said(port, path, b"begin"))
        count = traffic_load.main(port, 8, 4000, 3)
        waited(lambda: said(port, path, b"end"))
    command = [sys.executable, "-m", "conformance", "check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search("([0-9,]+) requests", done.stdout)
    assert found
    assert int(found[1].replace(",", "")) >= count
