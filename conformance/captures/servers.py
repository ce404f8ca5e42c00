"""The servers of a capture, recognised by what is said to them and by what they answer."""

from __future__ import annotations

from collections import Counter

from conformance.captures.flows import FlowPart
from conformance.captures.reassembly import What
from conformance.captures.segments import Endpoint
from conformance.traffic.requests import plain_lines
from reference_server.profiles import Profile
from reference_server.wire import CRLF, ProtocolError, ReplyReader

USUAL_PORT = 11300
_WEAK = frozenset((b"delete", b"touch", b"quit", b"DELETED", b"TOUCHED", b"NOT_FOUND"))
"""The words that other protocols have too."""
_MOST_ENDPOINTS = 100_000
MOST_SERVERS = 1_000
"""Servers that are judged: those that answer most."""
_LINE = 300
"""Bytes of a part that are checked."""


class ServerSearch:
    """Counts requests to each endpoint, and replies of it, by the first lines of segments."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._plain = plain_lines(profile)
        self._whole: set[int] = set()
        self._requests: Counter[Endpoint] = Counter()
        self._replies: Counter[Endpoint] = Counter()

    def take(self, found: FlowPart) -> None:
        """Look at the next part."""
        part = found.part
        if part.what is not What.DATA:
            return
        line, end, _ = part.data[:_LINE].partition(CRLF)
        if not end:
            return
        ends = found.opener, found.other
        source, target = ends[part.side], ends[1 - part.side]
        if self._plain.fullmatch(line):
            self._note(self._requests, target, line)
        elif self._is_reply(line):
            self._note(self._replies, source, line)

    def _note(self, counts: Counter[Endpoint], endpoint: Endpoint, line: bytes) -> None:
        is_strong = line.partition(b" ")[0] not in _WEAK or endpoint[1] == USUAL_PORT
        if is_strong and (endpoint in counts or len(counts) < _MOST_ENDPOINTS):
            counts[endpoint] += 1

    def _is_reply(self, line: bytes) -> bool:
        reader = ReplyReader.of(self._profile)
        reader.receive(line + CRLF)
        try:
            reader.next_reply()
        except ProtocolError:
            return False
        return True

    @property
    def servers(self) -> frozenset[Endpoint]:
        """Return the endpoints that are spoken to, and answer, in the protocol."""
        both = self._requests.keys() & self._replies.keys()
        return frozenset(sorted(both, key=lambda one: -self._replies[one])[:MOST_SERVERS])

    @property
    def has_requests_only(self) -> bool:
        """Return whether requests are seen, and no replies."""
        return bool(self._requests) and not self._replies
