"""The second pass over a capture: each server's judge gets the events that a proxy would see."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from conformance.captures.flows import FlowPart, Flows
from conformance.captures.joining import SILENCE, Joining
from conformance.captures.reassembly import OPENER, OTHER, Part, What
from conformance.captures.segments import Endpoint, TcpSegment, is_loopback, shown
from conformance.captures.survey import Survey
from conformance.traffic.alarms import About
from conformance.traffic.events import Event, Kind
from conformance.traffic.judge import TrafficJudge
from conformance.traffic.summary import Totals
from reference_server.profiles import Profile
from reference_server.state import SECOND

_WHY = {
    What.GAP: "bytes on {} are missing",
    What.MIDDLE: "{} began before the capture",
    What.LOST: "the end of {} is missing",
}
_NOBODY = 0
"""The connection that stands for all those that are not seen."""


class _Conversation:
    """A connection to a server.

    ``client``: the side of the client. ``lost``: how many losses have begun and not ended yet.
    ``joining``: it is seen, and not understood yet.
    """

    __slots__ = ("client", "ends", "is_blocked", "joining", "lost", "name")

    def __init__(self, client: int, name: str) -> None:
        self.client = client
        self.name = name
        self.lost = self.ends = 0
        self.is_blocked = False
        self.joining: Joining | None = None


class JudgedServer:
    """One server of a capture.

    ``followed``: nanoseconds in which the states of jobs were followed. ``joined``: conversations
    that were understood after a gap, or though they had begun before. ``missing``: bytes in gaps.
    """

    def __init__(
        self,
        name: str,
        profile: Profile,
        is_shared: bool = False,
        overdue: About | None = None,
        has_times: bool = True,
    ) -> None:
        self.name = name
        self.judge = TrafficJudge(profile, is_shared, overdue=overdue, has_times=has_times)
        self.totals = Totals()
        self.followed = 0
        self.earlier = self.joined = 0
        self.gaps = self.missing = self.cut = 0
        self.first_gap = ""
        self._profile = profile
        self._conversations: dict[int, _Conversation] = {}
        self._joining: dict[int, _Conversation] = {}
        self._searched = 0

    # ------------------------------------------------------------ losses

    def conversation(self, conn: int, client: int, name: str) -> _Conversation:
        """Return a connection, perhaps one that nothing was seen of yet."""
        found = self._conversations.get(conn)
        if found is None:
            found = self._conversations[conn] = _Conversation(client, name)
        return found

    def loses(self, at: int, conn: int, one: _Conversation, what: What) -> None:
        """Note that what a client says from now on is not seen."""
        self._drops(at, conn, one, what)
        one.lost += 1
        self._stop_joining(conn, one)

    def goes_blind(self, at: int) -> None:
        """Follow no job."""
        self.event(at, _NOBODY, Kind.DROPPED, b"too much is missing")

    def _drops(self, at: int, conn: int, one: _Conversation, what: What) -> None:
        if not one.lost and one.joining is None:
            self.event(at, conn, Kind.DROPPED, _WHY[what].format(one.name).encode())

    def _finds(self, at: int, conn: int, one: _Conversation, what: What) -> None:
        """Note that a conversation is seen again, and may be understood."""
        self._drops(at, conn, one, what)
        one.lost = max(one.lost - 1, 0)
        if not one.lost:
            one.joining = Joining(self._profile)
            self._joining[conn] = one

    def _stop_joining(self, conn: int, one: _Conversation) -> None:
        one.joining = None
        self._joining.pop(conn, None)

    def _joins(self, at: int, conn: int, one: _Conversation) -> None:
        assert one.joining is not None
        self.joined += 1
        self.event(at, conn, Kind.JOINED, one.name.encode())
        if one.is_blocked:
            self.event(at, conn, Kind.BLOCKED)
        if one.joining.unanswered:
            # They were sent at some time before.
            self.judge.take(Event(0, conn, Kind.SENT, one.joining.unanswered))
        self._stop_joining(conn, one)

    def _search(self, at: int) -> None:
        """Find conversations that are understood because they are silent."""
        if at - self._searched > SILENCE // 4:
            self._searched = at
            for conn, one in [*self._joining.items()]:
                if one.joining is not None and one.joining.is_silent(at):
                    self._joins(at, conn, one)

    # ------------------------------------------------------------ parts

    def take(self, at: int, conn: int, one: _Conversation, part: Part) -> None:
        """Judge the next part of a connection."""
        if self._joining:
            self._search(at)
        what, is_client = part.what, part.side == one.client
        if what is What.DATA:
            self._data(at, conn, one, is_client, part.data)
        elif what is What.BEGIN:
            self.event(at, conn, Kind.OPENED, one.name.encode())
        elif what is What.MIDDLE:
            self.earlier += 1
            self.totals.connections += 1
            self._finds(at, conn, one, what)
        elif what is What.GAP:
            self._note_gap(one, is_client, part)
            self._finds(at, conn, one, what)
        elif what is What.END:
            if one.lost or one.joining:
                # Nothing more can be understood of it.
                one.lost += 1
                self._stop_joining(conn, one)
            else:
                self.event(at, conn, Kind.CLIENT_ENDED if is_client else Kind.SERVER_ENDED)
            one.ends += 1
            if one.ends == 2:
                self._ends(at, conn, one, Kind.CLOSED)
        elif what in (What.BLOCKED, What.UNBLOCKED):
            if is_client:
                one.is_blocked = what is What.BLOCKED
                self.event(at, conn, Kind.BLOCKED if one.is_blocked else Kind.UNBLOCKED)
        elif what is What.RESET:
            self._ends(at, conn, one, Kind.RESET, b"client" if is_client else b"server")
        else:
            self._ends(at, conn, one, Kind.CLOSED)

    def _data(self, at: int, conn: int, one: _Conversation, is_client: bool, data: bytes) -> None:
        if one.joining is not None:
            if is_client:
                one.joining.sent(at, data)
            elif one.joining.received(at, data):
                self._joins(at, conn, one)
        elif not one.lost:
            self.event(at, conn, Kind.SENT if is_client else Kind.RECEIVED, data)

    def _ends(self, at: int, conn: int, one: _Conversation, kind: Kind, data: bytes = b"") -> None:
        self.event(at, conn, kind, data)
        self._stop_joining(conn, one)
        del self._conversations[conn]

    def _note_gap(self, one: _Conversation, is_client: bool, part: Part) -> None:
        self.gaps += 1
        self.cut += part.is_cut
        self.missing += part.missing
        if not self.first_gap:
            side = "its client" if is_client else "the server"
            at = datetime.fromtimestamp(part.since / SECOND, UTC).isoformat(timespec="milliseconds")
            self.first_gap = f"{part.missing:,} bytes of {side} on {one.name}, after {at}"

    def event(self, at: int, conn: int, kind: Kind, data: bytes = b"") -> None:
        """Judge an event, and count it."""
        totals = self.totals
        totals.first = totals.first or at
        if self.judge.known.is_following:
            self.followed += at - (totals.last or at)
        totals.last = at
        totals.connections += kind is Kind.OPENED
        if kind is Kind.RECEIVED:
            totals.received_bytes += len(data)
        self.judge.take(Event(at, conn, kind, data))


def judged(
    flows: Flows, segments: Iterable[TcpSegment], found: Survey, profile: Profile
) -> list[JudgedServer]:
    """Return the servers of a capture, judged."""
    servers = {}
    for endpoint in sorted(found.servers):
        overdue: About = "server" if is_loopback(endpoint) else "suspicion"
        servers[endpoint] = JudgedServer(
            shown(endpoint),
            profile,
            bool(found.dropped),
            None if found.is_lossy or found.dropped else overdue,
            not found.disorder,
        )
    losses = iter(found.losses)
    loss = next(losses, None)
    is_blind = False
    for at, conn, opener, other, part in _delayed(flows, segments, found.disorder):
        if found.has_too_many_losses and not is_blind:
            is_blind = True
            for one in servers.values():
                one.goes_blind(at)
        while loss is not None and loss.since <= at:
            server, conversation = _found(servers, loss.conn, loss.opener, loss.other)
            server.loses(at, loss.conn, conversation, loss.what)
            loss = next(losses, None)
        if opener in servers or other in servers:
            server, conversation = _found(servers, conn, opener, other)
            server.take(at, conn, conversation, part)
    return [*servers.values()]


def _delayed(flows: Flows, segments: Iterable[TcpSegment], disorder: int) -> Iterator[FlowPart]:
    """Yield parts; in a capture that is out of order, requests before what may come after them."""
    late: deque[tuple[int, FlowPart]] = deque()
    for found in flows.parts(segments):
        while late and late[0][0] <= flows.taken:
            yield late.popleft()[1]._replace(at=flows.now)
        part = found.part
        is_sent = part.side == OPENER and part.what is What.DATA
        if not disorder or is_sent or part.what is What.BEGIN:
            yield found
        else:
            late.append((flows.taken + 2 * disorder, found))
    for _, found in late:
        yield found._replace(at=flows.now)


def _found(
    servers: Mapping[Endpoint, JudgedServer], conn: int, opener: Endpoint, other: Endpoint
) -> tuple[JudgedServer, _Conversation]:
    """Return the server and the conversation of a connection."""
    if other in servers:
        server = servers[other]
        return server, server.conversation(conn, OPENER, shown(opener))
    server = servers[opener]
    return server, server.conversation(conn, OTHER, shown(other))
