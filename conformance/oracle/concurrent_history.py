"""A history: the commands and replies of clients at work at the same time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from conformance.oracle.transitions import Item, Transitions
from reference_server.events import HalfClose
from reference_server.profiles import NEWEST, Profile
from reference_server.state import SECOND
from reference_server.wire import Body, Command, Malformed, Put, Reply


class Heard(NamedTuple):
    """The ``number``-th reply that a client received; ``mark``: where it is written."""

    at: int
    mark: int
    conn: int
    number: int
    reply: Reply


class ConcurrentHistory(Transitions):
    """The commands and replies of clients since the target had none of their jobs.

    Times are any numbers that grow; no timer may fall due meanwhile.
    """

    def __init__(self, profile: Profile = NEWEST) -> None:
        super().__init__(profile, SECOND)
        self.start = self._first_state()
        """The state before anything is handled; clients are connected."""
        self.asked: dict[int, list[Command | Body | Malformed]] = {}
        """The requests of each client that are answered."""
        self.offered: defaultdict[object, list[tuple[int, int]]] = defaultdict(list)
        """The replies, as clients and numbers, with which each job may have become ready."""
        self._heard: dict[int, list[Heard]] = {}
        self._ended: set[int] = set()

    def connect(self, conn: int) -> None:
        """Note that a client has connected; when makes no difference to others."""
        self._arrived(conn)
        self._heard[conn] = []
        self.asked[conn] = []
        self.start.connect(conn)

    def sent(self, conn: int, data: bytes, now: int) -> None:
        """Note that a client has sent these bytes."""
        client = self.clients[conn]
        client.reader.receive(data)
        while (request := client.reader.next_request()) is not None:
            client.items.append(Item(request, now))
            if not isinstance(request, Put):
                self.asked[conn].append(request)

    def leaves(self, conn: int, now: int) -> None:
        """Note that a client sends nothing more; it may still hear something."""
        client = self.clients[conn]
        client.items.append(Item(HalfClose(), now))
        client.end(now)
        client.leave(now)

    def heard(self, conn: int, reply: Reply, now: int, mark: int) -> None:
        """Note that a client has got a reply; ``mark`` is its position in the transcript."""
        heard = self._heard[conn]
        request = self.asked[conn][len(heard)]
        if reply.word == "INSERTED":
            self.offered[reply.args[0]].append((conn, len(heard)))
        elif isinstance(request, Command) and request.verb == "release":
            self.offered[request.args[0]].append((conn, len(heard)))
        heard.append(Heard(now, mark, conn, len(heard), reply))

    def ended(self, conn: int) -> None:
        """Note that a client that leaves will hear nothing more."""
        self._ended.add(conn)

    def following(self, conn: int, given: Mapping[int, int]) -> Heard | None:
        """Return the next reply that a client has heard; ``given``: how many each got before."""
        heard = self._heard[conn]
        return heard[given[conn]] if given[conn] < len(heard) else None

    def first_following(self, given: Mapping[int, int]) -> Heard | None:
        """Return the next reply that any client has heard."""
        following = (self.following(conn, given) for conn in self.clients)
        return min((heard for heard in following if heard is not None), default=None)

    def has_lost(self, conn: int, heard: Heard | None) -> bool:
        """Tell whether a reply may be lost with the connection, as there is none to be heard."""
        return heard is None and conn in self._ended
