"""The proxy: bytes go through it unchanged, a copy is judged, and nobody waits for that."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import greenstalk
import pytest
from rich.console import Console

from conformance.__main__ import main
from conformance.oracle import check, parse
from conformance.target.watchdog import ENDINGS
from conformance.traffic.events import Event, EventReader, Kind
from conformance.traffic.feed import Feed
from conformance.traffic.forwarder import Forwarder, Tap, listening
from conformance.traffic.judge import TrafficJudge
from conformance.traffic.record import Record, letters_of
from conformance.traffic.strangers import bypassing
from conformance.traffic.view import Rates, table
from reference_server.state import SECOND
from reports.traffic import Traffic, TrafficAlarm, traffic_page

LIMIT = 120.0
"""Seconds after which a test gives up."""


class Notes:
    """A tap that keeps everything."""

    def __init__(self) -> None:
        self.events: list[tuple[int, Kind, bytes]] = []

    def note(self, conn: int, kind: Kind, data: bytes = b"") -> None:
        self.events.append((conn, kind, data))

    def tick(self) -> None:
        pass

    def of(self, kind: Kind) -> bytes:
        """Return the data of all events of a kind, joined."""
        return b"".join(data for _, other, data in self.events if other is kind)

    def wait_for(self, kind: Kind) -> None:
        """Wait until there is an event of a kind."""
        end = time.monotonic() + LIMIT
        while not any(other is kind for _, other, _ in self.events):
            assert time.monotonic() < end
            time.sleep(0.001)


@contextlib.contextmanager
def forwarding(tap: Tap, port: int) -> Iterator[int]:
    """Yield the port of a forwarder to a port of this machine."""
    listener = listening("127.0.0.1", 0)
    at = listener.getsockname()[1]
    forwarder = Forwarder(listener, ("127.0.0.1", port), tap)
    thread = threading.Thread(target=forwarder.run)
    thread.start()
    try:
        yield at
    finally:
        forwarder.stop()
        thread.join(LIMIT)


@contextlib.contextmanager
def connected(tap: Tap) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield both ends of a connection through a forwarder: the client's, and the server's."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        forwarding(tap, server.getsockname()[1]) as port,
        socket.create_connection(("127.0.0.1", port), LIMIT) as client,
        server.accept()[0] as accepted,
    ):
        accepted.settimeout(LIMIT)
        yield client, accepted


def read(sock: socket.socket, size: int) -> bytes:
    """Return so many bytes, or those before the end."""
    data = b""
    while len(data) < size and (more := sock.recv(size - len(data))):
        data += more
    return data


def test_bytes_go_both_ways_and_are_copied() -> None:
    notes = Notes()
    with connected(notes) as (client, server):
        client.sendall(b"\x00\xffreserve\r\n")
        assert read(server, 11) == b"\x00\xffreserve\r\n"
        server.sendall(b"nonsense")
        assert read(client, 8) == b"nonsense"
    assert notes.of(Kind.SENT) == b"\x00\xffreserve\r\n"
    assert notes.of(Kind.RECEIVED) == b"nonsense"


def test_a_half_close_is_one() -> None:
    notes = Notes()
    with connected(notes) as (client, server):
        client.sendall(b"a")
        client.shutdown(socket.SHUT_WR)
        assert read(server, 10) == b"a"
        server.sendall(b"later")
        assert read(client, 5) == b"later"
        server.close()
        assert client.recv(1) == b""
        notes.wait_for(Kind.CLOSED)
    kinds = [kind for _, kind, _ in notes.events]
    assert kinds[-3:] == [Kind.CLIENT_ENDED, Kind.RECEIVED, Kind.SERVER_ENDED] or (
        kinds[-4:] == [Kind.CLIENT_ENDED, Kind.RECEIVED, Kind.SERVER_ENDED, Kind.CLOSED]
    )


@pytest.mark.parametrize("by_client", [True, False])
def test_a_reset_is_one(by_client: bool) -> None:
    notes = Notes()
    with connected(notes) as (client, server):
        client.sendall(b"x")
        assert read(server, 1) == b"x"
        first, other = (client, server) if by_client else (server, client)
        first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        first.close()
        with pytest.raises(ConnectionResetError):
            read(other, 1)
        notes.wait_for(Kind.RESET)
    assert notes.of(Kind.RESET) == (b"client" if by_client else b"server")


def test_a_refused_connection_is_reset() -> None:
    with socket.socket() as taken:
        # It has the port, so that nobody else gets it, and does not listen.
        taken.bind(("127.0.0.1", 0))
        # The reset may come before the connection is used.
        with forwarding(Notes(), taken.getsockname()[1]) as at, pytest.raises(ConnectionResetError):
            read(socket.create_connection(("127.0.0.1", at), LIMIT), 1)


def test_whoever_does_not_read_makes_the_other_wait_and_loses_nothing() -> None:
    data = os.urandom(1 << 20) * 24
    with connected(Notes()) as (client, server):
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        # The other direction does not wait.
        server.sendall(b"reply")
        assert read(client, 5) == b"reply"
        got = read(server, len(data))
        sender.join(LIMIT)
    assert got == data


def test_a_client_that_does_not_read_is_shown() -> None:
    notes, data = Notes(), b"x" * (1 << 20) * 24
    with connected(notes) as (client, server):
        sender = threading.Thread(target=server.sendall, args=(data,))
        sender.start()
        notes.wait_for(Kind.BLOCKED)
        assert read(client, len(data)) == data
        sender.join(LIMIT)
        notes.wait_for(Kind.UNBLOCKED)
    kinds = [kind for _, kind, _ in notes.events if kind in (Kind.BLOCKED, Kind.UNBLOCKED)]
    assert kinds == [Kind.BLOCKED, Kind.UNBLOCKED] * (len(kinds) // 2)


def test_many_connections_at_once() -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=500) as server,
        forwarding(Notes(), server.getsockname()[1]) as port,
        contextlib.ExitStack() as stack,
    ):
        clients = []
        for number in range(300):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), LIMIT))
            sock.sendall(b"%3d" % number)
            clients.append(sock)
        for _ in clients:
            accepted = stack.enter_context(server.accept()[0])
            accepted.sendall(read(accepted, 3))
        assert [read(sock, 3) for sock in clients] == [b"%3d" % number for number in range(300)]


def test_the_feed_drops_whole_conversations_and_never_waits() -> None:
    reading, writing = os.pipe()
    feed = Feed(writing, bound=10_000)
    chunk = b"x" * 60_000
    for number in range(60):
        feed.note(1 + number % 2, Kind.SENT, chunk)
    assert feed.dropped_count == 2
    feed.note(1, Kind.SENT, b"not seen")
    feed.note(1, Kind.CLOSED)
    events: list[Event] = []
    reader = EventReader()

    def drain() -> None:
        while data := os.read(reading, 1 << 16):
            events.extend(reader.read(data))

    thread = threading.Thread(target=drain)
    thread.start()
    assert feed.close(LIMIT)
    thread.join(LIMIT)
    os.close(reading)
    first = [event.kind for event in events if event.conn == 1]
    assert first[-2:] == [Kind.DROPPED, Kind.CLOSED]
    assert set(first[:-2]) == {Kind.SENT}
    assert all(event.data == chunk for event in events if event.kind is Kind.SENT)


def test_a_feed_that_nobody_reads_any_more() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    feed = Feed(writing, bound=10_000)
    for _ in range(10):
        feed.note(1, Kind.SENT, b"x" * 70_000)
    assert feed.is_broken
    assert not feed.close(0)


def test_the_record_is_a_transcript(tmp_path: Path) -> None:
    path = tmp_path / "record"
    with path.open("w", encoding="ascii") as file:
        record = Record(file)
        for at, kind, data in (
            (0, Kind.OPENED, b"x"),
            (0, Kind.SENT, b"put 0 0 9 3\r\n\xff\\\n\r\n"),
            (0, Kind.RECEIVED, b"INSERTED 1\r\n"),
            (2 * SECOND, Kind.SENT, b"reserve\r\n"),
            (2 * SECOND, Kind.RECEIVED, b"RESERVED 1 3\r\n\xff\\\n\r\n"),
            (3 * SECOND, Kind.CLIENT_ENDED, b""),
            (3 * SECOND, Kind.SERVER_ENDED, b""),
            (3 * SECOND, Kind.CLOSED, b""),
        ):
            record.take(Event(7 * SECOND + at, 28, kind, data))
    transcript = parse(path.read_text())
    assert [entry.connection for entry in transcript.entries if entry.connection] == ["AB"] * 6
    assert transcript.entries[0].data == b"put 0 0 9 3\r\n\xff\\\n\r\n"
    assert [entry.time for entry in transcript.entries][-1] == 3.0
    assert check(transcript) is None
    assert [letters_of(number) for number in (1, 26, 27, 702, 703)] == ["A", "Z", "AA", "ZZ", "AAA"]


def test_strangers_are_connections_that_are_not_of_the_proxy(tmp_path: Path) -> None:
    head = "  sl  local_address rem_address   st tx rx tr tm retr uid timeout inode\n"
    rows = [
        "0100007F:2BDF 00000000:0000 0A 0:0 0:0 0 0 0 100",
        "0100007F:2BDF 0100007F:1001 01 0:0 0:0 0 0 0 101",
        "0100007F:1001 0100007F:2BDF 01 0:0 0:0 0 0 0 201",
    ]
    (tmp_path / "net").mkdir()
    (tmp_path / "7" / "fd").mkdir(parents=True)
    (tmp_path / "7" / "fd" / "3").symlink_to("socket:[201]")
    table = tmp_path / "net" / "tcp"

    def count() -> int:
        table.write_text(head + "".join(f"   0: {row}\n" for row in rows))
        return bypassing(0x2BDF, 7, tmp_path)

    assert count() == 0
    rows.append("0100007F:2BDF 0100007F:1002 01 0:0 0:0 0 0 0 102")
    assert count() == 1
    del rows[0]
    assert count() == 0


def test_the_view_and_the_page_show_hostile_text_as_text() -> None:
    judge = TrafficJudge()
    judge.take(Event(SECOND, 1, Kind.OPENED, b"\x1b[31m<b>"))
    judge.take(Event(SECOND, 1, Kind.SENT, b"<script>\r\npeek 1\r\n"))
    console = Console(width=100)
    with console.capture() as capture:
        console.print(table(judge, Rates(), 3.0, 2))
    assert "\x1b" not in capture.get()
    assert "3.0 s behind" in capture.get()
    alarm = TrafficAlarm(
        about="client", kind="<i>", at="", connection="<b>", expected="", observed="<script>"
    )
    page = traffic_page(
        Traffic(
            title="<u>",
            profile="1.12",
            seconds=1,
            connections=1,
            requests=1,
            replies=1,
            received_bytes=1,
            unjudged=0,
            longest_lag=0,
            alarms=[alarm],
        )
    )
    assert not re.search("<(script|b|i|u)>", page)


# ------------------------------------------------------------ the command


@contextlib.contextmanager
def running(*command: str, until: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Yield a program that listens, and its port, as a line of its output tells it."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            ready, _, _ = select.select([process.stdout], [], [], LIMIT)
            assert ready
            line = process.stdout.readline()
            match = re.search(until, line)
            assert match, line
            yield process, int(match[1])
        finally:
            if process.poll() is None:
                process.kill()


@contextlib.contextmanager
def proxied(*options: str, fault: str = "") -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Yield the proxy before a reference server, and its port."""
    server = ("reference_server", "--port", "0", *(("--fault", fault) if fault else ()))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running(*server, until=r":(\d+)") as (_, target):
        address = f"127.0.0.1:{target}"
        listen = ("conformance", "proxy", "--listen", f"127.0.0.1:{port}", "--target", address)
        with running(*listen, *options, until=r":(\d+), forwarding") as proxy:
            yield proxy


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """End a proxy; return its exit code, and the rest of its output."""
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=LIMIT)
    return process.returncode, output


def work(port: int) -> None:
    """Let a client library put, reserve and delete a job."""
    with greenstalk.Client(("127.0.0.1", port)) as client:
        client.put("hello")
        client.delete(client.reserve(timeout=1))


def test_a_client_library_before_a_right_server(tmp_path: Path) -> None:
    record = tmp_path / "record"
    options = ("--record", str(record), "--report", str(tmp_path / "report"))
    with proxied(*options) as (process, port):
        work(port)
        code, output = ended(process)
    assert code == 0, output
    assert "0 alarms about the server, 0 about clients, 0 suspicions" in output
    assert "hello" in record.read_text()
    assert check(parse(record.read_text())) is None
    assert "0 alarms about the server" in (tmp_path / "report" / "traffic.html").read_text()
    traffic = Traffic.model_validate_json((tmp_path / "report" / "traffic.json").read_text())
    assert traffic.requests == traffic.replies == 3


@contextlib.contextmanager
def hangups(handler: signal.Handlers) -> Iterator[None]:
    """Let programs start with SIGHUP ignored, as by nohup, or not, however the tests were."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", ENDINGS)
def test_the_end_of_a_terminal_ends_the_proxy_and_its_report_is_written(
    tmp_path: Path, number: signal.Signals
) -> None:
    with hangups(signal.SIG_DFL), proxied("--report", str(tmp_path)) as (process, _):
        # The judge may not have begun.
        os.killpg(process.pid, number)
        output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, output
    assert (tmp_path / "traffic.html").exists()


def test_a_proxy_goes_on_without_its_terminal_if_nohup_says_so() -> None:
    with hangups(signal.SIG_IGN), proxied() as (process, port):
        os.killpg(process.pid, signal.SIGHUP)
        work(port)
        code, output = ended(process)
    assert code == 0, output
    assert "1 connection" in output


def test_a_fault_and_a_name_with_cr_lf_are_reported_and_the_exit_code_tells() -> None:
    with proxied(fault="use-names-the-tube-used-before") as (process, port):
        with socket.create_connection(("127.0.0.1", port), LIMIT) as sock:
            sock.sendall(b"use mail\r\n")
            sock.recv(100)
            sock.sendall(b"watch evil\r\nname\r\n")
            read(sock, len(b"WATCHING 2\r\nUNKNOWN_COMMAND\r\n"))
        code, output = ended(process)
    assert code == 1
    assert "EXPECTED  USING mail" in output
    assert "CR LF in the name of a tube" in output
    assert r"watch evil⟦\r⟧\nname" in output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--listen", "127.0.0.1", "--target", "127.0.0.1:1"], "an address is HOST:PORT"),
        (["--listen", "unix:/x", "--target", "127.0.0.1:1"], "--listen takes HOST:PORT"),
        (["--listen", "127.0.0.1:9", "--target", "h:1", "--profile", "9"], "9"),
        (
            ["--listen", "127.0.0.1:9", "--target", "127.0.0.1:1", "--record", "/no/file"],
            "cannot write /no/file",
        ),
        (["--listen", "192.0.2.1:9", "--target", "127.0.0.1:1"], "cannot listen at 192.0.2.1:9"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["proxy", *arguments]) == 4
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1
