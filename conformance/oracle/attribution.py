"""Names what a finding is about: the requirements without which a server would behave like that.

What the clients of a finding have sent is given to the reference server with each of its faults;
where it answers as the target did, the fault's requirement is the one that is broken.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.catalogue import catalogue
from conformance.oracle.reply_comparison import difference
from conformance.transcript import Entry
from reference_server.engine import Engine
from reference_server.faults import FAULTS, NO_FAULT, Fault
from reference_server.profiles import Profile
from reference_server.wire import ProtocolError, ReplyReader

LONGEST = 60
"""Messages of a finding beyond which it is not worth to look."""


class _Link:
    """A client of a server that is played: what it got, and whether its connection has ended."""

    congested = False

    def __init__(self, engine: Engine) -> None:
        tells_priority = engine.model.profile.tells_priority
        self.got, self.seen = ReplyReader(tells_priority), ReplyReader(tells_priority)
        self.closed = False
        self.number = engine.connect(self)

    def write(self, data: bytes) -> None:
        self.got.receive(data)

    def close(self) -> None:
        self.closed = True

    def agrees(self, seen: bytes) -> bool:
        """Whether it got what was seen."""
        self.seen.receive(seen)
        while (reply := self.seen.next_reply()) is not None:
            got = self.got.next_reply()
            if got is None or difference(got, reply) is not None:
                return False
        return True


def broken(entries: Sequence[Entry], profile: Profile) -> list[str]:
    """The requirements whose faults make the reference server behave as a target did."""
    if not 0 < len(entries) <= LONGEST or _behaves(NO_FAULT, entries, profile):
        return []
    known = catalogue()
    faults = [
        fault
        for fault in FAULTS.values()
        if not known[fault.requirement].missing_in(profile.name)
        and _behaves(fault, entries, profile)
    ]
    return list(dict.fromkeys(fault.requirement for fault in faults))


def _behaves(fault: Fault, entries: Sequence[Entry], profile: Profile) -> bool:
    """Whether a server with a fault does what the messages tell."""
    now = 0
    model = fault.model(fault.profile(profile))
    model.next_id = _first_id(entries)
    engine = Engine(model, lambda: now, fault.reader)
    links: dict[str, _Link] = {}
    try:
        for entry in entries:
            if entry.direction == "+":
                now += round(float(entry.data.decode().removesuffix("s")) * 1e9)
                engine.tick()
                continue
            if not entry.connection:
                # What becomes of servers that are started again is another question.
                return False
            link = links.get(entry.connection)
            if link is None:
                link = links[entry.connection] = _Link(engine)
            if entry.direction == ">":
                engine.receive(link.number, entry.data)
            elif entry.direction == "<":
                if not link.agrees(entry.data):
                    return False
            elif entry.data == b"half-closes":
                engine.eof(link.number)
            elif entry.data in (b"closes", b"resets"):
                engine.lost(links.pop(entry.connection).number)
            elif not links.pop(entry.connection).closed:
                return False
        last = links.get(entries[-1].connection)
        return last is None or last.got.next_reply() is None
    except ProtocolError:
        return False


def _first_id(entries: Sequence[Entry]) -> int:
    reader = ReplyReader()
    for entry in entries:
        if entry.direction == "<" and entry.data.startswith(b"INSERTED "):
            reader.receive(entry.data)
            reply = reader.next_reply()
            return int(reply.args[0]) if reply is not None else 1
    return 1
