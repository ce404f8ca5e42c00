"""Crashes of real servers: kills under load, damaged files, two servers on one folder."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.durability.damage import damages, wrong
from conformance.durability.disk import Content
from conformance.durability.inspection import Question, Seen
from conformance.durability.kills import kills
from conformance.durability.rivals import rivals
from conformance.target.limits import USUAL
from reference_server.profiles import NEWEST
from tests.servers import BEANSTALKD

COMMAND = f"{BEANSTALKD} -l {{host}} -p {{port}} -b {{binlog}} -s 4096 -f 0"
QUESTION = Question(COMMAND, NEWEST, USUAL, (), ())
needs_beanstalkd = pytest.mark.skipif(
    not (BEANSTALKD and shutil.which("strace")), reason="no beanstalkd, or no strace"
)


def test_each_byte_and_each_number_is_damaged() -> None:
    files = {"log": Content.of(b"abcdefgh"), "lock": Content.of(b"")}
    found = {damage.words: damage.files for damage in damages(files)}
    assert found["byte 2 of log flipped"]["log"].bytes() == b"ab\x9cdefgh"
    assert found["4294967295 in the 32 bits at 4 of log"]["log"].bytes() == b"abcd" + b"\xff" * 4
    assert sum("flipped" in words for words in found) == 8
    assert list(found["no log"]) == ["lock"]
    assert "log/file" in found["a folder in place of log"]


@pytest.mark.parametrize(
    ("seen", "causes"),
    [
        (Seen(fate="exited with status 1 before it listened"), []),
        (Seen(fate="ended by SIGSEGV before it listened"), 1),
        (Seen(fate="did not listen within 8 seconds"), 1),
        (Seen(jobs={1: {"body": "a"}}), []),
        (Seen(jobs={1: {"body": "b"}}), 1),
        (Seen(jobs={2: {"body": "a"}}), 1),
    ],
)
def test_damaged_files_end_a_server_with_a_message_or_it_goes_on(
    seen: Seen, causes: list[str] | int
) -> None:
    assert len(list(wrong(seen, {1: "a"}))) == (causes or 0)


@needs_beanstalkd
def test_beanstalkd_refuses_a_folder_that_another_one_uses() -> None:
    assert list(rivals(QUESTION)) == []


@needs_beanstalkd
def test_beanstalkd_keeps_its_jobs_when_it_is_killed_under_load() -> None:
    done = kills(QUESTION, 3, lambda _: None)
    assert done.count == 3
    assert done.commands > 10
    causes = {case.difference.requirement for case in done.cases}
    assert causes <= {"persistence.release-priority", "persistence.buries"}


FORGETFUL = """
    import sys
    from pathlib import Path

    (Path(sys.argv.pop()) / "log").write_bytes(b"here")

    import reference_server.__main__
"""


@needs_beanstalkd
def test_a_server_that_forgets_all_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "server.py"
    program.write_text(textwrap.dedent(FORGETFUL), encoding="utf-8")
    command = f"{sys.executable} {program} --host {{host}} --port {{port}} {{binlog}}"
    words = ["--states", "1", "--kills", "0", "--damages", "0", "--jobs", "1"]
    folder = tmp_path / "found"
    assert main(["durability", "--launch", command, "--folder", str(folder), *words]) == 0
    said = capsys.readouterr().out
    assert "non-strict: durability.power-loss: a job is lost" in said or "persistence.put" in said
    told = json.loads((folder / "durability.json").read_text(encoding="utf-8"))
    assert "incomplete" in told["verdict"]
    assert told["findings"]
    again = ["durability", "--launch", command, "--folder", str(folder), "--resume", *words]
    assert main(again) == 0
    assert "a second" not in capsys.readouterr().out
