"""The reports of sanitizers are told and kept, also where the server goes on."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

import pytest

from conformance.run.runner import run
from conformance.target.launch import Launched
from conformance.target.launched_target import LaunchedTarget
from conformance.target.sanitizers import different, last_words, reports
from conformance.tests import test_exhaustion_peers as peers
from conformance.verdict import Deviation, NotTestable
from tests.command_line import suite
from tests.servers import REFERENCE_COMMAND, changed_server, shell_with

UBSAN = """ms.c:27:5: runtime error: null pointer passed as argument 2
    #0 0x55d0 in ms_append ms.c:27
    #1 0x55d1 in main main.c:9
"""
ASAN = """=================================================================
==77==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010 at pc 0x55
READ of size 4 at 0x602000000010 thread T0
    #0 0x55 in job_free job.c:1
SUMMARY: AddressSanitizer: heap-use-after-free job.c:1 in job_free
==77==ABORTING
"""
CLANG = """ms.c:27:20: runtime error: null pointer passed as argument 2
/usr/include/string.h:44:28: note: nonnull attribute specified here
    #0 0x55d0 in grow ms.c:27:5
"""
GO = """==================
WARNING: DATA RACE
Write at 0x00c000012345 by goroutine 7:
  main.put()
==================
"""
RUST = """thread 'main' panicked at src/main.rs:3:5:
index out of bounds
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""


@pytest.mark.parametrize(
    ("printed", "head", "last"),
    [
        (UBSAN, "ms.c:27:5: runtime error: null pointer passed as argument 2", "main.c:9"),
        (CLANG, "ms.c:27:20: runtime error: null pointer passed as argument 2", "ms.c:27:5"),
        (GO, "WARNING: DATA RACE", "===="),
        (RUST, "thread 'main' panicked at src/main.rs:3:5:", "to display a backtrace"),
        ("==9==ERROR: LeakSanitizer: memory leaks\n\nSUMMARY: 8 bytes", "LeakSan", "8 bytes"),
        ("WARNING: ThreadSanitizer: data race (pid=12)\n  Write\n=====", "data race", "====="),
    ],
)
def test_each_report_is_found_with_its_stack(printed: str, head: str, last: str) -> None:
    (report,) = reports(f"listening\n{printed}\nlistening still\n")
    assert head in report.head
    assert report.text.endswith(last)
    assert "listening" not in report.text


def test_the_same_report_is_the_same_in_another_process() -> None:
    first, second = reports(ASAN + ASAN.replace("77", "78").replace("0010", "0020"))
    assert first.head != second.head
    assert first.kind == second.kind
    assert "job.c:1 in job_free" in first.text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("thread 'main' panicked at src/a.rs:3:5:", "thread 'main' (7) panicked at src/a.rs:3:5:"),
        (
            "thread 'tokio-runtime-worker' (23) panicked at src/a.rs:123:5:",
            "thread 'tokio-runtime-worker' (1024) panicked at src/a.rs:123:5:",
        ),
        ("thread 'worker-1' panicked at a.rs:3:5:", "thread '<unnamed>' panicked at a.rs:3:5:"),
        (
            "panic: runtime error: index out of range [5] with length 3",
            "panic: runtime error: index out of range [12] with length 10",
        ),
        (
            "panic: runtime error: slice bounds out of range [:5] with capacity 3",
            "panic: runtime error: slice bounds out of range [:7] with capacity 6",
        ),
        (
            "WARNING: ThreadSanitizer: data race (pid=7)",
            "WARNING: ThreadSanitizer: data race (pid=1234)",
        ),
        (
            "==7==ERROR: AddressSanitizer: SEGV on unknown address 0x1 (pc 0x55 sp 0x7f T0)",
            "==89==ERROR: AddressSanitizer: SEGV on unknown address 0x2 (pc 0x56 sp 0x7e T12)",
        ),
        (
            "a.c:7:5: runtime error: index 5 out of bounds for type 'int [4]'",
            "a.c:7:5: runtime error: index 6 out of bounds for type 'int [4]'",
        ),
    ],
)
def test_a_report_has_one_kind_whatever_the_thread_and_the_values(one: str, other: str) -> None:
    found = list(reports(f"{one}\nsaid\n{other}\nsaid\n"))
    assert [report.head for report in found] == [one, other]
    assert len({report.kind for report in found}) == 1
    remarks = [f"the target has printed: {report.head}; x has the rest" for report in found]
    assert different([*remarks, "2 MB", "3 MB", "2 MB"]) == [remarks[0], "2 MB", "3 MB"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("thread 'main' panicked at src/a.rs:123:5:", "thread 'main' panicked at src/a.rs:456:5:"),
        ("thread 'main' panicked at src/a.rs:3:5:", "thread 'main' panicked at src/a.rs:3:7:"),
        ("a.c:7:5: runtime error: division by zero", "a.c:8:5: runtime error: division by zero"),
    ],
)
def test_reports_of_different_places_are_of_different_kinds(one: str, other: str) -> None:
    assert len({report.kind for report in reports(f"{one}\nsaid\n{other}\nsaid\n")}) == 2


def test_reports_of_one_kind_that_come_from_elsewhere_are_others() -> None:
    freed, moved = reports(ASAN + ASAN.replace("job_free", "job_move"))
    assert freed.kind.endswith("heap-use-after-free on address at pc < job_free")
    assert freed.kind != moved.kind


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("thread 'a' (7) panicked at q.rs:51:52:\nindex\n", "thread panicked at q.rs:51:52: index"),
        ("panic: nil map\n\ngoroutine 7 [running]:\n", "panic: nil map"),
        ("s: heap.c:12: f: Assertion `k' failed.\n", "s: heap.c:12: f: Assertion `k' failed."),
        ("a.rb:5:in `f': no method (NoMethodError)\n", "a.rb:5:in `f': no method (NoMethodError)"),
        (
            "Error: first\n    at f (a.js)\n\nError: last\n    at g (a.js)\n",
            "Error: last at g (a.js)",
        ),
        ("listening\n", ""),
    ],
)
def test_the_last_words_of_a_server_are_those_of_its_error(printed: str, words: str) -> None:
    assert last_words(printed) == words


@pytest.mark.parametrize(
    ("printed", "stack"),
    [
        (UBSAN, ["ms_append", "main"]),
        (ASAN.replace("#0", "#0 0x5 in __interceptor_memcpy\n    #1"), ["job_free"]),
        (CLANG, ["grow"]),
        (ASAN.replace("#0", "#0 0x5 in read_iovec\n    #1 0x5 in writev\n    #2"), ["job_free"]),
        (GO, ["main.put"]),
        (RUST, []),
    ],
)
def test_a_stack_begins_with_the_servers_own_functions(printed: str, stack: list[str]) -> None:
    (report,) = reports(printed)
    assert report.stack == stack


def test_what_a_server_prints_that_goes_on_is_told_once_and_kept(tmp_path: Path) -> None:
    launch = changed_server(
        tmp_path,
        f"""
        plain = Model._peek_ready

        def peek_ready(self, conn):
            sys.stderr.write({UBSAN!r} + chr(27) + "[31m" + chr(10))
            sys.stderr.flush()
            return plain(self, conn)

        Model._peek_ready = peek_ready
        """,
    )
    done = suite("--launch", launch, "--clock=real", "-k", "peek.ready", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("ms.c:27:5: runtime error") == 1
    assert "\x1b[31m" not in done.stdout
    (home,) = (tmp_path / ".beanstalk-conformance" / "findings").iterdir()
    assert "#1 0x55d1 in main main.c:9" in (home / "printed").read_text()
    assert "> peek-ready\\r\\n" in (home / "conversation").read_text()
    readme = (home / "README.md").read_text()
    assert "    #1 0x55d1 in main main.c:9" in readme
    assert "beanstalk-conformance replay conversation" in readme


def test_what_servers_of_one_test_print_is_told_once(tmp_path: Path) -> None:
    printed = ASAN.replace("77", "%d").replace("==ABORTING", "==GOES ON")
    launch = changed_server(
        tmp_path, f"import os; sys.stderr.write({printed!r} % (os.getpid(), os.getpid()))"
    )
    with contextlib.closing(LaunchedTarget(launch, "real")) as target:
        told = []
        for _ in range(2):
            with contextlib.closing(target.fresh()) as own:
                told += own.reported()
        assert len(told + target.reported()) == 1


def test_of_a_report_that_has_ended_a_server_the_beginning_is_shown(tmp_path: Path) -> None:
    table = "Shadow bytes around the buggy address:\n" + "  0x0c: fa fa\n" * 500
    report = ASAN.replace("SUMMARY", f"{table}SUMMARY")
    change = f"import atexit; atexit.register(lambda: sys.stderr.write({report!r}))"
    with Launched(changed_server(tmp_path, change)) as server:
        server.end()
        assert server.said().startswith("==77==ERROR: AddressSanitizer: heap-use-after-free")
        assert "job_free" in server.said()


def test_who_needs_a_cpu_to_exit_is_not_killed_before_it_has_reported(tmp_path: Path) -> None:
    change = """
        import atexit, time

        def look_for_leaks():
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                pass
            sys.stderr.write("no leaks")

        atexit.register(look_for_leaks)
        """
    with Launched(changed_server(tmp_path, change)) as server:
        server.end()
        assert server.said().endswith("no leaks")


@pytest.mark.parametrize("more", [(), ("-n", "2")], ids=["alone", "workers"])
def test_what_a_server_prints_when_it_is_ended_is_told(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    leaks = "==9==ERROR: LeakSanitizer: detected memory leaks\n\nSUMMARY: 8 bytes leaked\n"
    change = f"import atexit; atexit.register(lambda: sys.stderr.write({leaks!r}))"
    launch = changed_server(tmp_path, change)
    done = suite("--launch", launch, "--clock=real", "-k", "peek.ready", *more, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    told = "health: the target has printed when it was ended: ==9==ERROR: LeakSanitizer"
    assert done.stdout.count(told) == 1
    (home,) = (tmp_path / ".beanstalk-conformance" / "findings").iterdir()
    assert {path.name for path in home.iterdir()} == {"printed", "README.md"}
    assert "8 bytes leaked" in (home / "printed").read_text()


@pytest.mark.parametrize(
    ("marks", "error"),
    [(b"__asan_init", NotTestable), (b"__tsan_init", Deviation)],
    ids=["quarantine", "none"],
)
def test_memory_that_a_sanitizer_keeps_is_not_that_of_the_server(
    tmp_path: Path, marks: bytes, error: type[Exception]
) -> None:
    server = f"{REFERENCE_COMMAND} --fault whatever-a-client-does-not-read-is-kept-for-it && true"
    arguments = dict.fromkeys(("own_server", "client", "connect", "resources"))
    command = f"{shell_with(tmp_path, marks)} -c {shlex.quote(server)}"
    with contextlib.closing(LaunchedTarget(command, "real")) as target:
        outcome = run(peers.test_what_nobody_reads_takes_bounded_memory, arguments, target)
    assert isinstance(outcome.error, error)
