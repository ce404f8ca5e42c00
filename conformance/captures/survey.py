"""The first pass over a capture: its servers, and everything that it does not show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from conformance.captures.flows import Flows
from conformance.captures.reassembly import What
from conformance.captures.segments import Endpoint, TcpSegment
from conformance.captures.servers import ServerSearch
from reference_server.profiles import Profile
from reference_server.state import SECOND

MOST_LOSSES = 200_000
"""Losses that are kept; with more, no job is followed."""
_AT_START = SECOND
"""Nanoseconds after the first segment in which connections that had begun before usually show."""
_BEFORE = SECOND
"""Nanoseconds before the first segment of a client in which it may have waited for jobs."""


class Unseen(NamedTuple):
    """A conversation that is not seen from a time on: because of a gap, or up to its first segment.

    ``since``: nanoseconds.
    """

    since: int
    conn: int
    opener: Endpoint
    other: Endpoint
    what: What


@dataclass
class Survey:
    """Findings about a whole capture. ``losses``: in the order of their times.

    ``disorder``: within how many segments it is out of order. ``dropped``: packets that the capture
    has counted and does not have. ``is_lossy``: bytes are missing, so that others may be, too.
    """

    servers: frozenset[Endpoint] = frozenset()
    losses: list[Unseen] = field(default_factory=list)
    connections: int = 0
    disorder: int = 0
    dropped: int = 0
    is_lossy: bool = False
    has_requests_only: bool = False
    has_too_many_losses: bool = False


def survey(flows: Flows, segments: Iterable[TcpSegment], profile: Profile) -> Survey:
    """Return the survey of a capture."""
    search = ServerSearch(profile)
    result = Survey()
    start = 0
    for found in flows.parts(segments):
        at, conn, opener, other, part = found
        start = start or at
        search.take(found)
        if part.what is What.GAP:
            result.is_lossy |= not part.is_cut
            since = part.since
        elif part.what is What.LOST:
            since = part.since
            result.is_lossy = True
        elif part.what is What.MIDDLE:
            since = 0 if at - start < _AT_START else at - _BEFORE
        else:
            continue
        if len(result.losses) < MOST_LOSSES:
            result.losses.append(Unseen(since, conn, opener, other, part.what))
        else:
            result.has_too_many_losses = True
    if result.is_lossy:
        # The start of a conversation may be lost, too, and requests long before its first segment.
        result.losses = [
            one._replace(since=0) if one.what is What.MIDDLE else one for one in result.losses
        ]
    result.connections, result.disorder = flows.count, flows.disorder
    result.servers = search.servers
    result.has_requests_only = search.has_requests_only
    losses = (one for one in result.losses if {one.opener, one.other} & result.servers)
    result.losses = sorted(losses, key=lambda one: one.since)
    return result
