"""What is different after an upgrade: the older version itself is the measure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.durability.inspection import Inventory
from conformance.durability.upgrades import changed

JOB = {"id": "1", "body": "a", "tube": "t", "state": "buried", "pri": "5", "delay": "0"}
LATE = {**JOB, "id": "2", "state": "delayed", "delay": "90", "time-left": "80"}
OLDER = Inventory("", "", 100.0, 101.0, {1: JOB, 2: LATE}, 2, {"t": [1, 3]})


NEWER = Inventory(
    *("", "", 120.0, 121.0),
    {1: {**JOB, "reserves": "7", "file": "1"}, 2: {**LATE, "time-left": "60"}},
    buried={"t": [1, 3]},
)
"""What a newer version has 20 seconds later, as it should."""


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
def test_what_an_upgrade_changes(changes: dict[str, Any], cause: str) -> None:
    found = [one.cause for one in changed(OLDER, replace(NEWER, **changes))]
    assert found[:1] == ([cause] if cause else [])


def test_a_field_that_the_older_version_does_not_show_is_not_compared() -> None:
    older = replace(OLDER, jobs={1: {key: JOB[key] for key in ("body", "state")}, 2: LATE})
    assert [*changed(older, NEWER)] == []
