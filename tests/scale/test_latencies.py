"""Latencies count from when a request was due; histograms keep them in little memory."""

from __future__ import annotations

import math
import random

import pytest

from conformance.scale import populated_server as site_module
from conformance.scale.histogram import Histogram
from conformance.scale.populated_server import PopulatedServer
from conformance.scale.servers import BatchWire
from conformance.scale.workloads import Growth, cycle
from reference_server.model import Model
from tests.scale.counted_server import CountedServer


@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
def test_quantiles_are_exact_to_a_hundredth(spread: float) -> None:
    chance = random.Random(spread)
    values = sorted(chance.lognormvariate(-7, spread) for _ in range(20_000))
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    for share in (0.5, 0.99, 0.999):
        exact = values[math.ceil(share * len(values)) - 1]
        assert histogram.quantile(share) == pytest.approx(exact, rel=0.01)
    assert histogram.longest == values[-1]


def test_too_few_latencies_have_no_high_quantile() -> None:
    histogram = Histogram()
    for _ in range(100):
        histogram.add(0.001)
    assert histogram.quantile(0.99) == pytest.approx(0.001, rel=0.01)
    assert histogram.quantile(0.999) is None


class FakeTime:
    """A clock that is moved by whoever waits; each sleep takes a millisecond too long."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    monotonic = process_time = perf_counter

    def sleep(self, seconds: float) -> None:
        self.now += seconds + 0.001


class StallingServer(CountedServer):
    """A server that takes a millisecond for each request, and once a second."""

    def __init__(self, time: FakeTime) -> None:
        super().__init__(Model)
        self.time, self.requests = time, 0

    def connect(self) -> BatchWire:
        wire = super().connect()
        receive = wire.receive_within

        def stalling(seconds: float) -> bytes:
            self.requests += 1
            self.time.now += 1.0 if self.requests == 10 else 0.001
            return receive(seconds)

        wire.receive_within = stalling  # type: ignore[method-assign]
        return wire


def test_a_stall_delays_all_requests_that_were_due_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time = FakeTime()
    monkeypatch.setattr(site_module, "time", time)
    server = StallingServer(time)
    site = PopulatedServer(server, Growth.READY, 10.0)
    latencies: list[float] = []
    site.pace(cycle("list-tube-used"), 0.1, 3.0, lambda name, took: latencies.append(took))
    stalled = sorted((took for took in latencies if took > 0.0015), reverse=True)
    # A client that waits for each reply would have seen one slow request, not eleven.
    assert stalled == pytest.approx(
        [1.0, *(1.0 - 0.1 * n + 0.001 * (n + 1) for n in range(1, 11))], abs=0.003
    )
    # That each sleep is a millisecond too long is our fault.
    assert min(latencies) == pytest.approx(0.001)
    assert len(latencies) == pytest.approx(30, abs=1)
