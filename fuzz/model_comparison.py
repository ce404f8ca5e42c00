"""The reference model beside a scout: it is told the same, and says what should come.

That is differential testing, and no verdict: what the text leaves open, and what clients do at the
same time, may differ on a server that conforms. So a discrepancy is but a reason to judge.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from reference_server.engine import Engine
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.wire import ProtocolError, Reply, ReplyReader

NOTHING = "nothing"
"""Stands for a reply that is missing."""
_NO_REPLY = Reply("no reply of the protocol")

Difference = tuple[int, int, str, str]
"""A client, the number of its reply in this turn, the word that should come, and the one that did.

Those are the same if the replies differ in what follows.
"""


@dataclass(slots=True)
class _Client:
    """Both ends of a connection: what should come, and what has come."""

    due: bytearray = field(default_factory=bytearray)
    came: bytearray = field(default_factory=bytearray)
    congested = False

    def write(self, data: bytes) -> None:
        self.due += data

    def close(self) -> None:
        """Do nothing: that a connection ends is not compared."""


class Mirror:
    """A model that is told what a server without jobs is told; its first job gets ``first_id``."""

    def __init__(self, profile: Profile, first_id: int) -> None:
        self._profile = profile
        self._model = Model(profile, now=time.monotonic_ns())
        self._model.next_id = first_id
        self._engine = Engine(self._model, time.monotonic_ns)
        self._clients: dict[int, tuple[int, _Client]] = {}
        self.is_off = False
        """It does not know any more what should come, so that nothing is compared."""

    @property
    def next_id(self) -> int:
        """The id of the next job."""
        return self._model.next_id

    def open(self, number: int) -> None:
        """Let a client connect; one of that number that was there is gone."""
        self.close(number)
        client = _Client()
        self._clients[number] = self._engine.connect(client), client

    def send(self, number: int, data: bytes) -> None:
        """Let a client send bytes."""
        self._engine.receive(self._clients[number][0], data)

    def half_close(self, number: int) -> None:
        """Let a client send nothing more."""
        self._engine.eof(self._clients[number][0])

    def close(self, number: int) -> None:
        """End a client, if it is there."""
        if number in self._clients:
            self._engine.lost(self._clients.pop(number)[0])

    def is_behind(self, number: int) -> bool:
        """Return whether lines of a client wait: it is open what becomes of them when it leaves."""
        return self._engine.receive(self._clients[number][0], b"") > 0

    def hear(self, number: int, data: bytes) -> None:
        """Take in what a client of the server got."""
        self._clients[number][1].came += data

    @property
    def is_ahead(self) -> bool:
        """Return whether more bytes should have come than have."""
        return not self.is_off and any(
            len(client.came) < len(client.due) for _, client in self._clients.values()
        )

    def difference(self) -> Difference | None:
        """Return the first difference between what clients should get by now, and what they got.

        Bodies of statistics may differ. Where not the same number of replies came, what comes then
        is not compared any more.
        """
        first = None
        for number, (_, client) in self._clients.items():
            if not (self.is_off or first) and client.due != client.came:
                pairs = zip_longest(self._replies(client.due), self._replies(client.came))
                for position, (due, came) in enumerate(pairs):
                    if due != came and not _is_statistics(due, came):
                        first = number, position, _word(due), _word(came)
                        break
            client.due.clear()
            client.came.clear()
        self.is_off |= first is not None and NOTHING in first
        return first

    def _replies(self, data: bytearray) -> Iterator[Reply]:
        reader = ReplyReader.of(self._profile)
        reader.receive(bytes(data))
        try:
            while (reply := reader.next_reply()) is not None:
                yield reply
        except ProtocolError:
            yield _NO_REPLY


def _word(reply: Reply | None) -> str:
    return NOTHING if reply is None else reply.word


def _is_statistics(due: Reply | None, came: Reply | None) -> bool:
    return due is not None and came is not None and due.word == came.word == "OK"
