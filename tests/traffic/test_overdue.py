"""Overdue replies: they are noticed while others are served, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.traffic.events import Kind
from conformance.traffic.judge import TrafficJudge
from reference_server.state import SECOND
from tests.traffic.served_traffic import WHILE, Traffic

PUT = (b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")


@pytest.mark.parametrize(
    ("said", "due", "expected"),
    [
        ((b"peek 5\r\n",), 0, "a reply"),
        ((b"x\r\n",), 0, "a reply"),
        ((b"reserve-with-timeout 20\r\n",), 20, "a reply within 20 s"),
        ((b"peek 5\r\n", b"NOT_FOUND\r\n", b"peek 6\r\n"), 0, "a reply"),
        ((*PUT, b"reserve\r\n"), 0, "RESERVED: job 1 is ready in default"),
        (
            (*PUT, b"reserve\r\n", b"RESERVED 1 1\r\nx\r\n", b"reserve\r\n"),
            60,
            "DEADLINE_SOON before the TTR of job 1 ends",
        ),
    ],
)
def test_a_reply_that_does_not_come(said: tuple[bytes, ...], due: int, expected: str) -> None:
    judge = TrafficJudge(overdue="server")
    traffic, alarms = Traffic(judge.take), judge.known.alarms
    traffic.say(*said)
    traffic.serve(due + WHILE - 5)
    assert not alarms.counts["server"]
    traffic.serve(2 * WHILE)
    (alarm,) = [one for one in alarms.kept if one.about == "server"]
    assert alarm.expected == expected
    assert alarm.connection == "client-1"
    assert "no reply for" in alarm.sentence


def test_a_far_server_is_suspected() -> None:
    judge = TrafficJudge()
    traffic = Traffic(judge.take)
    traffic.say(b"peek 5\r\n")
    traffic.serve(2 * WHILE)
    (alarm,) = judge.known.alarms.kept
    assert alarm.about == "suspicion"
    assert not judge.known.alarms.are_real


WAIT = b"reserve-with-timeout 1\r\n"


def is_stopped(traffic: Traffic) -> None:
    traffic.say(WAIT)
    for _ in range(10):
        traffic.now += 100 * SECOND
        traffic.serve(1)


def is_slow(traffic: Traffic) -> None:
    """Let the network delay all replies by a minute, in which others ask again and again."""
    traffic.say(WAIT)
    for second in range(5 * WHILE):
        traffic.now += SECOND
        traffic.event(2, Kind.SENT, b"list-tube-used\r\n")
        if second >= 60:
            traffic.event(2, Kind.RECEIVED, b"USING default\r\n")


def serves_no_other(traffic: Traffic) -> None:
    traffic.say(WAIT)
    traffic.now += 10_000 * SECOND
    traffic.say(WAIT, conn=2)


def client_does_not_read(traffic: Traffic) -> None:
    traffic.say(WAIT)
    traffic.event(1, Kind.BLOCKED)
    traffic.serve(3 * WHILE)
    traffic.event(1, Kind.UNBLOCKED)
    traffic.serve(WHILE - 5)


def client_has_half_closed(traffic: Traffic) -> None:
    traffic.say(b"peek 5\r\n")
    traffic.event(1, Kind.CLIENT_ENDED)
    traffic.serve(3 * WHILE)


def body_is_not_sent(traffic: Traffic) -> None:
    traffic.say(b"put 0 0 60 9\r\nabc")
    traffic.serve(3 * WHILE)


def reply_comes_in_parts(traffic: Traffic) -> None:
    traffic.say(*PUT, b"peek 1\r\n")
    for byte in b"FOUND 1 1\r\nx\r\n":
        traffic.serve(WHILE - 5)
        traffic.event(1, Kind.RECEIVED, bytes([byte]))


def waits_for_ever(traffic: Traffic) -> None:
    traffic.say(b"reserve\r\n")
    traffic.serve(5 * WHILE)


def tube_is_paused(traffic: Traffic) -> None:
    traffic.say(*PUT, b"pause-tube default 200\r\n", b"PAUSED\r\n", b"reserve\r\n")
    traffic.serve(3 * WHILE)


def job_is_in_another_tube(traffic: Traffic) -> None:
    traffic.say(b"use mail\r\n", b"USING mail\r\n", *PUT, b"reserve\r\n")
    traffic.serve(3 * WHILE)


def job_is_delayed(traffic: Traffic) -> None:
    traffic.say(b"put 0 900 60 1\r\nx\r\n", b"INSERTED 1\r\n", b"reserve\r\n")
    traffic.serve(3 * WHILE)


def another_may_have_got_the_job(traffic: Traffic) -> None:
    """Let client 3 wait, too, which does not read."""
    traffic.event(3, Kind.OPENED)
    traffic.say(b"reserve\r\n", conn=3)
    traffic.event(3, Kind.BLOCKED)
    traffic.say(*PUT, b"reserve\r\n")
    traffic.serve(3 * WHILE)


def another_has_gone(traffic: Traffic) -> None:
    traffic.event(3, Kind.OPENED)
    traffic.say(b"reserve\r\n", conn=3)
    traffic.say(*PUT)
    traffic.event(3, Kind.RESET, b"client")
    traffic.say(b"reserve\r\n")
    traffic.serve(3 * WHILE)


def job_is_touched(traffic: Traffic) -> None:
    traffic.say(*PUT, b"reserve\r\n", b"RESERVED 1 1\r\nx\r\n")
    for _ in range(3):
        traffic.serve(50)
        traffic.say(b"touch 1\r\n", b"TOUCHED\r\n")
    traffic.say(b"reserve\r\n")
    traffic.serve(60)


def job_is_deleted(traffic: Traffic) -> None:
    got = b"reserve\r\n", b"RESERVED 1 1\r\nx\r\n", b"delete 1\r\n", b"DELETED\r\n"
    traffic.say(*PUT, *got, b"reserve\r\n")
    traffic.serve(60 + 3 * WHILE)


def commands_are_pipelined(traffic: Traffic) -> None:
    """Let each of many take a while: the last one begins when all before it are answered."""
    traffic.say(b"reserve-with-timeout 20\r\n" * 5)
    for _ in range(5):
        traffic.serve(20)
        traffic.event(1, Kind.RECEIVED, b"TIMED_OUT\r\n")


def joins_with_a_request_in_flight(traffic: Traffic) -> None:
    traffic.event(1, Kind.DROPPED)
    traffic.serve(100)
    traffic.event(1, Kind.JOINED)
    now, traffic.now = traffic.now, 0
    traffic.say(b"reserve-with-timeout 50\r\n")
    traffic.now = now
    traffic.serve(50)


@pytest.mark.parametrize(
    "happens",
    [
        is_stopped,
        is_slow,
        serves_no_other,
        client_does_not_read,
        client_has_half_closed,
        body_is_not_sent,
        reply_comes_in_parts,
        waits_for_ever,
        tube_is_paused,
        job_is_in_another_tube,
        job_is_delayed,
        another_may_have_got_the_job,
        another_has_gone,
        job_is_touched,
        job_is_deleted,
        commands_are_pipelined,
        joins_with_a_request_in_flight,
    ],
)
def test_what_excuses_the_server(happens: Callable[[Traffic], None]) -> None:
    judge = TrafficJudge(overdue="server")
    happens(Traffic(judge.take))
    assert judge.known.alarms.kept == []
