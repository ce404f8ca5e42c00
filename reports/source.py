"""The coverage of the target's source in words: the share of each file, and the gaps."""

from __future__ import annotations

from collections.abc import Iterator

from reports.results import LeftLines, SourceCoverage, SourceFile
from reports.words import counted

LONGEST = 140
"""Characters of a line about a file."""


def percent(taken: int, count: int) -> str:
    """Return a share, rounded down: only all of it is 100 %."""
    return f"{100 * taken // count} %" if count else "none"


def stretch(left: LeftLines) -> str:
    """Return the numbers of lines: 12, or 12-20."""
    return str(left.first) if left.first == left.last else f"{left.first}-{left.last}"


def by_need(coverage: SourceCoverage) -> list[SourceFile]:
    """Return the files, those of which most lines are left first."""
    return sorted(coverage.files, key=lambda file: (file.lines_taken - file.lines, file.name))


def totals(coverage: SourceCoverage) -> str:
    """Return how much of all files was run, in words."""
    files = coverage.files
    lines = sum(file.lines_taken for file in files), sum(file.lines for file in files)
    branches = sum(file.branches_taken for file in files), sum(file.branches for file in files)
    return (
        f"{percent(*lines)} of {counted(lines[1], 'line')},"
        f" {percent(*branches)} of {counted(branches[1], 'branch', 'branches')},"
        f" in {counted(len(files), 'file')}"
    )


def lost(coverage: SourceCoverage) -> str:
    """Return what is said of servers that could not write what they had counted."""
    if not coverage.lost:
        return ""
    servers = counted(coverage.lost, "server")
    return f"not counted: what {servers} ran until ended by a signal"


def coverage_lines(coverage: SourceCoverage | None, most: int | None) -> Iterator[str]:
    """Yield lines for a terminal, of at most so many files."""
    if coverage is None:
        return
    if coverage.reason:
        yield f"coverage: none, as {coverage.reason}"
        return
    yield f"coverage: {totals(coverage)}"
    files = by_need(coverage)
    for file in files[:most]:
        line = f"  {file.name}: {percent(file.lines_taken, file.lines)}"
        if file.left:
            line += f"; not reached: {', '.join(map(stretch, file.left))}"
        yield line if len(line) <= LONGEST else f"{line[:LONGEST].rpartition(',')[0]}, …"
    if more := files[most:] if most is not None else []:
        yield f"  and {counted(len(more), 'more file')}: -v shows all"
    if said := lost(coverage):
        yield f"  {said}"
