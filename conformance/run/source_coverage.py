"""Coverage of the target's source by a run, read with gcovr and llvm-cov."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pytest

from conformance.printable import printable
from conformance.target.instrumented import environment, losses
from reports.results import LeftBranches, LeftLines, SourceCoverage, SourceFile

_SECONDS = 300
_NOTHING = (
    "the server has written nothing: it must be built to count, and exit on SIGTERM instead of"
    " being ended by it"
)


class Unreadable(Exception):
    """The counts cannot be read; the text says why."""


@dataclass(frozen=True)
class LineCounts:
    """The counts of a source file, by line: how often it was run, and each of its branches."""

    lines: dict[int, int] = field(default_factory=dict)
    branches: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))


class CoverageReader:
    """Has launched servers write what they count, and reads it when all of them have ended.

    ``build`` is the folder in which gcov's compiler has worked, or the program that LLVM's made.
    """

    def __init__(self, build: Path) -> None:
        if not build.exists():
            raise pytest.UsageError(f"there is nothing to read coverage with: {build}")
        if build.is_dir() and importlib.util.find_spec("gcovr") is None:
            raise pytest.UsageError(
                "coverage is read by gcovr: pip install 'beanstalk-conformance[coverage]'"
            )
        self._build = build.resolve()
        self._coverage: SourceCoverage | None = None
        self._temporary = tempfile.TemporaryDirectory(prefix="beanstalk-conformance-coverage-")
        self._folder = Path(self._temporary.name)
        added = environment(self._folder)
        self._before = {name: os.environ.get(name) for name in added}
        os.environ.update(added)

    def read(self) -> SourceCoverage:
        """Return what the servers of the run have counted."""
        if self._coverage is None:
            self._coverage = self._read()
        return self._coverage

    def close(self) -> None:
        """Have servers count no more, and remove what they have written."""
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._temporary.cleanup()

    def _read(self) -> SourceCoverage:
        lost = losses(self._folder)
        try:
            if self._build.is_dir():
                counted, root = _by_gcov(self._folder, self._build), self._build
            else:
                counted, root = _by_llvm(self._folder, self._build), Path.cwd()
        except Unreadable as error:
            return SourceCoverage(lost=lost, reason=printable(str(error)))
        files = [_source_file(name, counted[name], root) for name in sorted(counted)]
        return SourceCoverage(files=files, lost=lost)


# ---------------------------------------------------------------- reading


def _by_gcov(folder: Path, build: Path) -> dict[str, LineCounts]:
    """Return what gcovr reads; raises Unreadable."""
    notes = defaultdict(list)
    for path in build.rglob("*.gcno"):
        notes[path.name].append(path)
    written = list(folder.rglob("*.gcda"))
    if not written:
        raise Unreadable(_NOTHING)
    for data in written:
        wanted = data.with_suffix(".gcno")
        if not (alike := notes[wanted.name]):
            raise Unreadable(f"{build} has no {wanted.name}, which the compiler has made")
        wanted.symlink_to(max(alike, key=lambda path: _common_end(path, wanted)))
    everything = ("--filter", ".*", "--exclude", "/usr/.*")
    reader = (sys.executable, "-m", "gcovr", "--root", ".", *everything, "--json", "-")
    return counted_by_gcovr(_output([*reader, str(folder)], build))


def _common_end(one: Path, other: Path) -> int:
    """Return how many parts two paths have in common at their ends."""
    alike = [a == b for a, b in zip(reversed(one.parts), reversed(other.parts), strict=False)]
    return (*alike, False).index(False)


def _by_llvm(folder: Path, program: Path) -> dict[str, LineCounts]:
    """Return what llvm-cov reads; raises Unreadable."""
    written = sorted(folder.glob("*.profraw"))
    if not written:
        raise Unreadable(_NOTHING)
    merged = str(folder / "all.profdata")
    _output(["llvm-profdata", "merge", "-sparse", "-o", merged, *map(str, written)], folder)
    export = ["llvm-cov", "export", str(program), "-instr-profile", merged, "-format=lcov"]
    return counted_by_lcov(_output(export, folder))


def _output(command: Sequence[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        raise Unreadable(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise Unreadable(f"{command[0]} took more than {_SECONDS} seconds") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise Unreadable(f"{Path(command[0]).name} failed: {''.join(said)}")
    return done.stdout.decode(errors="replace")


def counted_by_gcovr(text: str) -> dict[str, LineCounts]:
    """Return the counts in the JSON of gcovr."""
    files: dict[str, LineCounts] = {}
    for entry in json.loads(text)["files"]:
        counted = files[entry["file"]] = LineCounts()
        for line in entry["lines"]:
            number = line["line_number"]
            counted.lines[number] = counted.lines.get(number, 0) + line["count"]
            if branches := line["branches"]:
                counted.branches[number] += [branch["count"] for branch in branches]
    return files


def counted_by_lcov(text: str) -> dict[str, LineCounts]:
    """Return the counts in the lines of lcov, as LLVM writes them."""
    files: dict[str, LineCounts] = {}
    counted = LineCounts()
    for row in text.splitlines():
        kind, _, content = row.partition(":")
        values = content.split(",")
        if kind == "SF":
            counted = files.setdefault(content, LineCounts())
        elif kind == "DA":
            counted.lines[int(values[0])] = int(values[1])
        elif kind == "BRDA":
            counted.branches[int(values[0])].append(0 if values[3] == "-" else int(values[3]))
    return files


# ---------------------------------------------------------------- results


def _source_file(name: str, counted: LineCounts, root: Path) -> SourceFile:
    """Return the record of a source file in the results."""
    path = root / name
    try:
        source = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        # Then its lines are numbers only.
        source = []
    each = [count for counts in counted.branches.values() for count in counts]
    return SourceFile(
        name=printable(str(path.relative_to(root)) if path.is_relative_to(root) else name),
        lines=len(counted.lines),
        lines_taken=sum(map(bool, counted.lines.values())),
        branches=len(each),
        branches_taken=sum(map(bool, each)),
        left=[
            LeftLines(first=first, last=last, text=_text(source, first, last))
            for first, last in _stretches(counted.lines)
        ],
        left_branches=[
            LeftBranches(
                line=line,
                taken=sum(map(bool, counts)),
                branches=len(counts),
                text=_text(source, line, line).strip(),
            )
            for line, counts in sorted(counted.branches.items())
            if counted.lines.get(line) and not all(counts)
        ],
    )


def _text(source: Sequence[str], first: int, last: int) -> str:
    return printable("\n".join(source[first - 1 : last]).expandtabs(4))[:2000]


def _stretches(lines: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of lines that were not run, with none between that was."""
    ordered: Iterable[tuple[int, int]] = sorted(lines.items())
    for is_taken, same in groupby(ordered, key=lambda line: line[1] > 0):
        numbers = [number for number, _ in same]
        if not is_taken:
            yield numbers[0], numbers[-1]
