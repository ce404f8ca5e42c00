"""The clock of the server for tests of applications: it flows, stands still, or is moved."""

from __future__ import annotations

import contextlib

import pytest

import reference_server
from reference_server import BeanstalkServer, loop
from tests.reference_server.embedded.client import PUT, Client


def test_an_hour_passes_at_once(server: BeanstalkServer, client: Client, other: Client) -> None:
    server.clock.freeze()
    client.ask(b"put 0 3600 60 1\r\na\r\n")
    other.send(b"reserve\r\n")
    server.clock.advance(3599)
    assert [job.state for job in server.jobs()] == ["delayed"]
    server.clock.advance(1)
    assert other.line() == b"RESERVED 1 1\r\n"
    server.clock.advance(59)
    assert [(job.state, round(job.time_left)) for job in server.jobs()] == [("reserved", 1)]
    server.clock.advance(1)
    (job,) = server.jobs()
    assert (job.state, job.timeouts, job.time_left) == ("ready", 1, 0.0)


def test_timers_fire_in_order(server: BeanstalkServer, client: Client, other: Client) -> None:
    server.clock.freeze()
    for delay in (30, 10, 20):
        client.ask(b"put 0 %d 60 2\r\n%d\r\n" % (delay, delay))
    client.ask(b"pause-tube default 5\r\n")
    other.send(b"reserve\r\nreserve\r\nreserve\r\n")
    server.clock.advance(40)
    bodies = [(other.line(), other.line())[1] for _ in range(3)]
    assert bodies == [b"10\r\n", b"20\r\n", b"30\r\n"]


def test_timeouts_and_safety_margins(
    server: BeanstalkServer, client: Client, other: Client
) -> None:
    server.clock.freeze()
    client.send(PUT + b"reserve\r\nreserve\r\n")
    other.send(b"reserve-with-timeout 100\r\n")
    server.clock.advance(59)
    assert [client.line() for _ in range(4)][-1] == b"DEADLINE_SOON\r\n"
    client.send(b"delete 1\r\n")
    server.clock.advance(41)
    assert other.line() == b"TIMED_OUT\r\n"


def test_a_clock_that_stands_still_moves_only_when_it_is_advanced(server: BeanstalkServer) -> None:
    server.clock.freeze()
    before = server.clock.seconds
    server.clock.freeze()
    server.jobs()
    assert server.clock.seconds == pytest.approx(before, abs=0.001)
    server.clock.advance(7)
    assert server.clock.seconds == pytest.approx(before + 7, abs=0.001)


def test_a_clock_that_flows_can_be_moved_too(server: BeanstalkServer, client: Client) -> None:
    client.send(PUT + b"reserve\r\n")
    assert [client.line(), client.line()] == [b"INSERTED 1\r\n", b"RESERVED 1 5\r\n"]
    server.clock.advance(60)
    assert server.jobs()[0].timeouts == 1


def test_a_clock_goes_on_from_where_it_stood(server: BeanstalkServer) -> None:
    server.clock.freeze()
    stood = server.clock.seconds
    server.clock.advance(100)
    server.clock.flow()
    server.clock.flow()
    server.wait_until(lambda: server.clock.seconds > stood + 100.01)
    assert server.clock.seconds < stood + 3600


def test_an_overdue_timer_does_not_spoil_the_order(
    server: BeanstalkServer, client: Client, other: Client
) -> None:
    server.clock.freeze()
    for delay in (30, 20, 10):
        client.ask(b"put 0 %d 60 2\r\n%d\r\n" % (delay, delay))
    other.send(b"reserve\r\nreserve\r\nreserve\r\n")
    server.wait_until(lambda: server.waiting == 1)

    def move_unseen() -> None:
        server._shown.forward(15 * 10**9)
        server._move(15 * 10**9)

    server._run(move_unseen)
    bodies = [(other.line(), other.line())[1] for _ in range(3)]
    assert bodies == [b"10\r\n", b"20\r\n", b"30\r\n"]


def test_all_is_the_same_where_there_is_no_epoll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "poller", loop.Levels)
    with reference_server.running() as server:
        server.clock.freeze()
        with contextlib.closing(Client(server)) as client:
            client.send((b"put 0 60 60 60000\r\n" + b"x" * 60_000 + b"\r\n") * 10)
            client.send(b"reserve\r\n")
            assert len(server.jobs(state="delayed")) == 10
            server.clock.advance(60)
            assert [job.state for job in server.jobs()] == ["reserved", *["ready"] * 9]
            server.slow(10_000)
            client.send(b"quit\r\n")
            assert client.rest().startswith(b"INSERTED 1\r\n")
