"""The server for tests of applications: clock, jobs, transcript, and misbehaviour on demand."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

import reference_server
from conformance.oracle.check import check
from conformance.reading import parse
from reference_server import BeanstalkServer, loop
from reference_server.embedded.conversation import SHOWN, EmbeddedTranscript
from reference_server.faults import FAULTS
from reference_server.profiles import PROFILES

PUT = b"put 0 0 60 5\r\nhello\r\n"


@pytest.fixture
def server() -> Iterator[BeanstalkServer]:
    with reference_server.running() as running:
        yield running


class Client:
    """A client that sends and reads bytes."""

    def __init__(self, server: BeanstalkServer) -> None:
        self.socket = socket.create_connection(server.address, 20)
        self._file = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def line(self) -> bytes:
        """Return the next line; empty at the end of the connection."""
        return self._file.readline()

    def rest(self) -> bytes:
        """Return what arrives until the connection ends."""
        return self._file.read()

    def ask(self, data: bytes) -> bytes:
        self.send(data)
        return self.line()

    def close(self) -> None:
        self._file.close()
        self.socket.close()


@pytest.fixture
def client(server: BeanstalkServer) -> Iterator[Client]:
    with contextlib.closing(Client(server)) as client:
        yield client


@pytest.fixture
def other(server: BeanstalkServer) -> Iterator[Client]:
    with contextlib.closing(Client(server)) as client:
        yield client


# ---------------------------------------------------------------- start and stop


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


# ---------------------------------------------------------------- the clock


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


# ---------------------------------------------------------------- jobs and transcript


def test_jobs_are_shown_as_they_are(server: BeanstalkServer, client: Client) -> None:
    server.clock.freeze()
    client.send(b"use mail\r\nwatch mail\r\nput 7 0 60 1\r\na\r\nput 8 5 30 1\r\nb\r\n")
    client.send(b"reserve\r\nrelease 1 9 0\r\nreserve\r\nbury 1 3\r\nuse other\r\n" + PUT)
    first, second = server.jobs(tube="mail")
    assert (first.id, first.tube, first.state, first.body) == (1, "mail", "buried", b"a")
    assert (first.priority, first.ttr, first.reserves, first.releases) == (3, 60, 2, 1)
    assert (first.buries, first.kicks, first.timeouts) == (1, 0, 0)
    assert (second.state, second.delay, round(second.time_left)) == ("delayed", 5, 5)
    assert server.jobs(state="buried") == [first]
    assert [job.tube for job in server.jobs()] == ["mail", "mail", "other"]
    assert server.jobs(tube="nobody") == []


def test_all_that_was_sent_is_seen_though_no_reply_was_read(
    server: BeanstalkServer, client: Client
) -> None:
    big = b"put 0 0 60 60000\r\n" + b"x" * 60_000 + b"\r\n"
    client.send(big * 20)
    assert len(server.jobs()) == 20


def test_a_transcript_is_one_that_the_oracle_allows(
    server: BeanstalkServer, client: Client, other: Client
) -> None:
    server.clock.freeze()
    client.ask(PUT)
    other.send(b"reserve\r\nreserve\r\n")
    server.clock.advance(60)
    server.drain()
    client.ask(PUT)
    client.close()
    server.wait_until(lambda: "A ! closes" in server.transcript)
    text = server.transcript
    assert "+ 59s at once\nB < DEADLINE_SOON\\r\\n\n+ 1s at once\n! SIGUSR1\n" in text
    assert check(parse(text), PROFILES["1.13"]) is None
    server.next_reply("NOT_FOUND")
    other.send(b"list-tube-used\r\n")
    server.wait_until(lambda: server.waiting == 0)
    assert check(parse(server.transcript), PROFILES["1.13"]) is not None


def test_a_client_that_is_answered_after_its_end_has_half_closed(
    server: BeanstalkServer, client: Client
) -> None:
    server.clock.freeze()
    client.send(b"reserve-with-timeout 60\r\n")
    server.wait_until(lambda: server.waiting == 1)
    client.socket.shutdown(socket.SHUT_WR)
    assert client.rest() == b"TIMED_OUT\r\n"
    assert server.transcript.splitlines()[-3:] == [
        "A ! half-closes",
        r"A < TIMED_OUT\r\n",
        "A ! closed by the target",
    ]


def test_a_long_conversation_is_shown_from_near_its_end(
    server: BeanstalkServer, client: Client
) -> None:
    server.clock.freeze()
    for _ in range(SHOWN):
        client.ask(b"list-tube-used\r\n")
    client.ask(b"put 0 0 60 1000\r\n" + b"x" * 1000 + b"\r\n")
    shown = server.transcript_tail
    assert len(shown.splitlines()) == SHOWN + 1
    assert f"{SHOWN + 2:,} messages" in shown
    assert "more bytes" in shown
    assert max(map(len, shown.splitlines())) < 300
    assert len(server.transcript.splitlines()) == 2 * SHOWN + 2


def test_a_conversation_without_end_is_forgotten_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reference_server.embedded.conversation.BYTES_LIMIT", 1000)
    kept = EmbeddedTranscript()
    for number in range(1000):
        kept.sent_by_client("A", b"peek %d\r\n" % number, number)
    lines = kept.text().splitlines()
    assert lines[0].endswith("earlier messages were not kept")
    assert lines[-1] == r"A > peek 999\r\n"
    assert int(lines[0].split()[1].replace(",", "")) + len(lines) - 1 == 1000
    assert len(lines) < 200


# ---------------------------------------------------------------- misbehaviour


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


# ---------------------------------------------------------------- threads and tasks


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


# ---------------------------------------------------------------- wrong input


WRONG: list[tuple[Callable[[BeanstalkServer], object], str]] = [
    (lambda server: server.next_reply("OUT_OF_MEM"), "'OUT_OF_MEM' is no reply of the protocol: "),
    (lambda server: server.next_reply(""), "'' is no reply of the protocol: "),
    (lambda server: server.next_reply("INSERTED"), "'INSERTED' is no reply of the protocol: "),
    (lambda server: server.next_reply("TOUCHED\r\nTOUCHED"), "is no reply of the protocol: "),
    (lambda server: server.next_reply("RESERVED 1 5\r\nhi"), "is no reply of the protocol: "),
    (lambda server: server.next_reply("NOT_FOUND", to="destroy"), "'destroy' is no command "),
    (lambda server: server.next_reply("NOT_FOUND", to="quit"), "'quit' is no command "),
    (lambda server: server.drop_connection(after=b""), "after one byte or more, not after none"),
    (lambda server: server.slow(0), "sends more than 0 bytes a second, not 0"),
    (lambda server: server.slow(-1.5), "sends more than 0 bytes a second, not -1.5"),
    (lambda server: server.slow(float("nan")), "sends more than 0 bytes a second, not nan"),
    (lambda server: server.clock.advance(-1), "advanced by 0 to 2\\*\\*32 seconds, not by -1"),
    (lambda server: server.clock.advance(float("inf")), "seconds, not by inf"),
    (lambda server: server.jobs(state="lost"), "no job is 'lost': its state is one of ready, "),
    (lambda server: server.wait_until(lambda: True, -1), "nobody can wait -1 seconds"),
    (
        lambda server: server.inject_fault("the-last-watched-tube-can-be-ignore"),
        "there is no fault .*; is it 'the-last-watched-tube-can-be-ignored'\\?",
    ),
    (lambda _: BeanstalkServer(fault="?"), "^there is no fault '\\?'$"),
    (lambda _: BeanstalkServer(profile="2.0"), "there is no profile '2.0'"),
    (lambda _: BeanstalkServer(max_job_size=-1), "a job has 0 to 2\\*\\*30 bytes, not -1"),
]


@pytest.mark.parametrize(("call", "sentence"), WRONG)
def test_wrong_input_is_named_in_one_sentence(
    server: BeanstalkServer, call: Callable[[BeanstalkServer], object], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence) as raised:
        call(server)
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_condition_that_is_never_true_is_reported(server: BeanstalkServer) -> None:
    with pytest.raises(TimeoutError, match=r"did not become true within 0\.01 seconds"):
        server.wait_until(lambda: False, 0.01)


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'walking'"):
        reference_server.walking  # noqa: B018
