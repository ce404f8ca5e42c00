"""The transport: bytes in order, deadlines, and the ways in which a connection ends."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from conformance.target.transport import PROMPT, Transport, wait_for
from tests import ROOT

LIMIT = 30.0
"""Seconds within which everything comes."""
MUCH = bytes(range(256)) * 2**14
"""More bytes than the buffers of a connection hold."""
Pair = tuple[Transport, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Yield a transport, and the server's end of its connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        server.settimeout(LIMIT)
        with Transport(client) as transport, contextlib.closing(server):
            yield transport, server


def _read(server: socket.socket, transport: Transport, size: int) -> bytes:
    """Return so many bytes that the server reads while its client sends on."""
    data = bytearray()
    while len(data) < size and (more := server.recv(65536)):
        data += more
        wait_for([transport], 0)
    return bytes(data)


def test_bytes_that_are_not_read_yet_are_kept_in_their_order(pair: Pair) -> None:
    transport, server = pair
    begun = time.monotonic()
    transport.send(MUCH)
    transport.send(b"and more")
    assert time.monotonic() - begun < LIMIT
    assert transport.unsent
    assert _read(server, transport, len(MUCH) + 8) == MUCH + b"and more"
    assert not transport.unsent


def test_what_is_left_is_sent_before_the_end_of_what_is_sent(pair: Pair) -> None:
    transport, server = pair
    transport.send(MUCH)
    transport.half_close()
    assert _read(server, transport, len(MUCH) + 1) == MUCH


def test_a_transport_waits_until_its_deadline_and_no_longer_than_it_must(pair: Pair) -> None:
    transport, server = pair
    assert transport.receive() == transport.receive_within(0) == b""
    for seconds in (PROMPT / 2, 3 * PROMPT):
        begun = time.monotonic()
        assert transport.receive_within(seconds) == b""
        assert time.monotonic() - begun >= seconds
    server.sendall(b"USING default\r\n")
    begun = time.monotonic()
    assert transport.receive_within(LIMIT) == b"USING default\r\n"
    assert time.monotonic() - begun < LIMIT
    assert not transport.ended


def test_what_is_sure_to_come_is_returned_whole(pair: Pair) -> None:
    transport, server = pair
    server.sendall(MUCH[:1000])
    assert transport.receive_soon(1000, whole=True) == MUCH[:1000]
    # What does not come is not waited for.
    server.sendall(b"a")
    assert transport.receive_soon(1000, whole=True) == b"a"
    assert transport.receive_soon(1000, whole=True) == b""


def test_the_end_of_a_connection_is_told_behind_what_came_before_it(pair: Pair) -> None:
    transport, server = pair
    server.sendall(b"last")
    server.close()
    assert transport.receive_within(LIMIT) == b"last"
    assert not transport.ended
    assert transport.receive_within(LIMIT) == b""
    assert (transport.ended, transport.error) == (True, None)


def test_a_reset_is_told_as_the_end_and_its_reason(pair: Pair) -> None:
    transport, server = pair
    Transport(server).reset()
    assert transport.receive_within(LIMIT) == b""
    assert transport.ended
    assert isinstance(transport.error, ConnectionResetError)
    # Nothing is raised, and nothing kept, where nobody reads any more.
    transport.send(b"quit\r\n")
    assert transport.is_deaf
    assert not transport.unsent
    transport.half_close()


def test_only_where_something_happens_is_told(pair: Pair) -> None:
    transport, server = pair
    idle, other = socket.socketpair()
    with Transport(idle) as quiet, contextlib.closing(other):
        assert wait_for([transport, quiet], 0) == []
        server.sendall(b"a")
        assert wait_for([transport, quiet], LIMIT) == [transport]


def test_hanging_up_waits_until_the_server_has_closed_the_connection(pair: Pair) -> None:
    transport, server = pair
    closed: list[float] = []

    def serve() -> None:
        while server.recv(100):
            pass
        time.sleep(0.1)
        closed.append(time.monotonic())
        server.close()

    thread = threading.Thread(target=serve)
    thread.start()
    transport.hang_up(LIMIT)
    assert closed
    assert closed[0] <= time.monotonic()
    thread.join()


def test_a_server_that_does_not_close_its_end_is_not_waited_for_for_ever(pair: Pair) -> None:
    transport, _ = pair
    begun = time.monotonic()
    transport.hang_up(0.05)
    assert 0.05 <= time.monotonic() - begun < LIMIT
    assert transport.ended


def test_another_thread_can_end_what_is_waited_for(pair: Pair) -> None:
    transport, _ = pair
    timer = threading.Timer(0.05, transport.abort)
    timer.start()
    assert transport.receive_within(LIMIT) == b""
    assert transport.ended
    timer.join()


def test_nothing_else_talks_with_servers() -> None:
    root, imports = ROOT, re.compile(r"(?m)^(?:import|from) (\w+)")
    modules = [path for name in ("conformance", "fuzz") for path in (root / name).rglob("*.py")]
    users = {
        path.name
        for path in modules
        if {"socket", "select", "selectors"} & {*imports.findall(path.read_text(encoding="utf-8"))}
    }
    # Addresses are connected to, and ports are tried; to client libraries, the suite is the server.
    # A proxy forwards what others say, and its judge is told through a pipe.
    proxy = {"forwarder.py", "judging.py"}
    assert users == {"transport.py", "address.py", "place.py", "server.py"} | proxy
