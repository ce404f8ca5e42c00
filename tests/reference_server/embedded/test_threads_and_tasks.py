"""Clients of the server for tests of applications, in threads and in tasks."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

import pytest

from reference_server import BeanstalkServer, loop
from tests.reference_server.embedded.client import PUT, Client


def test_clients_in_threads_are_served(server: BeanstalkServer, client: Client) -> None:
    server.clock.freeze()
    got: list[bytes] = []

    def work() -> None:
        with contextlib.closing(Client(server)) as own:
            got.append(own.ask(b"reserve-with-timeout 3600\r\n"))
            own.ask(b"delete 1\r\n")

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    server.wait_until(lambda: server.waiting == 8)
    client.ask(PUT)
    server.wait_until(lambda: len(got) == 1)
    server.clock.advance(3600)
    for worker in workers:
        worker.join(20)
    assert sorted(got) == [b"RESERVED 1 5\r\n", *[b"TIMED_OUT\r\n"] * 7]


def test_methods_may_be_called_from_many_threads(server: BeanstalkServer, client: Client) -> None:
    server.clock.freeze()
    before = server.clock.seconds
    threads = [threading.Thread(target=server.clock.advance, args=[10]) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert server.clock.seconds == pytest.approx(before + 100, abs=0.01)


def test_clients_in_tasks_are_served(server: BeanstalkServer) -> None:
    server.clock.freeze()

    async def ask(data: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(data)
        line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return line

    async def talk() -> None:
        waiting = asyncio.create_task(ask(b"reserve-with-timeout 60\r\n"))
        await asyncio.to_thread(server.wait_until, lambda: server.waiting == 1)
        server.clock.advance(60)
        assert await waiting == b"TIMED_OUT\r\n"
        assert await ask(PUT) == b"INSERTED 1\r\n"

    asyncio.run(talk())


def test_a_client_that_never_stops_does_not_hold_up_the_test(
    monkeypatch: pytest.MonkeyPatch, server: BeanstalkServer
) -> None:
    monkeypatch.setattr(loop, "_BUSY_ROUNDS", 10)
    stopped = threading.Event()

    def read(client: Client) -> None:
        while client.socket.recv(65536):
            pass

    def flood() -> None:
        with contextlib.closing(Client(server)) as client:
            reading = threading.Thread(target=read, args=[client])
            reading.start()
            while not stopped.is_set():
                client.send(b"list-tube-used\r\n" * 1000)
            client.socket.shutdown(socket.SHUT_WR)
            reading.join(20)

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        for _ in range(3):
            assert server.jobs() == []
    finally:
        stopped.set()
        thread.join(20)


def test_a_server_that_is_busy_says_so_and_shows_its_transcript(
    monkeypatch: pytest.MonkeyPatch, server: BeanstalkServer, client: Client
) -> None:
    released = threading.Event()
    client.ask(PUT)
    server.jobs()
    monkeypatch.setattr("reference_server.loop_thread.TIMEOUT", 0.01)
    server._thread.loop.call_soon(released.wait)
    with pytest.raises(TimeoutError, match=r"the server has been busy for 0\.01 seconds"):
        server.jobs()
    assert server.transcript.startswith("A > put 0 0 60 5")
    released.set()
    monkeypatch.undo()
    assert len(server.jobs()) == 1
