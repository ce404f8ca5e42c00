"""Faults that cost time or memory are found by their exponents; without them, nothing is."""

from __future__ import annotations

import pytest

from conformance.scale.results import measured_server
from conformance.scale.workloads import Growth
from tests.parts import sample
from tests.scale.cost_faults import FAULTS, CommandsAreKept, CostFault
from tests.scale.counted_server import measured, subject

INHERENT = {
    ("reserve", Growth.WATCHED),
    ("reserve in vain", Growth.WATCHED),
    ("stats", Growth.IDLE),
    ("stats", Growth.WAITING),
}
"""The commands of the reference server that look at each watched tube or connection."""


@pytest.mark.parametrize("fault", sample(FAULTS, 5, lambda fault: fault.summary))
def test_a_fault_that_costs_time_is_found_by_its_exponent(fault: CostFault) -> None:
    found = subject(fault.grows, fault.model, fault.command, fault.largest)
    server = measured_server(found)
    steep = {curve.command: curve for curve in server.curves if curve.is_steep}
    assert server.violations == []
    exponent = steep[fault.command].exponent
    assert exponent is not None
    assert exponent.low - 0.15 < fault.exponent < exponent.high + 0.25
    assert any(fault.command in finding for finding in server.findings)


@pytest.mark.parametrize("grows", Growth)
def test_the_reference_server_has_no_finding(grows: Growth) -> None:
    server = measured_server(subject(grows))
    assert server.violations == []
    steep = {(curve.command, curve.grows) for curve in server.curves if curve.is_steep}
    assert steep <= INHERENT
    assert len(server.findings) == len({growth for _, growth in steep})
    assert server.curves


def test_memory_that_is_kept_for_each_past_job_is_found() -> None:
    kept = measured_server(subject(Growth.PAST, CommandsAreKept, "put", 2430))
    assert [finding for finding in kept.findings if "kept for each job" in finding]
    usual = measured_server(subject(Growth.PAST, command="put", largest=2430))
    assert usual.findings == []


def test_the_cost_of_a_model_is_the_same_each_time() -> None:
    once, again = (measured(Growth.DELAYED, command="kick-job") for _ in range(2))
    assert once.costs("kick-job") == again.costs("kick-job")
