"""The load of a run on the server of others: announced as it is, and limited if that is asked."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import astuple

import pytest

from conformance import yamlish
from conformance.run.load import QUICK, Load, measured
from conformance.target.address import ask
from conformance.target.builtin import BuiltIn
from conformance.target.command_rate import COMMAND_RATE, CommandRate
from conformance.target.transport import Transport
from tests.command_line import FAST, refuses, suite
from tests.load import KINDS, measure
from tests.servers import needs_beanstalkd

FACTOR = 3
"""Times more, or less, that a run may send: what fits into the time of random tests varies."""


@pytest.mark.campaign
@needs_beanstalkd
def test_a_quick_run_is_as_large_as_announced() -> None:
    announced = measured()[QUICK]
    found, output = measure(*KINDS[QUICK])
    assert announced.sentence(is_gentle=False) in output
    # A busy machine takes longer.
    for real, expected in zip(astuple(found)[:3], astuple(announced)[:3], strict=True):
        assert expected / FACTOR < real < expected * FACTOR


def test_the_load_is_a_line() -> None:
    load = Load(123_456, 5_432, 9, 45)
    amount = "about 120,000 commands, 5,400 connections and 9 jobs"
    begin = f"load to expect, at most: {amount} in "
    assert load.sentence(is_gentle=False) == f"{begin}45 seconds; --gentle limits the rate"
    gentle = load.sentence(is_gentle=True)
    assert gentle == f"{begin}120 seconds; 1,000 commands a second on average"


def test_what_is_launched_is_not_announced_and_not_spared() -> None:
    done = suite(FAST, "-v")
    assert done.returncode == 0
    assert "load to expect" not in done.stdout
    refuses(suite(FAST, "--gentle"), "--gentle needs --target")


def test_no_more_commands_are_sent_than_the_pace_allows() -> None:
    pace = CommandRate()
    pace.rate = 2000
    begun = time.monotonic()
    for _ in range(5):
        pace.sends(b"stats\r\n" * 100)
        # What sends is not held up: a test may be measuring time.
        pace.begin()
    assert time.monotonic() - begun >= 500 / 2000


def test_what_is_sent_does_not_wait() -> None:
    pace = CommandRate()
    pace.rate = 0.001
    done = threading.Thread(target=pace.sends, args=(b"stats\r\n" * 100,), daemon=True)
    done.start()
    done.join(60)
    assert not done.is_alive()


def test_without_a_rate_nothing_waits() -> None:
    pace = CommandRate()
    pace.sends(b"stats\r\n" * 10**6)
    assert pace.begin() == 0


def test_a_transport_counts_what_it_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    monkeypatch.setattr(COMMAND_RATE, "sends", sent.append)
    with closing(BuiltIn()) as server, server.connect() as transport:
        assert isinstance(transport, Transport)
        transport.send(b"stats\r\n")
    assert b"stats\r\n" in sent


def test_a_gentle_run_is_as_slow_as_it_says() -> None:
    with closing(BuiltIn()) as server:
        assert isinstance(server.address, tuple)
        host, port = server.address
        chosen = [f"--target={host}:{port}", "-k", "test_arguments or test_use", "-vv"]
        begun = time.monotonic()
        done = suite(*chosen, "--gentle", "-n2")
        passed = time.monotonic() - begun
        with server.connect() as client:
            stats = yamlish.dictionary(ask(client, b"stats", 10.0).body or b"")
    assert done.returncode == 0, done.stdout
    assert "1,000 commands a second on average" in done.stdout
    commands = sum(int(count) for key, count in stats.items() if key.startswith("cmd-"))
    assert commands > 1000
    assert commands / passed < 1000
