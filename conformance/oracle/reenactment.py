"""The re-enactment of a transcript by a server with a fault."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from conformance.oracle.renaming import rename
from conformance.oracle.reply_comparison import difference
from conformance.oracle.states import NAMING
from conformance.transcript import Entry
from reference_server.engine import Engine
from reference_server.faults import Fault
from reference_server.profiles import Profile
from reference_server.wire import ProtocolError, Reply, ReplyReader


class Course(NamedTuple):
    """The course of a reenactment: does the server agree, and its last reply that was compared."""

    agrees: bool
    last: Reply | None


class PreparedTranscript(NamedTuple):
    """A transcript, prepared once for the re-enactments by all faults.

    ``times``: when each message was sent, in nanoseconds since the first. ``first_id``: the first
    id that the target gave. ``silent``: the clients waited for more, and nothing came.
    """

    entries: Sequence[Entry]
    times: Sequence[int]
    first_id: int
    silent: bool

    @classmethod
    def of(cls, entries: Sequence[Entry], profile: Profile, silent: bool) -> PreparedTranscript:
        """Return the recording of a transcript's messages."""
        times = [round((entry.time - entries[0].time) * 1e9) for entry in entries]
        first_id = _first_id(entries, profile)
        return cls(entries, list(itertools.accumulate(times, max)), first_id, silent)


_OTHER = Course(False, None)


class _Ids:
    """The ids that the target has given to the jobs of the server."""

    def __init__(self, engine: Engine) -> None:
        self._model = engine.model
        self._told: set[int] = set()
        self._new: dict[int, int] = {}

    def bound(self, got: Reply, seen: Reply) -> Reply:
        """Return the server's reply, with the id that the target tells first of the same job."""
        if got.word != seen.word or got.word not in NAMING:
            return got
        mine, theirs = int(got.args[0]), int(seen.args[0])
        mine = self._new.get(mine, mine)
        if mine != theirs and mine not in self._told and theirs not in self._model.jobs:
            if mine in self._model.jobs:
                rename(self._model, mine, theirs)
            self._new[mine] = mine = theirs
        self._told.add(mine)
        return got._replace(args=(mine, *got.args[1:]))


class _Link:
    """A client of a server that is played: what it got, and whether its connection has ended."""

    congested = False

    def __init__(self, engine: Engine, ids: _Ids) -> None:
        profile = engine.model.profile
        self.got, self.seen = ReplyReader.of(profile), ReplyReader.of(profile)
        self.closed = False
        self.last: Reply | None = None
        self._ids = ids
        self.number = engine.connect(self)

    def write(self, data: bytes) -> None:
        self.got.receive(data)

    def close(self) -> None:
        self.closed = True

    def agrees(self, seen: bytes) -> bool:
        """Return whether it got what was seen."""
        self.seen.receive(seen)
        while (reply := self.seen.next_reply()) is not None:
            got = self.got.next_reply()
            if got is None or difference(self._ids.bound(got, reply), reply) is not None:
                return False
            self.last = got
        return True


def reenacted(fault: Fault, recording: PreparedTranscript, profile: Profile) -> Course:
    """Return how a recording goes on with a server that has a fault.

    What becomes of servers that are started again is another question.
    """
    model = fault.model(fault.profile(profile))
    model.next_id = recording.first_id
    now = 0
    engine = Engine(model, lambda: now, fault.reader)
    ids = _Ids(engine)
    links: dict[str, _Link] = {}
    last: Reply | None = None
    try:
        for entry, time in zip(recording.entries, recording.times, strict=True):
            if time != now:
                now = time
                engine.tick()
            if entry.direction == "+":
                continue
            if not entry.connection:
                return _OTHER
            link = links.get(entry.connection)
            if link is None:
                link = links[entry.connection] = _Link(engine, ids)
            if not _takes(engine, links, link, entry):
                return _OTHER
            last = link.last
        shown = recording.entries[-1]
        # Behind a reply, there may be others that nobody has looked at any more.
        heard = set() if shown.direction == "<" else {shown.connection}
        quiet = [link for name, link in links.items() if recording.silent or name in heard]
        return Course(all(link.got.next_reply() is None for link in quiet), last)
    except (ProtocolError, TypeError):
        # A fault may be of a profile in which its command has other arguments.
        return _OTHER


def _takes(engine: Engine, links: dict[str, _Link], link: _Link, entry: Entry) -> bool:
    """Return whether a message is as the server does it, or its client sends it."""
    if entry.direction == ">":
        engine.receive(link.number, entry.data)
    elif entry.direction == "<":
        return link.agrees(entry.data)
    elif entry.data == b"half-closes":
        engine.eof(link.number)
    else:
        del links[entry.connection]
        if entry.data not in (b"closes", b"resets"):
            return link.closed
        engine.lost(link.number)
    return True


def _first_id(entries: Sequence[Entry], profile: Profile) -> int:
    """Return the first id that the target has told of a job that was put; 1 if there is none."""
    readers: dict[str, ReplyReader] = {}
    for entry in entries:
        if entry.direction != "<":
            continue
        reader = readers.setdefault(entry.connection, ReplyReader.of(profile))
        reader.receive(entry.data)
        try:
            while (reply := reader.next_reply()) is not None:
                if reply.word == "INSERTED":
                    return int(reply.args[0])
        except ProtocolError:
            return 1
    return 1
