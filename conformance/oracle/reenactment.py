"""Re-enacts a transcript on a server with a fault."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import NamedTuple

from conformance.oracle.renaming import rename
from conformance.oracle.reply_comparison import difference
from conformance.oracle.states import NAMING
from conformance.transcript import CLIENT_CLOSES, CLIENT_HALF_CLOSES, CLIENT_RESETS, Entry
from reference_server.faults import Fault
from reference_server.model import Model
from reference_server.partner import Partner
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

    def __init__(self, model: Model) -> None:
        self._model = model
        self._bound: set[int] = set()
        self._new: dict[int, int] = {}

    def bound(self, got: Reply, seen: Reply) -> Reply:
        """Return the server's reply with the id that the target gave to the same job."""
        if got.word != seen.word or got.word not in NAMING:
            return got
        mine, theirs = int(got.args[0]), int(seen.args[0])
        mine = self._new.get(mine, mine)
        if mine != theirs and mine not in self._bound and theirs not in self._model.jobs:
            if mine in self._model.jobs:
                rename(self._model, mine, theirs)
            self._new[mine] = mine = theirs
        self._bound.add(mine)
        return got._replace(args=(mine, *got.args[1:]))


class _Reenactment:
    """A partner with a fault, and what the target's clients have received."""

    def __init__(self, partner: Partner[str]) -> None:
        self.partner = partner
        self._ids = _Ids(partner.model)
        self._observed: dict[str, ReplyReader] = {}
        self.last: dict[str, Reply] = {}
        """The last reply of each connection that was compared."""

    def takes(self, entry: Entry) -> bool:
        """Return whether the server does as a message says, or its client sends it."""
        name = entry.connection
        if name not in self.partner:
            self.partner.connect(name)
            self._observed[name] = ReplyReader.of(self.partner.model.profile)
            self.last.pop(name, None)
        if entry.direction == ">":
            self.partner.send(name, entry.data)
        elif entry.direction == "<":
            return self._agrees(name, entry.data)
        elif entry.data == CLIENT_HALF_CLOSES:
            self.partner.half_close(name)
        else:
            is_closed = self.partner.is_closed(name)
            self.partner.close(name)
            return is_closed or entry.data in (CLIENT_CLOSES, CLIENT_RESETS)
        return True

    def _agrees(self, name: str, data: bytes) -> bool:
        """Return whether a client got these replies."""
        reader, got = self._observed[name], self.partner.replies(name)
        reader.receive(data)
        while (reply := reader.next_reply()) is not None:
            expected = next(got, None)
            if expected is None:
                return False
            if difference(self._ids.bound(expected, reply), reply) is not None:
                return False
            self.last[name] = expected
        return True

    def is_quiet(self, names: Collection[str]) -> bool:
        """Return whether these clients got nothing more."""
        return all(next(self.partner.replies(name), None) is None for name in names)

    def clients(self) -> list[str]:
        """Return the clients that are connected."""
        return [name for name in self._observed if name in self.partner]


def reenacted(fault: Fault, recording: PreparedTranscript, profile: Profile) -> Course:
    """Return how a recording goes on with a server that has a fault.

    Servers that are started again are another question.
    """
    model = fault.model(fault.profile(profile))
    model.next_id = recording.first_id
    now = 0
    partner: Partner[str] = Partner(model, lambda: now, fault.reader)
    server = _Reenactment(partner)
    last: Reply | None = None
    try:
        for entry, time in zip(recording.entries, recording.times, strict=True):
            if time != now:
                now = time
                partner.tick()
            if entry.direction == "+":
                continue
            if not (entry.connection and server.takes(entry)):
                return _OTHER
            last = server.last.get(entry.connection)
        shown = recording.entries[-1]
        # After a reply, there may be others that nobody has read.
        quiet = server.clients() if recording.silent else []
        if shown.direction != "<" and shown.connection in partner:
            quiet.append(shown.connection)
        return Course(server.is_quiet(quiet), last)
    except (ProtocolError, TypeError):
        # A fault may be of a profile in which its command has other arguments.
        return _OTHER


def _first_id(entries: Sequence[Entry], profile: Profile) -> int:
    """Return the id of the first job that the target inserted; 1 if there is none."""
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
