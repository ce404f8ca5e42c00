"""The model as a server in this process; its cost is the number of lines of Python that it runs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from conformance.scale.measuring import Effort, GrowthCosts, ScaleCampaign, Subject
from conformance.scale.servers import BatchWire
from conformance.scale.workloads import WORKLOADS, Growth
from conformance.target.starvation import CpuTime
from reference_server.clock import MovableClock
from reference_server.engine import Engine, RecordingLink
from reference_server.model import Model


class CountedServer:
    """A server that costs the same on any machine.

    To count takes long: it is done only between a reading of the cost and the next one.
    """

    unit = "lines"
    is_shared = False

    def __init__(self, model: type[Model]) -> None:
        self.clock = MovableClock(flows=False)
        self.engine = Engine(model(), self.clock)
        self._lines = 0
        self._counts = False

    def connect(self) -> BatchWire:
        return CountedWire(self)

    def first(self, wires: Sequence[BatchWire], seconds: float) -> Sequence[BatchWire]:
        return [wire for wire in wires if isinstance(wire, CountedWire) and wire.link.sent]

    def now(self) -> float:
        return self.clock.now / 1e9

    def spent(self) -> CpuTime:
        self._counts = not self._counts
        return CpuTime(float(self._lines))

    def memory(self) -> int:
        """Return the bytes of everything that the model refers to."""
        found: set[int] = set()
        left: list[Any] = [vars(self.engine.model)]
        size = 0
        while left:
            one = left.pop()
            if id(one) not in found and not isinstance(one, type | Callable):
                found.add(id(one))
                size += sys.getsizeof(one)
                left += gc.get_referents(one)
        return size

    def status(self) -> str:
        return ""

    def close(self) -> None:
        self.engine.close()

    def counted(self, act: Callable[[], object]) -> None:
        """Do something, and count the lines that are run, if it is a part of a measurement."""
        if not self._counts:
            act()
            return
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            act()
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            self._lines += 1
        return self._trace


class CountedWire:
    """A connection to it."""

    def __init__(self, server: CountedServer) -> None:
        self._server = server
        self.link = RecordingLink()
        self.ended = False
        server.counted(self._connect)

    def _connect(self) -> None:
        self._number = self._server.engine.connect(self.link)

    def send(self, data: bytes) -> None:
        self._server.counted(lambda: self._server.engine.receive(self._number, data))

    def receive_within(self, seconds: float) -> bytes:
        if not self.link.sent and not self.link.is_closed:
            # A delay is all that a client of it ever waits for.
            self._server.clock.forward(1_000_000_000)
            self._server.engine.tick()
        data, self.link.sent = self.link.sent, b""
        self.ended = self.link.is_closed and not data
        return data

    def close(self) -> None:
        self._server.engine.lost(self._number)


def subject(
    growth: Growth, model: type[Model] = Model, command: str = "", largest: int = 90
) -> Subject:
    """Return a model that was measured; ``command``: only by the first row that has it."""
    rows = [row for row in WORKLOADS if row.grows is growth]
    if command:
        rows = [r for r in rows if any(s.name == command and s.is_measured for s in r.steps)][:1]
    found = Subject("counted", "", lambda: CountedServer(model), False)
    effort = Effort(1000.0, largest, fewest=2, most=2, factor=3, batch=1000.0)
    ScaleCampaign([found], effort, workloads=rows).run()
    return found


def measured(growth: Growth, command: str) -> GrowthCosts:
    """Return what is measured of the reference server by a row."""
    return subject(growth, command=command).measured[growth]
