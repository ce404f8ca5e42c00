"""Judges what went over the wire, byte by byte, as fast as the oracle may be and no less exactly.

The oracle is eager as long as all goes well. What it then does not allow is judged again, from the
last point at which only one state was possible, without haste.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable
from typing import Any

from conformance.oracle.open_model import OpenModel
from conformance.oracle.oracle import Oracle, Violation
from conformance.oracle.reply_comparison import NOTHING, Before
from conformance.oracle.states import Undecided
from conformance.transcript import Counters
from reference_server.profiles import NEWEST, Profile
from reference_server.state import SECOND
from reference_server.wire import ProtocolError, Reply, ReplyReader

_CHECKPOINT = 1000
"""Calls after which a new point is remembered from which to judge again."""


class Judge:
    """An oracle for bytes. Its methods take what those of :class:`Oracle` take.

    ``counters``: what a target that nobody else uses has counted so far, in its stats and in those
    of default, and the id of the next job; None if others may use it. ``before``: what it had, and
    keeps. ``fresh``: statistics are as they are now.
    ``mark`` is any number; a violation has that of the message that shows it. Raises
    :class:`Violation` and Inconclusive.
    """

    def __init__(
        self,
        profile: Profile = NEWEST,
        lateness: int = SECOND // 4,
        counters: Counters | None = None,
        fresh: bool = True,
        lenient: bool = False,
        before: Before = NOTHING,
    ) -> None:
        alone = counters is not None
        self._oracle = Oracle(profile, lateness, alone, fresh, guess_ids=alone)
        if counters is not None:
            self._oracle.adopt(*counters, before)
        self._oracle.lenient = lenient
        self._oracle.eager = self._oracle.hasty = True
        self._readers: dict[int, ReplyReader] = {}
        self._calls: list[tuple[str, int, tuple[Any, ...]]] = []
        self._saved = b""
        self._asked: list[Reply] = []
        self._given: list[bytes] = []
        self._save()

    @property
    def model(self) -> OpenModel:
        """One of the states that the target may be in, to be looked at only."""
        return self._oracle.model

    @property
    def counters(self) -> Counters | None:
        """What the target has counted by now; None if others may use it."""
        return self._oracle.counters

    @property
    def is_settled(self) -> bool:
        """Whether there is one possible state, and nothing is open in it."""
        return self._oracle.is_settled

    @property
    def states(self) -> int:
        """How many states the target may be in."""
        return self._oracle.states

    def missing(self, conn: int) -> int:
        """Bytes that the target must still send to a client, as far as that is certain."""
        promised = sum(map(len, self._encoded(self._oracle.owed(conn))))
        return max(promised - len(self._readers[conn].pending), 1) if promised else 0

    def _encoded(self, replies: Iterable[Reply]) -> list[bytes]:
        """What replies look like; the same are often asked for twice."""
        if self._asked != (asked := [*replies]):
            self._asked, self._given = asked, [reply.encode() for reply in asked]
        return self._given

    def owes(self, conn: int) -> int:
        """How many replies the target must send to a client now, as far as that is certain."""
        return len(self._oracle.owed(conn))

    def owed(self, conn: int, behind: int) -> list[Reply]:
        """Those of them behind so many others."""
        return list(itertools.islice(self._oracle.owed(conn), behind, None))

    def jobs(self) -> set[int]:
        """The ids of all jobs that there may be."""
        return self._oracle.jobs()

    def gone(self) -> set[str]:
        """The tubes that may linger though nothing keeps them."""
        return self._oracle.gone()

    def forget_gone(self) -> None:
        """All those tubes have had the time to go."""
        self._do("forget_gone", 0)

    def holds(self, conn: int) -> bool:
        """Whether a client holds jobs, in any of the possible states."""
        return self._oracle.holds(conn)

    def is_handled(self, conn: int) -> bool:
        """Whether all that a client has sent is handled."""
        return self._oracle.is_handled(conn)

    def is_leaving(self, conn: int) -> bool:
        """Whether what a client has sent, and the target will handle, is to end its connection."""
        return self._oracle.is_leaving(conn)

    def is_answered(self, conn: int) -> bool:
        """Whether the last reply to a client has proved that the target has read all it sent."""
        oracle = self._oracle
        client = oracle.model.connections.get(conn)
        return client is None or (not client.waiting and oracle.is_handled(conn))

    def is_due(self, now: int) -> bool:
        """Whether a timer falls due by ``now``."""
        due = self.model.next_due
        return due is not None and due <= now

    def next_due(self, now: int) -> int | None:
        """When a timer falls due next after ``now``, in any of the possible states."""
        return self._oracle.next_due(now)

    def give_up_at(self, end: float) -> None:
        """From then on, in seconds of the monotonic clock, what is not certain is not judged."""
        self._oracle.ends = end

    # ------------------------------------------------------------ what happens

    def connect(self, conn: int) -> None:
        """A client has connected."""
        self._readers[conn] = ReplyReader(self.model.profile.tells_priority)
        self._do("connect", 0, conn)

    def sent(self, conn: int, data: bytes, now: int) -> bool:
        """A client has sent these bytes; gives whether all that comes of them is known."""
        self._calls.append(("sent", 0, (conn, data, now)))
        try:
            return self._oracle.sent(conn, data, now)
        except Undecided:
            self._again()
            return False

    def half_close(self, conn: int, now: int) -> None:
        """A client sends nothing more."""
        self._do("half_close", 0, conn, now)

    def close(self, conn: int, now: int) -> None:
        """A client has closed its connection, and does not hear of anything more."""
        del self._readers[conn]
        self._do("close", 0, conn, now)

    def restarted(self) -> None:
        """The target was ended and started again."""
        self._readers.clear()
        self._do("restarted", 0)

    def drains(self, now: int) -> None:
        """The target was told to accept no more jobs."""
        self._do("drains", 0, now)

    def moved(self, before: int, now: int) -> None:
        """The target's clock was moved."""
        self._do("moved", 0, before, now)

    def received(self, conn: int, data: bytes, now: int, mark: int = 0) -> list[Reply]:
        """A client has got these bytes; gives those replies that were not certain before."""
        reader = self._readers[conn]
        replies: list[Reply] = []
        try:
            while data:
                if not reader.pending:
                    data = self._skip_kept(conn, data, now, mark)
                reader.receive(data)
                if (reply := reader.next_reply()) is None:
                    break
                self._do("received", mark, conn, reply, now)
                replies.append(reply)
                data = reader.take_back()
        except ProtocolError as error:
            raise Violation(["a reply of the protocol"], str(error), mark) from error
        return replies

    def _skip_kept(self, conn: int, data: bytes, now: int, mark: int) -> bytes:
        """Takes in the replies that are as promised to the byte; gives what follows them."""
        owed, at = list(self._oracle.owed(conn)), 0
        for count, encoded in enumerate(self._encoded(owed)):
            if not data.startswith(encoded, at):
                del owed[count:]
                break
            at += len(encoded)
        if owed:
            self._calls.append(("kept", mark, (conn, owed, now)))
            self._oracle.kept(conn, owed, now)
        return data[at:]

    def ended(self, conn: int, now: int, mark: int = 0) -> None:
        """The target has closed a connection."""
        if pending := self._readers[conn].pending:
            observed = f"the end of the connection behind {pending!r}"
            raise Violation(["a complete reply"], observed, mark)
        self._do("ended", mark, conn, now)
        del self._readers[conn]

    def is_quiet(self, now: int) -> bool:
        """Whether nothing is open, and no timer near: nothing can come."""
        quiet = self._oracle.is_quiet(now)
        if quiet:
            self._calls.append(("quiet", 0, (now,)))
            # All jobs are written down each time.
            many = len(self._calls) > _CHECKPOINT + 5 * len(self.model.jobs)
            if many and not self.model.has_guessed:
                self._save()
        return quiet

    def awaits(self, now: int) -> bool:
        """Whether something must still come, in haste's eyes."""
        try:
            self._oracle.quiet(now)
        except Violation:
            return True
        except Undecided:
            self._again()
            return self.awaits(now)
        self._calls.append(("quiet", 0, (now,)))
        return False

    def quiet(self, now: int, mark: int) -> None:
        """Nothing more has come, though the target has had the time to answer."""
        self._do("quiet", mark, now)

    def _do(self, name: str, mark: int, *args: Any) -> None:
        self._calls.append((name, mark, args))
        try:
            getattr(self._oracle, name)(*args)
        except Undecided:
            self._again()
        except Violation as violation:
            self._again()
            if violation.observed.startswith("INSERTED") and "INSERTED" in violation.expected[0]:
                self._oracle.guess_ids = False
            elif violation.observed.startswith(("RESERVED", "FOUND")):
                self._oracle.guess_order = self.model.profile.first_in_first_out

    # ------------------------------------------------------------ judging again

    def _save(self) -> None:
        self._oracle.hasty = True
        self._saved = pickle.dumps(self._oracle, pickle.HIGHEST_PROTOCOL)
        self._calls.clear()

    def _again(self) -> None:
        """Judge again without haste what has come since the last point that was remembered."""
        try:
            oracle = self._judged(hasty=True)
        except Undecided:
            oracle = self._judged(hasty=False)
        # It was only in haste that it was not allowed.
        oracle.eager, oracle.guess_ids = True, self._oracle.guess_ids
        oracle.guess_order = self._oracle.guess_order
        self._oracle = oracle

    def _judged(self, hasty: bool) -> Oracle:
        """Return an oracle that has judged it all, each command when it is answered."""
        oracle: Oracle = pickle.loads(self._saved)
        oracle.eager, oracle.hasty, oracle.ends = False, hasty, self._oracle.ends
        for name, mark, args in self._calls:
            try:
                getattr(oracle, name)(*args)
            except Violation as violation:
                violation.mark = mark
                raise
        return oracle
