"""What is different after an upgrade: the older version itself is the measure."""

from __future__ import annotations

import pytest

from conformance.durability.inspection import Inventory
from conformance.durability.upgrades import changed

JOB = {"id": "1", "body": "a", "tube": "t", "state": "buried", "pri": "5", "delay": "0"}
LATE = {**JOB, "id": "2", "state": "delayed", "delay": "90", "time-left": "80"}
OLDER = Inventory("", "", 100.0, 101.0, {1: JOB, 2: LATE}, 2, {"t": [1, 3]})


def _newer(**changes: object) -> Inventory:
    """Return what a newer version has 20 seconds later, as it should but for these changes."""
    counted = {"reserves": "7", "file": "1"}
    fields: dict[str, object] = {
        "began": 120.0,
        "ended": 121.0,
        "jobs": {1: {**JOB, **counted}, 2: {**LATE, "time-left": "60"}},
        "buried": {"t": [1, 3]},
    }
    return Inventory(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({}, ""),
        ({"ending": "exited with status 1"}, ""),
        ({"ending": "ended by SIGSEGV"}, "the server ended by SIGSEGV"),
        ({"jobs": {2: LATE}}, "a job is lost"),
        ({"jobs": {1: JOB, 2: {**LATE, "time-left": "60"}, 3: JOB}}, "a job was not there"),
        ({"jobs": {1: {**JOB, "pri": "6"}, 2: {**LATE, "time-left": "60"}}}, "another pri"),
        ({"jobs": {1: JOB, 2: {**LATE, "time-left": "64"}}}, ""),
        ({"jobs": {1: JOB, 2: {**LATE, "time-left": "65"}}}, "another end of the delay"),
        ({"jobs": {1: JOB, 2: {**LATE, "time-left": "x"}}}, ""),
        ({"buried": {"t": [3, 1]}}, "buried jobs in another order"),
    ],
)
def test_what_an_upgrade_changes(changes: dict[str, object], cause: str) -> None:
    found = [one.cause for one in changed(OLDER, _newer(**changes))]
    assert found[:1] == ([cause] if cause else [])
