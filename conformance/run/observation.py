"""The result of a test with its measurements, as it is sent between processes."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from pydantic import TypeAdapter

from conformance.run.attribution import Blame
from conformance.run.baseline import DeviationKind, KnownDeviation, is_known
from conformance.target.vitals import Vitals
from reports.results import TargetRecord, Test, WorldRecord

_NAME = "observation"
"""The property of a report that carries it."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The finding of a test on a target, and the measurements beside it.

    ``test``: not yet marked as blocked. ``blame``: the requirement that a failure breaks.
    ``health``: remarks on the target that change no verdict; ``worlds``: the small worlds that were
    visited; ``vitals`` are those of the servers that were started. ``selected``: not all tests
    were meant to be run. ``latencies`` and ``latenesses`` of replies, ``longest_wait`` for one of
    them and ``waited``, that is for all, are seconds of real time.
    """

    test: Test
    target: TargetRecord
    blame: Blame | None = None
    health: tuple[str, ...] = ()
    worlds: tuple[WorldRecord, ...] = ()
    vitals: tuple[Vitals, ...] = ()
    selected: bool = False
    latencies: tuple[float, ...] = ()
    latenesses: tuple[float, ...] = ()
    longest_wait: float = 0.0
    waited: float = 0.0

    @property
    def kind(self) -> DeviationKind | None:
        """The kind of its deviation, if it has one."""
        return DeviationKind.of(self.blame.step) if self.blame else None

    def is_known(
        self, baseline: Mapping[str, KnownDeviation], except_for: Container[str] = ()
    ) -> bool:
        """Return whether a baseline lists the deviation, for all requirements except these."""
        kinds = () if self.kind is None else (self.kind,)
        return all(
            slug in except_for or is_known(baseline, slug, self.test.verdict, kinds)
            for slug in self.test.requirements
        )

    def properties(self) -> list[tuple[str, Any]]:
        """Return the properties by which a report of pytest carries it."""
        return [(_NAME, _ADAPTER.dump_python(self, mode="json"))]


_ADAPTER = TypeAdapter(Observation)
_decoded: WeakKeyDictionary[pytest.TestReport, Observation] = WeakKeyDictionary()
"""As several ask for the same; beside the reports, which are sent to other processes."""


def observation_of(report: pytest.TestReport) -> Observation | None:
    """Return what a report carries; None if it is not of one of our tests."""
    if report.when != "call":
        return None
    if (known := _decoded.get(report)) is not None:
        return known
    carried: Mapping[str, Any] = dict(report.user_properties)
    if _NAME not in carried:
        return None
    _decoded[report] = _ADAPTER.validate_python(carried[_NAME])
    return _decoded[report]
