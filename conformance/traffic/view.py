"""The state of the judge, as a table on a terminal and as a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.table import Table

from conformance.printable import printable
from conformance.traffic.alarms import Alarm
from conformance.traffic.judge import TrafficJudge
from reference_server.state import SECOND
from reports.plots import duration
from reports.words import counted

SHOWN = 5
"""Alarms that are shown, the last ones."""


@dataclass
class Rates:
    """Counts at two times, to tell how fast they grow."""

    at: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    per_second: dict[str, float] = field(default_factory=dict)

    def note(self, at: float, counts: dict[str, int]) -> None:
        """Take the counts of now."""
        passed = at - self.at
        if self.counts and passed > 0:
            self.per_second = {
                name: (count - self.counts.get(name, 0)) / passed for name, count in counts.items()
            }
        self.at, self.counts = at, counts


def table(judge: TrafficJudge, rates: Rates, lag: float, dropped: int) -> Table:
    """Return the live view. ``lag``: seconds by which the judge is behind."""
    shown = Table(title="traffic", title_justify="left", show_header=False)
    shown.add_column("what")
    shown.add_column("count")
    for name, value in rows(judge, rates, lag, dropped):
        shown.add_row(name, value)
    shown.caption = "\n".join(printable(line)[:200] for line in last_lines(judge))
    shown.caption_justify = "left"
    return shown


def rows(judge: TrafficJudge, rates: Rates, lag: float, dropped: int) -> list[tuple[str, str]]:
    """Return the rows of the live view."""
    speed = rates.per_second
    states = ("ready", "delayed", "buried", "reserved", "unknown")
    jobs = ", ".join(f"{judge.known.jobs.labels[state]:,} {state}" for state in states)
    following = jobs if judge.known.is_following else "not followed"
    alarms = judge.known.alarms.counts
    return [
        ("connections", f"{len(judge.known.conversations):,} judged, {dropped:,} dropped"),
        ("requests", f"{judge.requests:,} ({speed.get('requests', 0):,.0f}/s)"),
        ("replies", f"{judge.replies:,} ({speed.get('replies', 0):,.0f}/s)"),
        ("bytes", f"{speed.get('bytes', 0):,.0f}/s"),
        ("jobs", following),
        ("oldest unanswered", oldest(judge)),
        ("judge", f"{lag:.1f} s behind" if lag >= 1 else "up to date"),
        (
            "alarms",
            f"{alarms['server']:,} about the server, {alarms['client']:,} about clients,"
            f" {counted(alarms['suspicion'], 'suspicion')}",
        ),
    ]


def oldest(judge: TrafficJudge) -> str:
    """Return the command that has waited longest for its reply, besides those that may wait."""
    found = min(
        (
            (asked.at, asked.verb or "a malformed line", conversation.name)
            for conversation in judge.known.conversations.values()
            for asked in [next(iter(conversation.asked), None)]
            if asked is not None and not (asked.is_waiting or asked.awaits_body)
        ),
        default=None,
    )
    if found is None:
        return "none"
    at, verb, name = found
    return f"{printable(verb)} of {printable(name)}, {duration((judge.known.now - at) / SECOND)}"


def last_lines(judge: TrafficJudge) -> list[str]:
    """Return the last alarms and the last notice."""
    lines = [one.sentence for one in judge.known.alarms.kept[-SHOWN:]]
    if judge.known.alarms.notices:
        lines.append(judge.known.alarms.notices[-1][1])
    return lines


def lines_of(alarm: Alarm) -> list[str]:
    """Return an alarm as a terminal shows it."""
    titles = {"server": "SERVER", "client": "CLIENT", "suspicion": "SUSPICION"}
    lines = [f"{titles[alarm.about]}  {alarm.kind}, connection {alarm.connection}"]
    lines += [f"  {line}" for line in alarm.context]
    if alarm.expected:
        lines += [f"EXPECTED  {alarm.expected}", f"OBSERVED  {alarm.observed}"]
    else:
        lines.append(f"OBSERVED  {alarm.observed}")
        lines += [f"          {alarm.shown}"] if alarm.shown else []
    return [printable(line) for line in lines]
