"""The server for tests of applications starts, stops, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import threading

import pytest

import reference_server
from reference_server import BeanstalkServer
from tests.reference_server.embedded.client import PUT, Client


def test_a_server_ends_with_its_block() -> None:
    with reference_server.running() as server:
        address = server.address
        client = Client(server)
        assert (server.host, server.port) == address
        assert client.ask(PUT) == b"INSERTED 1\r\n"
        assert str(server.port) in repr(server)
    assert client.rest() == b""
    client.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, 20)


def test_a_stopped_server_says_so_and_keeps_its_transcript() -> None:
    server = BeanstalkServer()
    with contextlib.closing(Client(server)) as client:
        client.ask(PUT)
        server.stop()
        server.stop()
    with pytest.raises(RuntimeError, match="the server has stopped"):
        server.jobs()
    with pytest.raises(RuntimeError, match="the server has stopped"):
        server.clock.advance(1)
    assert server.transcript.startswith("A > put 0 0 60 5")


def test_servers_leave_no_thread_and_no_descriptor() -> None:
    def used() -> tuple[int, int]:
        # What earlier tests have left does not count.
        gc.collect()
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    with reference_server.running():
        pass
    before = used()
    for _ in range(20):
        with reference_server.running() as server:
            server.slow(1)
            client = Client(server)
            client.send(PUT * 3)
            server.jobs()
            client.close()
    assert used() == before


def test_servers_at_the_same_time_share_nothing(server: BeanstalkServer, client: Client) -> None:
    with reference_server.running() as another:
        assert another.port != server.port
        client.ask(PUT)
        assert (len(server.jobs()), len(another.jobs())) == (1, 0)
        assert another.transcript == ""


def test_limits_and_profiles_are_options() -> None:
    with reference_server.running(profile="1.4", max_job_size=3) as server:
        client = Client(server)
        assert client.ask(PUT) == b"JOB_TOO_BIG\r\n"
        assert client.ask(b"kick-job 1\r\n") == b"UNKNOWN_COMMAND\r\n"
        client.close()
