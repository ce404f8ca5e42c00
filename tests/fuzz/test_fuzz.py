"""The fuzzer finds what it should, alarms for nothing else, and leaves what others have alone."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from conformance.oracle.underspecification import Lines, is_decided
from conformance.oracle.violation import Violation
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.findings import kept
from conformance.random_testing.steps import Ask, Leave, Program, Step
from conformance.target.address import ask, visit
from conformance.target.builtin import BuiltIn
from conformance.target.launch import Launched
from conformance.target.launched_target import LaunchedTarget
from conformance.target.target import Remote, Target
from fuzz.campaign import ProgramCampaign
from fuzz.campaign_findings import CampaignReport
from fuzz.cli import main
from fuzz.corpus import Pool
from fuzz.coverage import ModelLines
from fuzz.engine import judge
from fuzz.fuzzer import Fuzzer
from fuzz.health import GROWN, LEAKED, Health, growth, thinned
from fuzz.hostile import CaseAuthor, Progress
from fuzz.mutate import Mutator
from fuzz.suppression import Suppression
from fuzz.undefined_input import lines_of, message, undefined_program, with_single_lines
from reference_server.faults import FAULTS, Fault
from reference_server.profiles import NEWEST, PROFILES
from reference_server.wire import Request, RequestReader
from tests.parts import sample
from tests.servers import (
    BEANSTALKD_COMMAND,
    KEEPS,
    REFERENCE_COMMAND,
    changed_server,
    needs_beanstalkd,
)

DECIDED = (
    *(b"delete 1", b"delete x", b"stats", b"stats x", b"foo", b"get a", b"use -a"),
    *(b"put 0 0 0 1", b"release x 0 0", b"kick abc", b"kick 3", b"touch 18446744073709551615"),
    *(b"bury x -1", b"use " + b"n" * 201, b"reserve-with-timeout 4"),
)
OPEN = (
    *(b"delete", b"delete 01", b"delete  1", b"stats ", b"statsx", b"FOO", b"", b"use a\0"),
    *(b"put 0 0 0 4294967296", b"put 0 0 0 x", b"put 0 0 0", b"kick 1x", b"kick -1", b"quitx"),
    *(b"reserve-with-timeout -1", b"reserve-with-timeout 2147483648", b"x" * 300, b"use a\tb"),
    *(b"\xff", b" stats", b"use ", b"kick 1 2", b"reserve-with-timeout 1 a"),
    # Two errors are deserved, if there is no such job or tube.
    *(b"delete 1 2", b"release 1 2", b"bury 1 -1", b"pause-tube a 1.0"),
    *(b"peek-buried a\n", b"stats\nuse a", b"touch 18446744073709551616"),
)


@pytest.mark.parametrize("line", DECIDED)
def test_the_text_decides(line: bytes) -> None:
    assert is_decided(line, NEWEST)


@pytest.mark.parametrize("line", OPEN)
def test_the_text_leaves_open(line: bytes) -> None:
    assert not is_decided(line, NEWEST)


@pytest.mark.parametrize("line", [b"use " + b"n" * 201, b"watch " + b"n" * 210])
def test_only_newer_texts_limit_names_numbers_and_lines(line: bytes) -> None:
    decided = [name for name, profile in PROFILES.items() if is_decided(line, profile)]
    assert decided == ["1.12", "1.13"]


@pytest.mark.parametrize(
    ("data", "is_quirk"),
    [
        (b"x" * 223 + b"\r\n", True),
        (b"x" * 224 + b"\r\n", False),
        (b"x" * 223, False),
        (b"x" * 224, True),
        (b"sta\rts\r\n", True),
        (b"put 0 0 9 3\r\na\rb\r\n", False),
        (b"put 0 0 9 3\r\na\rb\r\nst\r", True),
        (b"put 0 0 9 1\r\nabc" + b"x" * 223 + b"\r\n", True),
        (b"put 0 0 9 1\r\nabc" + b"x" * 224 + b"\r\n", False),
        (b"put 0 0 9 1\r\nabc" + b"x" * 222 + b"\r\n", False),
        (b"put 0 0 9 0\r\nab" + b"x" * 223 + b"\r\n", True),
    ],
)
def test_what_is_a_quirk_of_beanstalkd(data: bytes, is_quirk: bool) -> None:
    reader = Lines(NEWEST)
    reader.read(data)
    assert reader.is_quirk == is_quirk


def test_mutations_are_of_many_kinds() -> None:
    mutate = Mutator(Random(1))
    made = {mutate(b"put 0 0 120 5\r\nhello\r\nuse a\r\n") for _ in range(2000)}
    assert len(made) > 1000
    for part in (b"\0", b"\xff", b"\t", b"18446744073709551616", b"PUT", b"n" * 200, b"hello\r\n"):
        assert any(part in data for data in made), part
    assert any(not data.endswith(b"\r\n") for data in made)


def test_a_splice_has_a_part_of_each() -> None:
    mutate = Mutator(Random(1))
    made = {mutate.splice(b"use a\r\n", b"peek-ready\r\n") for _ in range(2000)}
    assert {b"use ready\r\n", b"use a\r\npeek-ready\r\n", b""} <= made


def _program(seed: int, *inputs: bytes) -> Program:
    target = BuiltIn()
    pool = Pool()
    for text in inputs:
        pool.add(text)
    session = Exploration(1).session(target)
    steps: list[Step] = []
    for step in CaseAuthor(session, Random(seed), pool, Progress()).steps(200):
        steps.append(step)
        session.take(step)
    session.abandon()
    target.close()
    return steps


def test_a_seed_always_makes_up_the_same_program() -> None:
    assert _program(7) == _program(7)


def _resets(target: Target, shared: bool) -> int:
    count = 0
    for seed in range(12):
        session = Exploration(1, shared=shared).session(target)
        for step in CaseAuthor(session, Random(seed), Pool(), Progress()).steps(100):
            count += isinstance(step, Leave) and step.reset
            session.take(step)
        session.abandon()
    return count


def test_connections_are_reset_only_on_a_server_of_our_own() -> None:
    with contextlib.closing(BuiltIn()) as target:
        assert _resets(target, shared=False) > 0
        assert isinstance(target.address, tuple)
        host, port = target.address
        assert _resets(Remote(f"{host}:{port}"), shared=True) == 0


def _fuzz(
    target: Target, seconds: float, folder: Path | None = None, most: int = 1
) -> CampaignReport:
    profile = target.probe()
    shared = not target.exclusive
    exploration = Exploration(1, 3, profile=profile, folder=folder, shared=shared)
    try:
        return Fuzzer(exploration, target, Pool()).run(seconds, most)
    finally:
        target.close()


def test_nothing_is_wrong_with_the_reference_server() -> None:
    report = _fuzz(BuiltIn(), 3)
    assert report.found == []
    assert report.progress.cases > 500
    assert report.shapes > 50


@needs_beanstalkd
@pytest.mark.parametrize("clock", ["real", "auto"])
def test_nothing_is_wrong_with_beanstalkd(clock: str) -> None:
    report = _fuzz(LaunchedTarget(BEANSTALKD_COMMAND, clock), 3)
    assert report.found == []
    assert report.looks
    assert report.health == {}


@pytest.mark.parametrize(
    "fault",
    sample(
        [
            *("a-line-feed-alone-ends-a-line", "of-a-line-that-is-too-long-the-rest-is-a-command"),
            "ids-may-be-hexadecimal",
        ],
        3,
    ),
)
def test_a_fault_of_the_parser_is_found_and_filed(fault: str, tmp_path: Path) -> None:
    report = _fuzz(BuiltIn(fault=FAULTS[fault]), 60, tmp_path)
    (filed,) = report.found
    assert filed.diagnosis.about
    (folder,) = tmp_path.iterdir()
    told = (folder / "README.md").read_text(encoding="utf-8")
    assert "reproduced 3 of 3" in told
    assert "replay transcript" in told
    ((path, transcript),) = kept(tmp_path)
    assert path.parent == folder
    assert len(transcript.entries) <= 6


def test_what_one_connection_shows_is_told_as_a_command(tmp_path: Path) -> None:
    _fuzz(BuiltIn(fault=FAULTS["ids-may-be-hexadecimal"]), 60, tmp_path)
    (told,) = tmp_path.glob("*/README.md")
    text = told.read_text(encoding="utf-8")
    assert "    printf '" in text
    assert r"\r\n' | nc -N 127.0.0.1 11300" in text


def test_what_others_have_is_left_alone() -> None:
    with Launched(REFERENCE_COMMAND) as server, visit(server.address, 5) as sock:
        for line in (b"use others", b"put 0 0 60 1\r\na", b"put 0 3600 60 1\r\nb"):
            ask(sock, line, 5)
        host, port = server.address
        report = _fuzz(Remote(f"{host}:{port}"), 3)
        assert report.found == []
        assert report.progress.cases > 100
        assert ask(sock, b"list-tubes", 5).body == b"---\n- default\n- others\n"
        stats = ask(sock, b"stats-tube others", 5).body or b""
    for line in (b"current-jobs-ready: 1", b"current-jobs-delayed: 1", b"total-jobs: 2"):
        assert line in stats


def test_several_clients_are_about_the_same_job_where_nothing_is_judged() -> None:
    made = undefined_program(Random(5))
    assert made == undefined_program(Random(5))
    about = {
        (step.client, line)
        for step in made
        if isinstance(step, Ask)
        for line in lines_of([step])
        if re.fullmatch(rb"(?:delete|peek|touch) ([2-9]|[1-9][0-9]+)", line)
    }
    jobs = [line.split()[1] for _, line in about]
    assert len(jobs) > len({*jobs}) > 3
    assert len({client for client, _ in about}) > 3


def test_the_tube_of_all_clients_is_hardly_paused() -> None:
    pause = b"pause-tube default 1000\r\n"
    steps = [step for seed in range(40) for step in _program(seed, pause)]
    assert 0 < sum(isinstance(step, Ask) and pause in step.text for step in steps) < 6


CRASHES = """
from reference_server.wire import requests as wire
parse = wire.parse_line
def crash(line, profile):
    if b"2147483648" in line:
        os._exit(3)
    return parse(line, profile)
wire.parse_line = crash
"""


def test_a_crash_is_found_and_ends_with_1(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    launch = changed_server(tmp_path, CRASHES)
    folder = tmp_path / "findings"
    arguments = ["--launch", launch, "--time", "40", "--max-findings", "1"]
    assert main([*arguments, "--findings", str(folder)]) == 1
    said = capfd.readouterr().out
    assert "the target crashed: exited with status 3" in said
    assert "fail: " in said or "de-facto deviation: " in said
    assert list(folder.glob("*/README.md"))


def test_two_processes_that_share_a_folder_find_it_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    launch = f"{REFERENCE_COMMAND} --fault a-line-feed-alone-ends-a-line"
    folders = ["--findings", str(tmp_path / "found"), "--corpus", str(tmp_path / "corpus")]
    main(["--launch", launch, "--time", "6", "--jobs", "2", "--max-findings", "1", *folders])
    told = [line for line in capfd.readouterr().out.splitlines() if ": expected " in line]
    assert told
    names = [line.split(": ")[1] for line in told]
    assert sorted(set(names)) == sorted(path.name for path in (tmp_path / "found").iterdir())
    assert list((tmp_path / "corpus").iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--time", "0"],
        ["--time", "nan"],
        ["--time", "inf"],
        ["--max-findings", "0"],
        ["--jobs", "0"],
        ["--target", "127.0.0.1:1", "--launch", "x"],
        ["--target", "127.0.0.1:1", "--time", "1"],
        ["--launch", "/nonexistent {port}", "--time", "1"],
        ["--findings", "/dev/null/x"],
    ],
)
def test_bad_usage_is_one_sentence_and_exit_code_4(
    arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 4
    said = capfd.readouterr().err.strip()
    assert len(said.splitlines()) == 1


def test_growth_is_told_only_if_it_goes_on() -> None:
    steady = [Health(n * 1000, 10**7, 5) for n in range(20)]
    assert growth(steady) == {}
    leaks = [Health(n * 1000, 10**7, 5 + n * LEAKED // 5) for n in range(20)]
    assert growth(leaks)["descriptors"].endswith("with no client left, 0.006 a case")
    grows = [Health(n * 1000, 10**7 + n * GROWN // 5, 5) for n in range(20)]
    assert growth(grows)["memory"].endswith("with no job left, 10,000 bytes a case")
    at_first = [Health(n * 1000, 10**7 + min(n, 3) * GROWN, 5) for n in range(20)]
    assert growth(at_first) == {}
    assert len(thinned(steady * 100)) == len(steady) * 50


def test_memory_that_a_server_keeps_is_told_and_fails_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    launch = changed_server(tmp_path, KEEPS)
    arguments = ["--launch", launch, "--time", "20", "--findings", str(tmp_path / "findings")]
    assert main(arguments) == 0
    said = capfd.readouterr().out
    assert re.search(r"^health: \d+ MB more memory after .* bytes a case$", said, re.MULTILINE)
    assert not list(tmp_path.glob("findings/*"))


def test_inputs_are_shared_by_a_folder(tmp_path: Path) -> None:
    mine, yours = Pool(tmp_path), Pool(tmp_path)
    assert mine.note(b"use a\r\n", ("USING",))
    assert not mine.note(b"use b\r\n", ("USING",))
    yours.exchange()
    assert yours.pick(Random(1)) == b"use a\r\n"


def test_coverage_of_the_reference_server_tells_what_is_new() -> None:
    target = BuiltIn()
    coverage, seen = ModelLines(target), 0
    with visit(target.address, 5) as sock:
        for line, new in ((b"stats", True), (b"stats", False), (b"kick x", True)):
            ask(sock, line, 5)
            # It goes on a little when it has answered.
            target.call(lambda: None)
            reached = coverage.take()
            assert bool(reached & ~seen) == new
            seen |= reached
    target.close()


def test_any_engine_can_drive_it() -> None:
    chance = Random(5)
    target = BuiltIn()
    one = judge(target)
    for _ in range(20):
        one(chance.randbytes(400))
    target.close()
    target = BuiltIn(fault=FAULTS["an-empty-line-is-malformed"])
    one = judge(target)

    def many() -> None:
        for _ in range(500):
            one(chance.randbytes(400))

    with pytest.raises(Violation):
        many()
    target.close()


def test_forms_of_lines_that_have_shown_what_is_wrong() -> None:
    known = Suppression()
    assert known.unknown([b"peek 1", b"peek 1x", b"peek 0~", b"kick 1x", None]) == [
        b"peek 1x",
        b"kick 1x",
    ]
    known.learn([b"peek 1x", b"use a", None])
    assert known.has([b"delete 1", b"peek 22.0"])
    assert known.has([None])
    assert not known.has([b"delete 1x", b"use b", b"peek x", b"peek 1x 1"])


class Lenient(RequestReader):
    def parse(self, line: bytes) -> Request:
        match = re.match(rb"(?:delete|touch|kick-job) [0-9]+", line)
        return super().parse(match[0] if match else line)


def test_what_is_known_does_not_hide_what_is_behind_it() -> None:
    faults = replace(FAULTS["use-names-the-tube-used-before"], reader=Lenient)
    report = _fuzz(BuiltIn(fault=faults), 20, most=99)
    names = " ".join(filed.diagnosis.name for filed in report.found)
    assert "delete" in names
    assert "using" in names


@pytest.mark.parametrize(("is_known", "replays"), [(True, 0), (False, 2)])
def test_a_line_is_only_seen_again_if_it_is_not_known(
    is_known: bool, replays: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = BuiltIn(fault=Fault("", "lenient", reader=Lenient))
    exploration, seen, replayed = Exploration(1), list[Program](), Exploration.replayed
    campaign = ProgramCampaign(exploration, target)

    def counted(*asked: Any) -> Any:
        seen.append(asked[2])
        return replayed(*asked)

    monkeypatch.setattr(Exploration, "replayed", counted)
    lines = [b"delete 1 x", b"touch 1x", b"delete 1"]
    found = list(campaign.each_alone(lines, lambda _: is_known))
    target.close()
    assert {single.violation.kind for single in found} == {("BAD_FORMAT\\r\\n", "NOT_FOUND\\r\\n")}
    assert len(found) == 2
    assert len(seen) == replays


def test_of_what_is_sent_at_once_the_first_line_may_be_enough() -> None:
    done: list[Step] = [
        message(1, b"a\r\nb\r\n"),
        message(2, b"c"),
        Leave(1, half=False),
    ]
    assert with_single_lines(done, lambda _: False) == done
    assert with_single_lines(done, lambda _: True) == [message(1, b"a\r\n"), *done[1:]]
