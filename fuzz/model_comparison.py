"""The comparison of a target's replies with those of the model, for programs that nobody judges.

That is differential testing, and no verdict: what the text leaves unspecified, and what clients do
at the same time, may differ on a server that conforms. A difference is a reason to judge.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import zip_longest

from reference_server.model import Model
from reference_server.partner import Partner
from reference_server.profiles import Profile
from reference_server.wire import ProtocolError, Reply, ReplyReader

NOTHING = "nothing"
"""Stands for a reply that is missing."""
_NO_REPLY = Reply("no reply of the protocol")

Difference = tuple[int, int, str, str]
"""A client, the number of its reply in this turn, and the expected and the observed word.

These are equal if the replies differ in what follows.
"""


class ModelComparison:
    """Compares the replies of a server without jobs; its first job gets the id ``first_id``."""

    def __init__(self, profile: Profile, first_id: int) -> None:
        self._profile = profile
        model = Model(profile, now=time.monotonic_ns())
        model.next_id = first_id
        self._partner: Partner[int] = Partner(model, time.monotonic_ns)
        self._observed: dict[int, bytearray] = {}
        self.is_off = False
        """The state of the target is not known any more, so that nothing is compared."""

    @property
    def next_id(self) -> int:
        """The id of the next job."""
        return self._partner.model.next_id

    def connect(self, number: int) -> None:
        """Let a client connect; an earlier one of this number leaves."""
        self._partner.connect(number)
        self._observed[number] = bytearray()

    def send(self, number: int, data: bytes) -> None:
        """Let a client send bytes."""
        self._partner.send(number, data)

    def half_close(self, number: int) -> None:
        """Let a client send nothing more."""
        self._partner.half_close(number)

    def close(self, number: int) -> None:
        """Let a client leave, if it is connected."""
        self._partner.close(number)
        self._observed.pop(number, None)

    def is_behind(self, number: int) -> bool:
        """Tell whether lines of a client wait: if it leaves, they are executed or not."""
        return self._partner.send(number, b"") > 0

    def observe(self, number: int, data: bytes) -> None:
        """Add bytes that a client of the target has received."""
        self._observed[number] += data

    @property
    def is_ahead(self) -> bool:
        """Return whether more bytes are expected than were observed."""
        return not self.is_off and any(
            len(observed) < len(self._partner.received(number))
            for number, observed in self._observed.items()
        )

    def difference(self) -> Difference | None:
        """Return the first difference between expected and observed replies since the last call.

        Bodies of statistics may differ. After a different number of replies, the comparison is off.
        """
        first = None
        for number, observed in self._observed.items():
            expected = self._partner.read(number)
            if not (self.is_off or first) and expected != observed:
                pairs = zip_longest(self._replies(expected), self._replies(observed))
                for position, (due, came) in enumerate(pairs):
                    if due != came and not _is_statistics(due, came):
                        first = number, position, _word(due), _word(came)
                        break
            observed.clear()
        self.is_off |= first is not None and NOTHING in first
        return first

    def _replies(self, data: bytes | bytearray) -> Iterator[Reply]:
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
