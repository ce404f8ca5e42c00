"""Servers and their versions: which results belong together, in order of date.

A server is a name, as the heads of tables have it; so its address stays, whatever is added. Results
of the same name are its history.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from reports.comparison import ResultsDifference
from reports.results import Results
from reports.slugs import natural, shortened, slug


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """A run, and the one before of the same server."""

    results: Results
    before: Results | None

    @property
    def change(self) -> ResultsDifference | None:
        """The difference, if there is a run before that was judged by the same profile."""
        if self.before is None or self.before.target.profile != self.results.target.profile:
            return None
        return ResultsDifference.between(self.before, self.results)


@dataclass(frozen=True, slots=True)
class ServerHistory:
    """All runs on a server, the oldest first; only the newest still has its tests."""

    runs: list[Results]

    @property
    def newest(self) -> Results:
        """The run that is shown."""
        return self.runs[-1]

    @property
    def name(self) -> str:
        """The head of its column."""
        return shortened(self.newest.target.name) or "?"

    @property
    def slug(self) -> str:
        """Its part of addresses."""
        return slug(self.newest.target.name)

    @property
    def program(self) -> str:
        """The name without the version."""
        return self.newest.target.title or self.newest.target.label

    @property
    def steps(self) -> list[HistoryStep]:
        """Its history, the newest run first."""
        return [
            HistoryStep(results, before)
            for results, before in zip(self.runs, [None, *self.runs], strict=False)
        ][::-1]


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and those of its versions that were run, each a server of its own."""

    servers: list[ServerHistory]

    @property
    def name(self) -> str:
        """The title of its page."""
        return shortened(self.servers[0].program) or "?"

    @property
    def slug(self) -> str:
        """Its part of addresses."""
        return slug(self.servers[0].program)

    @property
    def versions(self) -> list[Results]:
        """The newest run of each version: in their order, or by date if they are no numbers."""
        runs = sorted((run for server in self.servers for run in server.runs), key=_date)
        newest = {run.target.version: run for run in runs}
        if all(version[:1].isdecimal() for version in newest):
            return [newest[version] for version in sorted(newest, key=natural)]
        return sorted(newest.values(), key=_date)


def servers(all_results: Iterable[Results]) -> list[ServerHistory]:
    """Return the servers of runs in the order of their names.

    Of two results of one run, those that come first are kept.
    """
    known: dict[str, dict[tuple[datetime, float], Results]] = {}
    for results in all_results:
        runs, date = known.setdefault(results.target.name, {}), _date(results)
        if date not in runs:
            older = min(date, max(runs, default=date))
            runs[date] = results
            if len(runs) > 1:
                # Thousands of tests of each of many runs need not be kept.
                runs[older] = runs[older].model_copy(update={"tests": []})
    found = [ServerHistory(sorted(runs.values(), key=_date)) for runs in known.values()]
    return sorted(found, key=lambda server: (natural(server.name), server.slug))


def programs(found: Iterable[ServerHistory]) -> dict[str, Program]:
    """Return the programs of servers, by name."""
    known: dict[str, Program] = {}
    for server in found:
        known.setdefault(server.program, Program([])).servers.append(server)
    return known


def _date(results: Results) -> tuple[datetime, float]:
    """Return what no other run of the same server has: when it ended, and what it took."""
    return results.run.date, results.run.seconds
