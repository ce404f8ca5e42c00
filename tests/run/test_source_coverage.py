"""Coverage of a server's source: what was counted, as gcovr and llvm-cov tell it, and in words."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.run.source_coverage import CoverageReader, counted_by_lcov
from conformance.target.instrumented import is_counting
from conformance.target.launch import Launched
from reports.html import report_page
from reports.markdown import report_text
from reports.results import LeftLines, SourceCoverage, SourceFile
from reports.source import coverage_lines
from tests.made import requirement, results
from tests.servers import GCC, REFERENCE_COMMAND, needs_gcc

SOURCE = """
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <netinet/in.h>

static void ends(int number) { (void)number; usleep(%d); exit(0); }

static void never(void) {
    abort();
}

int main(int count, char **words) {
    signal(SIGTERM, ends);
    int server = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1]))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(server, (struct sockaddr *)&at, sizeof at) || listen(server, 8))
        never();
    for (;;)
        close(accept(server, 0, 0));
}
"""
"""A server that listens, and exits so many microseconds after SIGTERM."""


@pytest.fixture
def build(tmp_path: Path) -> Path:
    folder = tmp_path / "build"
    folder.mkdir()
    for name, delay in (("prompt", 0), ("slow", 1_300_000)):
        (folder / f"{name}.c").write_text(SOURCE % delay)
        command = [str(GCC), "--coverage", "-O0", f"{name}.c", "-o", name]
        subprocess.run(command, cwd=folder, check=True)
    return folder


@pytest.fixture
def reader(build: Path) -> Iterator[CoverageReader]:
    reader = CoverageReader(build)
    yield reader
    reader.close()
    assert not is_counting()


@needs_gcc
def test_lines_of_many_servers_are_added_up(build: Path, reader: CoverageReader) -> None:
    before = set(build.rglob("*"))
    # A server that takes longer to write than others to exit is waited for.
    for name in ("prompt", "prompt", "slow"):
        Launched(f"{build / name} {{port}}").end()
    told = reader.read()
    assert (told.reason, told.lost) == ("", 0)
    assert [file.name for file in told.files] == ["prompt.c", "slow.c"]
    assert set(build.rglob("*")) == before
    for file in told.files:
        assert file.lines - file.lines_taken == 3
        assert [(left.first, left.last) for left in file.left] == [(9, 10), (19, 19)]
        assert "abort();" in file.left[0].text
        assert 0 < file.branches_taken < file.branches
        assert [left.line for left in file.left_branches] == [18]


@needs_gcc
def test_servers_that_were_killed_are_counted(build: Path, reader: CoverageReader) -> None:
    command = f"{build / 'prompt'} {{port}}"
    Launched(command).end()
    with Launched(command) as killed:
        killed.signal(signal.SIGKILL)
    assert reader.read().lost == 1
    assert "not counted: what 1 server ran" in "\n".join(coverage_lines(reader.read(), None))


@needs_gcc
def test_the_folder_of_another_build_is_told(build: Path, tmp_path: Path) -> None:
    reader = CoverageReader(tmp_path)
    for notes in build.glob("*.gcno"):
        notes.unlink()
    Launched(f"{build / 'prompt'} {{port}}").end()
    assert "has no prompt" in reader.read().reason
    reader.close()


LCOV = """SF:/src/prot.c
FN:10,main
DA:10,1
DA:11,2
DA:12,0
BRDA:11,0,0,2
BRDA:11,0,1,0
BRDA:12,0,0,-
BRF:3
end_of_record
SF:/src/job.c
DA:1,0
end_of_record
"""


def test_what_llvm_cov_exports() -> None:
    counted = counted_by_lcov(LCOV)
    assert counted["/src/prot.c"].lines == {10: 1, 11: 2, 12: 0}
    assert counted["/src/prot.c"].branches == {11: [2, 0], 12: [0]}
    assert counted["/src/job.c"].lines == {1: 0}


def test_a_server_that_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch = ("--launch", REFERENCE_COMMAND)
    asked = ("--coverage-report", str(tmp_path), "-k", "put.delay-limit", "-q", "--clock", "real")
    assert main(["run", *launch, *asked]) == 0
    assert "coverage: none, as the server has written nothing" in capsys.readouterr().out
    assert not is_counting()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--launch", REFERENCE_COMMAND), "there is nothing to read coverage with"),
        ((), "coverage of the source needs --launch"),
    ],
)
def test_what_cannot_be_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    assert main(["run", *arguments, "--coverage-report", str(tmp_path / "none")]) == 4
    assert sentence in capfd.readouterr().err


def _file(name: str, lines: int, taken: int, **changes: object) -> SourceFile:
    told = {"name": name, "lines": lines, "lines_taken": taken, "branches": 0, "branches_taken": 0}
    return SourceFile.model_validate(told | changes)


def test_files_of_which_most_is_left_come_first() -> None:
    left = [LeftLines(first=7, last=9, text="<b>a</b>"), LeftLines(first=12, last=12, text="")]
    coverage = SourceCoverage(
        files=[_file("a.c", 200, 200), _file("b.c", 1000, 999, left=left[1:])], lost=2
    )
    worst = _file("c.c", 10, 0, left=left * 60)
    coverage = coverage.model_copy(update={"files": [*coverage.files, worst]})
    lines = list(coverage_lines(coverage, 2))
    assert lines[0] == "coverage: 99 % of 1,210 lines, none of 0 branches, in 3 files"
    assert lines[1].startswith("  c.c: 0 %; not reached: 7-9, 12, 7-9,")
    assert lines[1].endswith(", …")
    assert lines[2:4] == ["  b.c: 99 %; not reached: 12", "  and 1 more file: -v shows all"]
    assert lines[4] == "  not counted: what 2 servers ran until ended by a signal"
    assert list(coverage_lines(None, None)) == []
    made = results(requirement("put.a"), source=coverage)
    page = report_page(made)
    assert "&lt;b&gt;a&lt;/b&gt;" in page
    assert page.index("c.c: 0 % of 10 lines") < page.index("a.c: 100 % of 200 lines")
    assert "**Coverage of the source**: 99 % of 1,210 lines" in report_text(made)
    assert "Coverage of the source" not in report_page(results(requirement("put.a")))
