"""The results of judged traffic: sentences, exit code, and the files of a report."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from conformance.printable import printable
from conformance.traffic.judge import TrafficJudge
from reference_server.state import SECOND
from reports.files import replace
from reports.traffic import Traffic, TrafficAlarm, traffic_page
from reports.words import counted


class Totals:
    """Counts of events, besides those of the judge."""

    def __init__(self) -> None:
        self.first = self.last = 0
        self.connections = self.received_bytes = 0
        self.longest_lag = 0.0


def results(title: str, judge: TrafficJudge, totals: Totals) -> Traffic:
    """Return the results of traffic."""
    alarms = judge.known.alarms
    return Traffic(
        title=title,
        profile=judge.known.profile.name,
        seconds=(totals.last - totals.first) / SECOND,
        connections=totals.connections,
        requests=judge.requests,
        replies=judge.replies,
        received_bytes=totals.received_bytes,
        unjudged=judge.known.unjudged,
        longest_lag=totals.longest_lag,
        alarms=[
            TrafficAlarm(
                about=one.about,
                kind=one.kind,
                at=_iso(one.at),
                connection=printable(one.connection),
                expected=printable(one.expected),
                observed=printable(one.observed),
                shown=one.shown,
                context=[printable(line) for line in one.context],
            )
            for one in alarms.kept
        ],
        counts={str(about): count for about, count in alarms.counts.items()},
        kinds=dict(alarms.of_kind),
        notices=[
            f"{_iso(at)}: {printable(said)}" if at else printable(said)
            for at, said in alarms.notices
        ],
    )


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def write(traffic: Traffic, folder: Path) -> None:
    """Write the files of a report; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    text = traffic.model_dump_json(indent=1) + "\n"
    replace(folder / "traffic.json", text.encode())
    replace(folder / "traffic.html", traffic_page(traffic).encode())


def sentences(traffic: Traffic) -> list[str]:
    """Return what is printed at the end."""
    return [*summary_lines(traffic), *notes(traffic)]


def notes(traffic: Traffic) -> list[str]:
    """Return the notices about what could not be judged, each once."""
    return [f"note: {notice}" for notice in dict.fromkeys(traffic.notices)]


def summary_lines(traffic: Traffic) -> list[str]:
    """Return sentences about all that was judged, and about all alarms."""
    counts = traffic.counts
    lines = [
        f"judged by profile {traffic.profile}: {counted(traffic.connections, 'connection')},"
        f" {counted(traffic.requests, 'request')}, {traffic.replies:,} replies",
        f"{counted(counts.get('server', 0), 'alarm')} about the server,"
        f" {counts.get('client', 0):,} about clients,"
        f" {counted(counts.get('suspicion', 0), 'suspicion')}",
    ]
    if traffic.unjudged:
        lines.append(f"not judged to the end: {counted(traffic.unjudged, 'conversation')}")
    if traffic.longest_lag >= 1:
        lines.append(f"the judge was up to {traffic.longest_lag:.1f} s behind")
    return lines
