"""What is different after an upgrade: the older version itself is the measure."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import main
from conformance.console import crashing
from conformance.durability.inspection import Inventory
from conformance.durability.scenes import scenes
from conformance.durability.upgrades import changed
from tests.crash_faults import COMMAND
from tests.servers import needs_strace

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


@needs_strace
def test_a_lost_job_is_shown_with_the_commands_about_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crashing, "scenes", lambda *asked: scenes(*asked)[:1])
    newer = f"{COMMAND} --fault a-job-that-an-older-version-has-kept-is-lost"
    words = ["durability", "--launch", newer, "--older", COMMAND, "--folder", str(tmp_path)]
    main([*words, "--states=1", "--kills=0", "--damages=0"])
    said = capsys.readouterr().out
    (finding,) = re.findall(r"deviation: durability.upgrade: .*\n((?:  .*\n)+)", said)
    first, *_, files = finding.splitlines()
    assert re.fullmatch(r"  … \d+ commands? …|  A > put .*", first)
    assert "  A < INSERTED " in finding
    assert files.startswith("  the files: ")
