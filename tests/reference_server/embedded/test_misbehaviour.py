"""Misbehaviour on demand of the server for tests of applications."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Sequence

import pytest

import reference_server
from reference_server import BeanstalkServer
from reference_server.faults import FAULTS
from tests.reference_server.embedded.client import PUT, Client


def test_the_next_reply_is_replaced_once(server: BeanstalkServer, client: Client) -> None:
    server.next_reply("OUT_OF_MEMORY")
    assert client.ask(PUT) == b"OUT_OF_MEMORY\r\n"
    assert server.jobs() == []
    assert client.ask(PUT) == b"INSERTED 1\r\n"


def test_replies_to_a_command_wait_for_it(server: BeanstalkServer, client: Client) -> None:
    server.next_reply("JOB_TOO_BIG", to="put")
    server.next_reply("BURIED 5", to="put")
    server.next_reply("NOT_FOUND")
    assert client.ask(b"use mail\r\n") == b"NOT_FOUND\r\n"
    assert client.ask(b"use mail\r\n") == b"USING mail\r\n"
    # The body comes later than its line.
    client.send(b"put 0 0 60 5\r\n")
    assert server.jobs() == []
    assert client.ask(b"hello\r\n" + PUT) == b"JOB_TOO_BIG\r\n"
    assert client.line() == b"BURIED 5\r\n"


def test_a_reply_with_a_body_can_be_given(server: BeanstalkServer, client: Client) -> None:
    server.next_reply("RESERVED 5 2\r\nhi", to="reserve")
    assert client.ask(b"reserve\r\n") == b"RESERVED 5 2\r\n"
    assert client.line() == b"hi\r\n"


def test_a_malformed_line_is_a_command_too(server: BeanstalkServer, client: Client) -> None:
    server.next_reply("INTERNAL_ERROR")
    assert client.ask(b"nonsense\r\n") == b"INTERNAL_ERROR\r\n"
    server.next_reply("INTERNAL_ERROR")
    client.send(b"quit\r\n")
    assert client.rest() == b""


def test_a_connection_ends_after_these_bytes(
    server: BeanstalkServer, client: Client, other: Client
) -> None:
    server.drop_connection(after=b"RESERVED")
    assert client.ask(PUT) == b"INSERTED 1\r\n"
    client.send(b"reserve\r\n")
    assert client.rest() == b"RESERVED"
    # The job is ready again, for a client that stays connected.
    assert other.ask(b"reserve\r\n") == b"RESERVED 1 5\r\n"
    assert server.transcript.count("closed by the target") == 1


def test_bytes_are_found_across_replies(server: BeanstalkServer, client: Client) -> None:
    server.drop_connection(after=b"default\r\nUSING")
    assert client.ask(b"list-tube-used\r\n") == b"USING default\r\n"
    client.send(b"list-tube-used\r\n")
    assert client.rest() == b"USING"


def test_bytes_sent_before_do_not_count(server: BeanstalkServer, client: Client) -> None:
    assert client.ask(b"list-tube-used\r\n") == b"USING default\r\n"
    server.drop_connection(after=b"USING default\r\n")
    client.send(b"list-tube-used\r\nlist-tube-used\r\n")
    assert client.rest() == b"USING default\r\n"


def test_all_connections_can_be_dropped_now(
    server: BeanstalkServer, client: Client, other: Client
) -> None:
    client.send(b"reserve\r\n")
    other.ask(PUT + b"reserve\r\n")
    server.drop_connection()
    assert client.rest().startswith(b"RESERVED 1 5\r\n")
    assert other.rest() == b""
    assert [job.state for job in server.jobs()] == ["ready"]
    with contextlib.closing(Client(server)) as third:
        assert third.ask(b"reserve\r\n") == b"RESERVED 1 5\r\n"


def test_drain_mode_refuses_puts_only(server: BeanstalkServer, client: Client) -> None:
    client.ask(PUT)
    server.drain()
    assert client.ask(PUT) == b"DRAINING\r\n"
    assert client.ask(b"reserve\r\n") == b"RESERVED 1 5\r\n"


def test_a_slow_server_sends_no_faster(server: BeanstalkServer, client: Client) -> None:
    server.clock.freeze()
    server.slow(bytes_per_second=100)
    start = time.monotonic()
    assert client.ask(b"list-tube-used\r\n") == b"USING default\r\n"
    assert time.monotonic() - start >= 0.15
    server.slow(bytes_per_second=0.001)
    client.send(b"list-tube-used\r\n")
    assert server.transcript.endswith("> list-tube-used\\r\\n\n")
    server.slow(None)
    assert client.line() == b"USING default\r\n"


def test_a_slow_server_says_all_before_it_hangs_up(server: BeanstalkServer, client: Client) -> None:
    server.slow(200)
    client.send(b"list-tube-used\r\nquit\r\n")
    assert client.rest() == b"USING default\r\n"


def test_a_slow_connection_can_be_dropped(server: BeanstalkServer, client: Client) -> None:
    server.slow(500)
    server.drop_connection(after=b"USING d")
    client.send(b"list-tube-used\r\n")
    assert client.rest() == b"USING d"


def test_a_restart_keeps_the_port_and_loses_the_jobs(
    server: BeanstalkServer, client: Client
) -> None:
    client.ask(PUT)
    server.drain()
    port = server.port
    server.restart()
    assert client.rest() == b""
    assert (server.port, server.jobs()) == (port, [])
    with contextlib.closing(Client(server)) as again:
        assert again.ask(PUT) == b"INSERTED 1\r\n"
    assert "! restarts" in server.transcript


def test_the_port_is_never_free_for_others(
    monkeypatch: pytest.MonkeyPatch, server: BeanstalkServer
) -> None:
    started = server._start

    def meanwhile(listening: Sequence[socket.socket] = ()) -> object:
        with pytest.raises(OSError, match="in use"):
            socket.create_server(server.address)
        early.append(Client(server))
        return started(listening)

    early: list[Client] = []
    monkeypatch.setattr(server, "_start", meanwhile)
    server.restart()
    assert early[0].ask(PUT) == b"INSERTED 1\r\n"
    early[0].close()


def test_a_fault_is_injected_by_its_slug(server: BeanstalkServer) -> None:
    server.inject_fault("the-last-watched-tube-can-be-ignored")
    with contextlib.closing(Client(server)) as client:
        assert client.ask(b"ignore default\r\n") == b"WATCHING 0\r\n"
        server.next_reply("NOT_IGNORED")
        assert client.ask(b"ignore default\r\n") == b"NOT_IGNORED\r\n"
    assert r"A < WATCHING 0\r\n" in server.transcript


def test_a_fault_of_kept_jobs_keeps_them() -> None:
    with reference_server.running(fault="buried-jobs-come-back-in-reverse") as server:
        client = Client(server)
        client.send(PUT * 2 + b"reserve\r\nreserve\r\nbury 1 0\r\nbury 2 0\r\n")
        assert len(server.jobs(state="buried")) == 2
        server.restart()
        client.close()
        with contextlib.closing(Client(server)) as client:
            assert client.ask(b"peek-buried\r\n") == b"FOUND 2 5\r\n"


@pytest.mark.parametrize("part", range(8))
def test_every_fault_can_be_injected(server: BeanstalkServer, part: int) -> None:
    for slug in sorted(FAULTS)[part::8]:
        server.inject_fault(slug)
        with contextlib.closing(Client(server)) as client:
            client.send(PUT + b"list-tube-used\r\n")
            server.jobs()
    assert server.transcript.count("restarts") == len(sorted(FAULTS)[part::8])
