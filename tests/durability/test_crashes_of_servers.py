"""Crashes of real servers: kills under load, damaged files, two servers on one folder."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.console import crashing
from conformance.durability.damage import cuts, damages, other_files, wrong
from conformance.durability.disk import Content
from conformance.durability.inspection import Inventory, Question
from conformance.durability.kills import kills
from conformance.durability.recording import RecordingFiles, record
from conformance.durability.report import UPGRADES
from conformance.durability.rivals import rivals
from conformance.durability.scenes import scenes
from conformance.durability.upgrades import left_by
from conformance.target.limits import USUAL
from conformance.usage import USAGE
from conformance.verdict import NotTestable
from reference_server.profiles import NEWEST
from reports.results import read_results
from reports.verdicts import Verdict
from tests import crash_faults
from tests.servers import BEANSTALKD, needs_beanstalkd, needs_strace

COMMAND = f"{BEANSTALKD} -l {{host}} -p {{port}} -b {{binlog}} -s 4096 -f 0"
QUESTION = Question(COMMAND, NEWEST, USUAL, (), ())


def test_each_byte_and_each_number_is_damaged() -> None:
    files = {"log": Content.of(b"abcdefgh"), "lock": Content.of(b"")}
    found = {damage.words: damage.files for damage in damages(files)}
    assert found["byte 2 of log flipped"]["log"].bytes() == b"ab\x9cdefgh"
    assert found["4294967295 in the 32 bits at 4 of log"]["log"].bytes() == b"abcd" + b"\xff" * 4
    assert sum("flipped" in words for words in found) == 8
    ends = {damage.words: damage.files["log"].bytes() for damage in cuts(files)}
    assert ends == {f"log cut off after {size} bytes": b"abcdefgh"[:size] for size in range(8)}
    whole = {damage.words: damage.files for damage in other_files(files)}
    assert list(whole["no log"]) == ["lock"]
    assert "log/file" in whole["a folder in place of log"]
    assert not any("at the beginning" in words for words in whole)


def test_a_file_that_begins_with_a_version_is_said_to_have_an_older_one() -> None:
    files = {"log": Content.of(b"\x07\0\0\0job"), "new": Content.of(b"\x01\0\0\0")}
    whole = {damage.words: damage.files for damage in other_files(files)}
    assert whole["5 in place of 7 at the beginning of log"]["log"].bytes() == b"\x05\0\0\0job"
    older = [words[:10] for words in whole if "at the beginning" in words]
    assert older == [*(f"{version} in place" for version in (4, 5, 6)), "0 in place"]


@pytest.mark.parametrize(
    ("inventory", "causes"),
    [
        (Inventory(ending="exited with status 1 before it listened"), []),
        (Inventory(ending="ended by SIGSEGV before it listened"), 1),
        (Inventory(ending="did not listen within 8 seconds"), 1),
        (Inventory(jobs={1: {"body": "a"}}), []),
        (Inventory(jobs={1: {"body": "b"}}), 1),
        (Inventory(jobs={2: {"body": "a"}}), 1),
    ],
)
def test_damaged_files_end_a_server_with_a_message_or_it_goes_on(
    inventory: Inventory, causes: list[str] | int
) -> None:
    assert len(list(wrong(inventory, {1: "a"}))) == (causes or 0)
    ends_early = wrong(inventory, {1: "a"}, is_cut=True)
    assert all(one.cause.endswith(" where a file ends early") for one in ends_early)


@needs_beanstalkd
@needs_strace
def test_beanstalkd_refuses_a_folder_that_another_one_uses() -> None:
    assert list(rivals(QUESTION)) == []


@needs_beanstalkd
@needs_strace
def test_beanstalkd_keeps_its_jobs_when_it_is_killed_under_load() -> None:
    # With small files, it now and then loses a job of a file that it has removed.
    large = replace(QUESTION, command=COMMAND.replace("-s 4096", "-s 1048576"))
    done = kills(large, 3, lambda _: None)
    assert done.count == 3
    assert done.commands > 10
    causes = {case.difference.requirement for case in done.cases}
    # It writes a job's body behind the job's record: a kill between leaves zeros.
    known = {
        "persistence.release-priority",
        "persistence.buries",
        "durability.buried-order",
        "durability.whole-jobs",
    }
    assert causes <= known


def test_a_kill_under_load_shows_the_commands_about_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On a busy machine, clients may not have buried anything before that.
    monkeypatch.setattr("conformance.durability.kills._SOONEST", 1.0)
    monkeypatch.setattr("conformance.durability.kills._LATEST", 1.0)
    command = f"{crash_faults.COMMAND} -f 0 --fault buried-jobs-come-back-ready"
    question = replace(QUESTION, command=command)
    found = (case for _ in range(20) for case in kills(question, 1, lambda _: None).cases)
    case = next(one for one in found if one.difference.requirement == "persistence.bury")
    (job,) = case.difference.ids
    talk = case.talk()
    assert f"A < INSERTED {job}\\r\\n" in talk
    assert any(line.startswith(f"A > bury {job} ") for line in talk)


@needs_beanstalkd
def test_files_of_an_older_version_are_those_that_it_has_left() -> None:
    left = left_by(COMMAND, scenes(NEWEST, 100)[0], NEWEST, USUAL)
    assert b"first" in left.files["binlog.1"].bytes()
    assert left.bodies[1] == "first"
    assert len(left.bodies) == 11


def test_an_older_version_that_does_not_start_leaves_nothing() -> None:
    with pytest.raises(NotTestable, match="it exited with status 1"):
        left_by("false {port}", scenes(NEWEST, 100)[0], NEWEST, USUAL)


@needs_strace
def test_a_server_that_strace_cannot_run_is_not_testable(tmp_path: Path) -> None:
    scene = scenes(NEWEST, 100)[0]
    with pytest.raises(NotTestable, match="under strace, it exited with status 1"):
        record("false {port}", scene, NEWEST, USUAL, 0.0, RecordingFiles.of(tmp_path, scene.name))


@needs_beanstalkd
@needs_strace
def test_the_command_tells_what_is_wrong_and_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crashing, "scenes", lambda *asked: scenes(*asked)[:1])
    few = ["--states", "1", "--kills", "0", "--damages", "3", "--jobs", "1"]
    words = ["durability", "--launch", COMMAND, "--folder", str(tmp_path), *few]
    words += ["--report", str(tmp_path / "report"), "--older", COMMAND]
    assert main(words) == 1
    said = capsys.readouterr().out
    assert "fail: persistence.buries: more buries than there were" in said
    assert "not tested: lives: " in said
    (state,) = re.findall("fail: persistence.buries: .*?the files: (\\S+)", said, re.DOTALL)
    assert (Path(state) / "binlog.1").exists()
    assert main([*words, "--resume"]) == 1
    again = capsys.readouterr().out
    assert "a second" in said
    assert "a second" not in again.replace("the second", "")
    assert said.splitlines()[-2] == again.splitlines()[-2]
    results = read_results(tmp_path / "report" / "results.json")
    assert results.target.label == "beanstalkd"
    assert results.crashes is not None
    *_, damaged, rivals, upgrade, older = results.crashes.parts
    assert rivals.name == "two servers on one folder"
    assert upgrade.kind == UPGRADES
    assert re.fullmatch(r"(\d+) of \1 jobs", upgrade.said)
    assert older.name == "files of an older version"
    # All that is done to whole files, and 3 places.
    assert min(damaged.tried, older.tried) > 10
    (buries,) = [one for one in results.requirements if one.slug == "persistence.buries"]
    assert buries.verdict is Verdict.FAIL


def test_a_server_without_a_binlog_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "server"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m reference_server --port "$1"\n')
    program.chmod(0o755)
    words = ["--launch", f"{program} {{port}} {{binlog}}", "--profile", "1.0"]
    assert main(["durability", "--folder", str(tmp_path / "found"), *words]) == USAGE
    assert "keeps no jobs: that came with profile 1.2" in capsys.readouterr().err
