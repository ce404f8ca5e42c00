"""The fuzzer sees the edges that a server counts, and gets by them to where chance does not."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from conformance.random_testing.exploration import Exploration
from conformance.random_testing.shrink_budget import ShrinkBudget
from conformance.random_testing.steps import Ask
from conformance.target.builtin import BuiltIn
from conformance.target.launched_target import LaunchedTarget
from conformance.target.limits import USUAL
from conformance.target.sanitizers import reports
from fuzz.cli import main
from fuzz.coverage import CountedEdges, NoCoverage
from fuzz.edges import count, edges, marked
from fuzz.greybox import GreyBox
from fuzz.instrumentation import CLASSIC, map_size
from fuzz.sanitizer_findings import Reports
from fuzz.scout import Scout, TargetFellSilent
from fuzz.shared_memory import SharedSegment
from fuzz.undefined_input import message
from tests.instrumented import STAGES, edge_of, instrumented_server
from tests.servers import REFERENCE_COMMAND, changed_server
from tests.target.test_sanitizers import UBSAN

LIST = Path("/proc/sysvipc/shm")


def _numbers() -> set[str]:
    return {line.split()[1] for line in LIST.read_text().splitlines()[1:]}


def _sizes() -> set[str]:
    return {line.split()[3] for line in LIST.read_text().splitlines()[1:]}


def test_memory_is_gone_when_nobody_has_it() -> None:
    segment = SharedSegment(4096)
    number = segment.environment["__AFL_SHM_ID"]
    assert number in _numbers()
    segment.close()
    assert number not in _numbers()


def test_memory_is_gone_after_kill_9() -> None:
    code = (
        "import signal; from fuzz.shared_memory import SharedSegment as S; segment = S(4096);"
        "print(segment.environment['__AFL_SHM_ID'], flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        number = process.stdout.readline().decode().strip()
        assert number in _numbers()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert number not in _numbers()


def test_a_server_tells_how_many_edges_it_counts(tmp_path: Path) -> None:
    assert map_size(instrumented_server(tmp_path), USUAL) == 4096


def test_a_server_that_does_not_tell_is_seen_to_count(tmp_path: Path) -> None:
    assert map_size(instrumented_server(tmp_path, tells=False), USUAL) == CLASSIC


def test_a_server_that_counts_nothing_is_a_black_box(capfd: pytest.CaptureFixture[str]) -> None:
    assert map_size(REFERENCE_COMMAND, USUAL) is None
    assert main(["--launch", REFERENCE_COMMAND, "--time", "0.1"]) == 0
    assert "a black box, as it counts no edges" in capfd.readouterr().out


@pytest.mark.parametrize("choice", ["afl", "llvm"])
@pytest.mark.parametrize("target", [["--launch", REFERENCE_COMMAND], ["--target", "127.0.0.1:1"]])
def test_edges_that_are_insisted_on_and_not_there_are_bad_usage(
    choice: str, target: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*target, "--coverage", choice, "--time", "1"]) == 4
    assert len(capfd.readouterr().err.strip().splitlines()) == 1


def _scout(command: str) -> tuple[Scout, CountedEdges]:
    segment = SharedSegment(4096)
    target = LaunchedTarget(command, "real", environment=segment.environment)
    target.profile = target.probe()
    coverage = CountedEdges(segment)
    return Scout(target, coverage), coverage


PUT = Ask(1, b"put 0 0 120 1\r\na\r\n", tag=1)
ABOUT = [
    Ask(1, line, job=1, apart=True)
    for line in (
        *(b"reserve-job %d\r\n", b"bury %d 0\r\n", b"kick-job %d\r\n", b"release %d 0 0\r\n"),
        *(b"touch %d\r\n", b"delete %d\r\n", b"peek %d\r\n", b"stats-job %d\r\n"),
    )
]


def test_a_program_reaches_the_same_each_time(tmp_path: Path) -> None:
    scout, _ = _scout(instrumented_server(tmp_path))
    first, *others = [scout.play([PUT, *ABOUT]) for _ in range(20)]
    scout.close()
    scout.target.close()
    assert [turn.end for turn in first] == list(range(1, len(ABOUT) + 2))
    assert count(first[1].reached) >= 2
    assert all(other == first for other in others)


def test_scouts_get_where_chance_does_not(tmp_path: Path) -> None:
    scout, coverage = _scout(instrumented_server(tmp_path))
    grey = GreyBox(scout, coverage, Random(2))
    grey.begin_with([[PUT, *ABOUT]])
    last = edge_of(f"stage {STAGES - 1}")
    # A few thousand programs, which take long on a busy machine.
    for _ in grey.explore(300):
        if last in edges(grey.guidance.seen):
            break
    grey.close()
    assert last in edges(grey.guidance.seen)
    assert grey.lost == []
    assert all(entry.reached for entry in grey.guidance.entries)


def test_parts_of_a_long_program_are_kept(tmp_path: Path) -> None:
    scout, coverage = _scout(instrumented_server(tmp_path))
    grey = GreyBox(scout, coverage, Random(1))
    grey.begin_with([[*[Ask(1, b"list-tube-used\r\n", apart=True)] * 300, PUT, *ABOUT[:2]]])
    first = next(grey.explore(60))
    grey.close()
    assert 1 <= len(first) <= 3
    assert grey.programs < 50


class _Always:
    """The coverage of a target that reaches the same edges in each turn."""

    def take(self) -> int:
        return marked([1, 2])


def test_an_edge_is_news_once_until_scouts_have_confirmed_it(tmp_path: Path) -> None:
    scout, _ = _scout(instrumented_server(tmp_path))
    grey = GreyBox(scout, _Always(), Random(1))
    with contextlib.closing(BuiltIn()) as target:
        session = Exploration(1).session(target)
        makes_up = grey.watch(lambda _session, _chance: iter([PUT, *ABOUT]))
        told = []
        for _ in range(2):
            for step in makes_up(session, Random(1)):
                session.take(step)
            told.append(grey.has_found_new())
        session.abandon()
    grey.close()
    assert told == [True, False]


def test_the_fuzzer_is_guided_and_finds_what_is_behind(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus"
    folders = ["--findings", str(tmp_path / "found"), "--corpus", str(corpus)]
    size = 10_000 + os.getpid() % 50_000
    launch = ["--launch", instrumented_server(tmp_path, size=size), "--coverage", "afl"]
    code = main([*launch, "--time", "4", *folders])
    said = capfd.readouterr().out
    assert f"guided by its {size:,} counters" in said
    assert re.search(r" \d+ edges, ", said)
    assert list(corpus.glob("programs/*.json"))
    assert code == ("fail: " in said)
    # The processes of a fuzzer are ended, and what they have started a little later.
    end = time.monotonic() + 30
    while str(size) in _sizes() and time.monotonic() < end:
        time.sleep(0.05)
    assert str(size) not in _sizes()


def test_a_server_that_crashes_is_lost_with_what_it_was_told(tmp_path: Path) -> None:
    crashes = """
    Model._touch = lambda self, conn, id: os._exit(3)
    """
    target = LaunchedTarget(changed_server(tmp_path, crashes), "real")
    target.profile = target.probe()
    scout = Scout(target, NoCoverage())
    with pytest.raises(TargetFellSilent) as lost:
        scout.play([PUT, Ask(1, b"touch %d\r\n", job=1)])
    assert lost.value.done[-1] == message(1, b"put 0 0 120 1\r\na\r\ntouch 1\r\n")
    scout.restart()
    assert scout.play([PUT])
    scout.close()
    target.close()


def test_what_sanitizers_print_is_kept_with_a_small_program(tmp_path: Path) -> None:
    prints = f"""
    plain = Model._bury

    def bury(self, conn, id, pri):
        sys.stderr.write({UBSAN!r})
        sys.stderr.flush()
        return plain(self, conn, id, pri)

    Model._bury = bury
    """
    target = LaunchedTarget(changed_server(tmp_path, prints), "real")
    target.profile = target.probe()
    scout = Scout(target, NoCoverage())
    kept = Reports(target, tmp_path / "found", ShrinkBudget())
    program = [Ask(1, b"use a\r\n"), PUT, *ABOUT]
    scout.play(program)
    kept.hear(target.reported(), program)
    kept.hear(target.reported(), program)
    (told,) = kept.remark_of.values()
    assert "ms.c:27:5: runtime error" in told
    (home,) = (tmp_path / "found").iterdir()
    assert "bury" in (home / "conversation").read_text()
    shown = (home / "conversation").read_text().splitlines()
    assert [line.partition("> ")[2].split()[0] for line in shown] == ["bury"]
    scout.close()
    target.close()


def test_what_sanitizers_print_once_only_is_told_as_that(tmp_path: Path) -> None:
    target = LaunchedTarget(REFERENCE_COMMAND, "real")
    target.profile = target.probe()
    (report,) = reports(UBSAN)
    unkept = Reports(target, None, ShrinkBudget())
    unkept.hear([report], [PUT])
    assert list(unkept.remark_of.values()) == [f"the target has printed: {report.head}"]
    kept = Reports(target, tmp_path, ShrinkBudget())
    kept.hear([report], [PUT])
    (told,) = kept.remark_of.values()
    assert told.endswith("a new server did not print it again")
    assert "put 0 0 120 1" in next(tmp_path.glob("*/conversation")).read_text()
    target.close()
