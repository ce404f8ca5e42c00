"""The jobs and the transcript that the server for tests of applications shows."""

from __future__ import annotations

import socket

import pytest

from conformance.oracle.check import check
from conformance.reading import parse
from reference_server import BeanstalkServer
from reference_server.embedded.conversation import SHOWN, EmbeddedTranscript
from reference_server.profiles import PROFILES
from tests.reference_server.embedded.client import PUT, Client


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
