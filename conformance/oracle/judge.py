"""Judges the bytes on the wire as they arrive: an oracle in its fast gear, for bytes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from conformance.oracle.fast_gear import FastGear
from conformance.oracle.oracle import Oracle
from conformance.oracle.reply_comparison import NOTHING, Before
from conformance.oracle.reply_delays import ReplyDelays
from conformance.oracle.unspecified_model import UnspecifiedModel
from conformance.oracle.violation import THE_END, Violation
from conformance.transcript import Counters
from reference_server.profiles import NEWEST, Profile
from reference_server.state import SECOND, KeptJob
from reference_server.wire import ProtocolError, Reply, ReplyReader


class Received(NamedTuple):
    """The replies that a client has got, and those of them that were not certain before."""

    all: list[Reply]
    unforeseen: list[Reply]


class Judge:
    """An oracle for bytes. Its methods take what those of :class:`Oracle` take.

    ``counters``: what a target that nobody else uses has counted so far, in its stats and in those
    of default, and the id of the next job; None if others may use it. ``before``: what it had, and
    keeps. ``fresh``: statistics are as they are now. ``linger``: for how long a client that is gone
    may be counted, in nanoseconds of real time. ``pace``: how late replies may be, if that is
    judged. ``earlier``: jobs of a target that was in use before; None if it was not.
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
        linger: int = 0,
        pace: ReplyDelays | None = None,
        earlier: Sequence[KeptJob] | None = None,
    ) -> None:
        oracle = Oracle(profile, lateness, counters is not None, fresh, pace)
        oracle.before = before
        if earlier is not None:
            oracle.was_used(earlier)
        if counters is not None:
            oracle.adopt(counters)
        oracle.lenient = lenient
        oracle.linger = linger
        self._gear = FastGear(oracle, guess_ids=counters is not None)
        self._readers: dict[int, ReplyReader] = {}
        self._texts = dict(profile.dialect.texts)
        self._owed: list[Reply] = []
        self._owed_bytes: list[bytes] = []

    @property
    def oracle(self) -> Oracle:
        """The oracle, for questions only; judging again replaces it."""
        return self._gear.oracle

    @property
    def model(self) -> UnspecifiedModel:
        """One of the states that the target may be in; callers must not change it."""
        return self._gear.oracle.model

    def missing(self, conn: int) -> int:
        """Return how many bytes a client must still get, at least."""
        owed = [*self._gear.owed(conn)]
        if self._owed != owed:
            self._owed, self._owed_bytes = owed, [reply.spoken(self._texts) for reply in owed]
        # A server may write YAML in fewer bytes than the model: to wait for all of them takes time.
        promised = sum(
            len(data) for one, data in zip(owed, self._owed_bytes, strict=True) if one.word != "OK"
        )
        return max(promised - len(self._readers[conn].pending), 1) if owed else 0

    def owes(self, conn: int) -> int:
        """Return how many replies a client must get now, as far as that is certain."""
        return len(self._gear.owed(conn))

    def owed(self, conn: int, behind: int) -> list[Reply]:
        """Return the owed replies after the first ``behind``."""
        return list(itertools.islice(self._gear.owed(conn), behind, None))

    def forget_gone(self) -> None:
        """Note that all tubes that may linger have had the time to go."""
        self._gear.do("forget_gone", 0)

    def is_answered(self, conn: int) -> bool:
        """Tell whether a client's last reply proves that the target has read all it sent."""
        oracle = self.oracle
        client = oracle.model.connections.get(conn)
        return client is None or (not client.waiting and oracle.is_handled(conn))

    def is_due(self, now: int) -> bool:
        """Tell whether a timer falls due by ``now``."""
        due = self.model.next_due
        return due is not None and due <= now

    def give_up_at(self, end: float) -> None:
        """Set when to give up what is still open, in seconds of the monotonic clock."""
        self.oracle.ends = end

    # ------------------------------------------------------------ what happens

    def connect(self, conn: int) -> None:
        """Note that a client has connected."""
        self._readers[conn] = ReplyReader.of(self.model.profile)
        self._gear.do("connect", 0, conn)

    def sent(self, conn: int, data: bytes, now: int) -> bool:
        """Handle the bytes of a client; tell whether their only outcome is known."""
        return self._gear.sent(conn, data, now)

    def half_close(self, conn: int, now: int) -> None:
        """Note that a client sends nothing more."""
        self._gear.do("half_close", 0, conn, now)

    def close(self, conn: int, now: int) -> None:
        """Note that a client has closed its connection, and does not hear of anything more."""
        del self._readers[conn]
        self._gear.do("close", 0, conn, now)

    def restarted(self) -> None:
        """Note that the target was ended and started again."""
        self._readers.clear()
        self._gear.do("restarted", 0)

    def drains(self, now: int) -> None:
        """Record that the target got the signal to accept no more jobs."""
        self._gear.do("drains", 0, now)

    def moved(self, before: int, now: int) -> None:
        """Note that the target's clock was moved."""
        self._gear.do("moved", 0, before, now)

    def received(self, conn: int, data: bytes, now: int, mark: int = 0) -> Received:
        """Take what a client has got; return the replies."""
        reader = self._readers[conn]
        replies = Received([], [])
        try:
            while data:
                if not reader.pending:
                    data = self._skip_kept(conn, data, now, mark, replies.all)
                reader.receive(data)
                if (reply := reader.next_reply()) is None:
                    break
                self._gear.do("received", mark, conn, reply, now)
                replies.all.append(reply)
                replies.unforeseen.append(reply)
                data = reader.take_back()
        except ProtocolError as error:
            raise Violation(["a reply of the protocol"], str(error), mark) from error
        return replies

    def _skip_kept(
        self, conn: int, data: bytes, now: int, mark: int, replies: list[Reply]
    ) -> bytes:
        """Take in the replies that are as promised to the byte; return what follows them."""
        owed, at = list(self._gear.owed(conn)), 0
        # After the first that differs, the others need not be encoded.
        texts = (
            self._owed_bytes if self._owed == owed else (one.spoken(self._texts) for one in owed)
        )
        for count, encoded in enumerate(texts):
            if not data.startswith(encoded, at):
                del owed[count:]
                break
            at += len(encoded)
        if owed:
            self._gear.kept(conn, owed, now, mark)
            replies += owed
        return data[at:]

    def ended(self, conn: int, now: int, mark: int = 0) -> None:
        """Note that the target has closed a connection."""
        if pending := self._readers[conn].pending:
            observed = f"{THE_END} after {pending!r}"
            raise Violation(["a complete reply"], observed, mark)
        self._gear.do("ended", mark, conn, now)
        del self._readers[conn]

    def is_quiet(self, now: int) -> bool:
        """Tell whether nothing is open, and no timer near: nothing can come."""
        quiet = self.oracle.is_quiet(now)
        if quiet:
            self._gear.do("quiet", 0, now)
        return quiet

    def awaits(self, now: int) -> Sequence[str]:
        """Return what the fast gear still expects; empty if it expects nothing."""
        return self._gear.awaits(now)

    def rest(self, now: int, mark: int) -> None:
        """Make a new checkpoint if it is worth while and the state is certain."""
        if self._gear.has_much:
            self._gear.rest(now, mark)

    def overdue(self, now: int, mark: int) -> None:
        """Check that no reply is overdue; needs reply delays."""
        self._gear.do("overdue", mark, now)

    def quiet(self, now: int, mark: int) -> None:
        """Check that no reply is missing, as the target has had time to answer."""
        self._gear.do("quiet", mark, now)
