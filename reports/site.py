"""A static site of many results: matrices, and a page for each server and requirement.

Addresses are made of slugs alone, and stay: ``servers/SERVER.html#REQUIREMENT`` shows what the
newest run on a server found, ``requirements/REQUIREMENT.html`` what all servers do.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from reports.badge import endpoint, svg
from reports.comparison import UNDECIDED, ResultsComparison, Row
from reports.files import replace
from reports.html import GLYPHS, STYLES, page, report_values
from reports.lines import Line, Value, line
from reports.results import RequirementRecord, Results, ResultsError
from reports.scale import Scale, scale_page
from reports.servers import Program, ServerHistory, programs
from reports.shares import by_section, share
from reports.slugs import natural, shortened
from reports.verdicts import LEVELS, Verdict
from reports.words import counted

MOST_REQUIREMENTS = 5_000
MOST_CELLS = 100_000
"""Requirements times servers for which a page has room."""
_KINDS = (("server", ""), ("client library", "client libraries"))
"""The kinds of targets, and many of each: no client library, a client library."""
_STYLES = (*STYLES, "site/site.css")


@dataclass(frozen=True)
class Site:
    """The pages about servers."""

    servers: Sequence[ServerHistory]
    measurements: Sequence[Scale] = ()
    """Measurements of growth, which are on a page of their own."""

    @cached_property
    def comparison(self) -> ResultsComparison:
        """The newest results of all; raises :class:`ResultsError` if they are too many."""
        known = {r.slug for server in self.servers for r in server.newest.requirements}
        if len(known) > min(MOST_REQUIREMENTS, MOST_CELLS // len(self.servers)):
            raise ResultsError(
                f"a site has no room for {counted(len(known), 'requirement')} of"
                f" {counted(len(self.servers), 'server')}"
            )
        return ResultsComparison.of([server.newest for server in self.servers])

    @cached_property
    def rows(self) -> dict[str, Row]:
        """The requirements that have a page."""
        rows = (row for rows in self.comparison.sections.values() for row in rows)
        return {row.requirement.slug: row for row in rows}

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield all files, with their text."""
        yield "index.html", self._index()
        yield "requirements.html", self._requirements()
        for slug, row in self.rows.items():
            yield f"requirements/{slug}.html", self._requirement(row)
        for server in self.servers:
            yield f"servers/{server.slug}.html", self._server(server)
            yield f"badges/{server.slug}.svg", svg(server.newest)
            yield f"badges/{server.slug}.json", endpoint(server.newest)
        for program in programs(self.servers).values():
            yield f"programs/{program.slug}.html", self._program(program)
        if self.measurements:
            yield "growth.html", scale_page(self.measurements)

    def _index(self) -> str:
        newest = [server.newest for server in self.servers]
        kinds: dict[tuple[str, str], list[ServerHistory]] = {}
        for server in self.servers:
            kinds.setdefault(_KINDS[server.newest.target.is_client], []).append(server)
        counts = [counted(len(kinds[kind]), *kind) for kind in _KINDS if kind in kinds]
        return _page(
            "index",
            ["url.js", "site/index.js", "site/sort.js"],
            servers=self.servers,
            measured=[server.name for one in self.measurements for server in one.servers],
            counts=" and ".join(counts),
            # A client library has requirements of its own.
            tables=[
                (noun, kinds[noun, many], _sections(kinds[noun, many]))
                for noun, many in _KINDS
                if (noun, many) in kinds
            ],
            words=sorted({results.verdict.word for results in newest}),
            profiles=sorted({shortened(r.target.profile) for r in newest}, key=natural),
        )

    def _requirements(self) -> str:
        return _page(
            "requirements",
            ["url.js", "site/requirements.js", "site/sort.js"],
            servers=self.servers,
            comparison=self.comparison,
            pages=self.rows,
            levels=LEVELS,
            undecided=UNDECIDED,
        )

    def _requirement(self, row: Row) -> str:
        verdicts: dict[Verdict, list[tuple[ServerHistory, RequirementRecord]]] = {
            word: [] for word in GLYPHS
        }
        for server, found in zip(self.servers, row.found, strict=True):
            if found:
                verdicts[found.verdict].append((server, found))
        seen = {word: found for word, found in verdicts.items() if found}
        return _page("requirement", root="../", row=row, verdicts=seen)

    def _server(self, server: ServerHistory) -> str:
        badge = base64.b64encode(svg(server.newest).encode()).decode()
        values = report_values(server.newest) | {"elsewhere": self.rows}
        return _page(
            "server",
            ["url.js", "report.js", "site/sort.js"],
            policy="; img-src data:",
            root="../",
            server=server,
            badge=badge,
            pages=self.rows,
            rows=[(server, step) for step in server.steps],
            lines=_lines(server.runs, lambda results: f"{results.run.date:%Y-%m-%d}"),
            **values,
        )

    def _program(self, program: Program) -> str:
        rows = [(server, step) for server in program.servers[::-1] for step in server.steps]
        return _page(
            "program",
            ["site/sort.js"],
            root="../",
            program=program,
            pages=self.rows,
            rows=rows,
            lines=_lines(program.versions, lambda results: results.target.version),
        )


def write_site(site: Site, folder: Path) -> tuple[int, int]:
    """Write all files, and return how many they are, and their bytes; raise OSError."""
    count = size = 0
    for name, text in site.files():
        path, data = folder / name, text.encode("utf-8", "replace")
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, data)
        count += 1
        size += len(data)
    return count, size


def _page(name: str, scripts: Sequence[str] = (), **values: Any) -> str:
    defaults = {"root": "", "here": f"{name}.html", "styles": _STYLES}
    return page(f"site/{name}.html", scripts, **defaults | values)


def _sections(found: Sequence[ServerHistory]) -> list[str]:
    """Return the sections of the requirements of all, in their order."""
    return [*dict.fromkeys(chain(*(by_section(server.newest) for server in found)))]


def _lines(runs: Sequence[Results], label: Callable[[Results], str]) -> list[Line]:
    """Return the shares over runs, a line for each level."""
    lines = []
    for level in LEVELS[:2]:
        values = [
            Value(
                label(results),
                share(results.requirements, level),
                f"{shortened(results.target.version)}, {results.run.date:%Y-%m-%d}",
            )
            for results in runs
        ]
        if drawn := line(f"Requirements met, {level}", values):
            lines.append(drawn)
    return lines
