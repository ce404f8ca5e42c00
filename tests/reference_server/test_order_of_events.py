"""The reference server as prompt as beanstalkd: what a client did is seen by the next command."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterator

import pytest

from conformance.target.address import Address, ask, connect
from conformance.target.launch import Launched
from conformance.target.transport import Transport
from tests.servers import BEANSTALKD_COMMAND, REFERENCE_COMMAND, needs_beanstalkd

TIMES = 100
LINE, REPLY = b"list-tube-used\r\n", b"USING default\r\n"
BURST = 400


@contextlib.contextmanager
def _on_one_cpu() -> Iterator[None]:
    """Keep this thread on one CPU: all sockets get what it sends in that order."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


@contextlib.contextmanager
def _served(command: str) -> Iterator[tuple[Address, Transport]]:
    """Where a server listens, and a client that looks at what others do."""
    with Launched(command) as server, _on_one_cpu(), _client(server.address) as observer:
        yield server.address, observer


def _client(address: Address) -> Transport:
    return Transport(connect(address, 10))


def _clients(observer: Transport) -> int:
    found = re.search(rb"\ncurrent-connections: (\d+)\n", ask(observer, b"stats", 10).body or b"")
    assert found
    return int(found[1])


@contextlib.contextmanager
def _traffic(busy: socket.socket) -> Iterator[None]:
    """Send much meanwhile, as a client that reads the replies when all is over."""
    busy.sendall(LINE * BURST)
    yield
    left = len(REPLY) * BURST
    while left:
        left -= len(busy.recv(left))


@pytest.mark.parametrize(
    "command",
    [REFERENCE_COMMAND, pytest.param(BEANSTALKD_COMMAND, marks=needs_beanstalkd)],
    ids=["reference", "beanstalkd"],
)
def test_the_job_of_a_client_that_is_reset_is_the_next_that_another_gets(command: str) -> None:
    with _served(command) as (address, observer):
        words = []
        for _ in range(TIMES):
            holder = _client(address)
            job = int(ask(holder, b"put 0 0 60 1\r\na", 10).args[0])
            assert ask(holder, b"reserve", 10).word == "RESERVED"
            holder.reset()
            words.append(ask(observer, b"reserve-with-timeout 0", 10).word)
            ask(observer, b"delete %d" % job, 10)
    assert words == ["RESERVED"] * TIMES


@pytest.mark.parametrize("busy", [False, True], ids=["alone", "in traffic"])
def test_clients_are_counted_as_they_come_and_go(busy: bool) -> None:
    with _served(REFERENCE_COMMAND) as (address, observer), connect(address, 10) as other:
        before = _clients(observer)
        seen = []
        for number in range(TIMES):
            with _traffic(other) if busy else contextlib.nullcontext():
                client = _client(address)
                come = _clients(observer)
            with _traffic(other) if busy else contextlib.nullcontext():
                (Transport.close, Transport.reset)[number % 2](client)
                seen.append((come, _clients(observer)))
    assert seen == [(before + 1, before)] * TIMES


def test_a_reset_is_seen_though_what_came_before_is_not_read() -> None:
    with _served(REFERENCE_COMMAND) as (address, observer):
        sock = connect(address, 10)
        holder = Transport(sock)
        ask(holder, b"put 0 0 60 1\r\na", 10)
        assert ask(holder, b"reserve", 10).word == "RESERVED"
        holder.send(b"reserve\r\n")
        with contextlib.suppress(BlockingIOError):
            while True:
                sock.send(LINE * BURST, socket.MSG_DONTWAIT)
        # In each turn, it is read from once, until it has sent too much.
        for _ in range(20):
            assert _clients(observer) == 2
        holder.reset()
        assert ask(observer, b"reserve-with-timeout 0", 10).word == "RESERVED"
