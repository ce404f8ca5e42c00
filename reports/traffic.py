"""The report of live traffic: what was judged, what was not, and each alarm."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from reports.html import page


class TrafficAlarm(BaseModel):
    """A finding; ``at``: UTC, as ISO 8601 has it. ``shown``: bytes, the wrong one marked."""

    about: str
    kind: str
    at: str
    connection: str
    expected: str
    observed: str
    shown: str = ""
    context: Sequence[str] = ()


class Traffic(BaseModel):
    """The results of a proxy, or of a capture. ``seconds``: from the first event to the last.

    ``unjudged``: conversations that were not judged to their end.
    """

    title: str
    profile: str
    seconds: float
    connections: int
    requests: int
    replies: int
    received_bytes: int
    unjudged: int
    longest_lag: float
    alarms: Sequence[TrafficAlarm] = ()
    counts: dict[str, int] = {}
    kinds: dict[str, int] = {}
    notices: Sequence[str] = ()


def traffic_page(traffic: Traffic) -> str:
    """Return the page of a report of traffic."""
    return page("traffic.html", [], traffic=traffic)
