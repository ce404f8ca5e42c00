"""The probe of a launched server: can its clock be moved, without any doubt?

Programs differ in where they get the time from, and in how they wait for it: some look at several
clocks, some have a tick of their own that must come for anything to happen, and that is worked off
in a burst when many of them were missed. All of that is tried before the tests rely on it; where
there is a doubt, time is left alone.
"""

from __future__ import annotations

import contextlib
import time

from conformance import yamlish
from conformance.target.address import Address, ask, connect, visit
from conformance.target.clock import GRANULARITY, FakeClock
from conformance.target.learnt import Learnt
from conformance.target.sanitizers import SANITIZERS, has_sanitizer
from conformance.target.silences import STATS_TOLD, Silences, awaited
from conformance.target.transport import Transport
from reference_server.wire import ProtocolError, Reply, ReplyReader

_IN_TIME = 2.0
"""Seconds of real time within which a server does what is due."""
_EARLY = 0.02
"""Seconds of real time within which a reply would be seen that comes before its time."""
_STILL = 0.25
"""Seconds of real time within which a server works off what it has missed, or begins to."""
_DAY = 86400
_AHEAD, _BEYOND = 600, 0.1
"""Seconds before a time, and after it: a server that is a bit early or late is for the tests."""
_TUBE = b"conformance-clock"
_PAUSE = b"pause-tube default 0"
_DOES_NOT_FOLLOW = "the launched server does not follow libfaketime"
_LOCKS_UP = "under libfaketime, a server built with a sanitizer may wait for itself for ever"


def _unanswered(line: bytes) -> str:
    return f"under libfaketime, the launched server does not answer {line.split()[0].decode()}"


PAUSE_UNANSWERED = _unanswered(_PAUSE)
"""The reason that is tried last: all else was as the clock says."""


class _Doubt(Exception):
    """The clock must not be moved; the text says why."""


def why_not(
    address: Address, clock: FakeClock, pid: int, limit: float, learnt: Learnt | None = None
) -> str:
    """Return why the clock of a server just launched cannot be moved; empty if it can.

    A reply that does not depend on the clock may take ``limit`` seconds. ``learnt``: as for visits.
    """
    if not clock.read_back(pid):
        return "nothing tells what the launched server's clock shows under libfaketime"
    learnt = learnt or Learnt()
    # libfaketime frees memory while it keeps others from asking for the time, and sometimes the
    # allocator of a sanitizer asks just then; a probe would not see it.
    if has_sanitizer(pid, SANITIZERS):
        return _LOCKS_UP
    try:
        with (
            visit(address, limit, learnt) as holder,
            visit(address, limit, learnt) as waiting,
        ):
            probe = _Probe(holder, waiting, clock, limit, learnt.silences)
            try:
                probe.run()
            except TimeoutError:
                return _unanswered(probe.asked)
    except _Doubt as doubt:
        return str(doubt)
    except (OSError, EOFError, ProtocolError, ValueError, KeyError, IndexError):
        return _DOES_NOT_FOLLOW
    return ""


def never_pauses(address: Address, limit: float, learnt: Learnt) -> bool:
    """Return whether a server whose clock nobody moves does not answer pause-tube either.

    It is given ``limit`` seconds; that they were in vain is noted in ``learnt``.
    """
    try:
        with Transport(connect(address, limit)) as client:
            ask(client, _PAUSE, limit)
    except TimeoutError:
        learnt.silences.note(awaited(_PAUSE, "PAUSED"), limit)
        return True
    except (OSError, EOFError):
        learnt.silences.lost(_PAUSE)
        return True
    except ProtocolError:
        pass
    return False


class _Probe:
    """Two clients of the server; ``holder`` is always answered at once, ``waiting`` waits."""

    def __init__(
        self,
        holder: Transport,
        waiting: Transport,
        clock: FakeClock,
        limit: float,
        silences: Silences,
    ) -> None:
        self._holder = holder
        self._waiting = waiting
        self._clock = clock
        self._limit = limit
        self._silences = silences
        self.asked = b""
        """The line that was asked last."""

    def run(self) -> None:
        """Raise :class:`_Doubt` if something does not happen as the clock says."""
        self._has_tubes = self._ask(b"use " + _TUBE) == "USING"
        if self._has_tubes:
            # In default, there may be jobs already.
            for line in (b"watch " + _TUBE, b"ignore default"):
                self._waiting_asks(line)
        # Some never come to the end of no time while the clock stands still.
        self._waiting.send(b"reserve-with-timeout 0\r\n")
        self._must(self._says(_IN_TIME), "under libfaketime, a timeout of 0 seconds never ends")
        job = self._a_day_passes()
        self._timeouts_end(job)
        if self._has_tubes:
            for before in (b"0", b"3600"):
                self._pause_of_zero_ends(before)

    def _a_day_passes(self) -> bytes:
        """Look at a job that is delayed for a day, and give its id."""
        job = self._put(_DAY)
        try:
            up = self._uptime()
        except TimeoutError:
            # Other tests tell of a server that is silent there.
            self._silences.note(STATS_TOLD, self._limit)
            up = None
        then = self._clock.time() + _DAY - _AHEAD
        self._clock.move(_DAY - _AHEAD)
        self._stands_still(then)
        self._must(not self._is_ready(job), _DOES_NOT_FOLLOW)
        self._clock.move(_AHEAD + _BEYOND)
        self._must(self._is_ready(job), _DOES_NOT_FOLLOW)
        if up is not None and (later := self._uptime()) is not None:
            self._must(abs(later - up - _DAY) <= 1, _DOES_NOT_FOLLOW)
        return job

    def _stands_still(self, expected: float) -> None:
        """Expect that the clock shows this, and go on showing it when nobody moves it."""
        end = time.monotonic() + _STILL
        while (left := end - time.monotonic()) > 0:
            ahead = self._clock.time() - expected
            runs = (
                f"under libfaketime, the launched server's clock runs {ahead:.3f} s ahead by itself"
            )
            self._must(ahead < GRANULARITY, runs)
            time.sleep(min(left, 0.01))

    def _timeouts_end(self, job: bytes) -> None:
        """Expect that a timeout of an hour, or else a time to run of two, end in time.

        Some programs look at one clock for delays, and at another for timeouts.
        """
        self._clock.settle()
        if self._has_tubes:
            self._ask(b"watch " + _TUBE)
            self._ask(b"ignore default")
        self._must(self._reserves() == job, _DOES_NOT_FOLLOW)
        seconds = 3600
        self._waiting.send(b"reserve-with-timeout 3600\r\n")
        self._clock.settle()
        if self._says(_EARLY):
            # It does not know that; but the job times out.
            seconds = 7200
            self._waiting.send(b"reserve\r\n")
            self._clock.settle()
        self._clock.move(seconds - _AHEAD)
        self._must(not self._says(_EARLY), _DOES_NOT_FOLLOW)
        self._clock.move(_AHEAD + _BEYOND)
        self._must(self._says(_IN_TIME), _DOES_NOT_FOLLOW)
        for sock in (self._holder, self._waiting):
            with contextlib.suppress(ProtocolError):
                self._reply(sock, b"delete " + job)

    def _pause_of_zero_ends(self, before: bytes) -> None:
        """Expect that a client is served after an instant, without the clock being moved."""
        try:
            told = ask(self._holder, b"pause-tube %b %b" % (_TUBE, before), _IN_TIME)
        except (OSError, EOFError):
            raise _Doubt(PAUSE_UNANSWERED) from None
        if told.word != "PAUSED":
            return
        job = self._put(0)
        self._waiting.send(b"reserve\r\n")
        if before != b"0":
            self._ask(b"pause-tube %b 0" % _TUBE)
        self._must(self._says(_IN_TIME), "under libfaketime, a pause of 0 seconds never ends")
        self._waiting_asks(b"delete " + job)

    def _put(self, delay: int) -> bytes:
        reply = self._reply(self._holder, b"put 0 %d 7200 0\r\n" % delay)
        self._must(reply.word == "INSERTED", _DOES_NOT_FOLLOW)
        return str(reply.args[0]).encode()

    def _is_ready(self, job: bytes) -> bool:
        if self._has_tubes:
            return self._dictionary(b"stats-job " + job)["state"] == "ready"
        return self._dictionary(b"stats")["current-jobs-ready"] != "0"

    def _uptime(self) -> int | None:
        told = self._dictionary(b"stats").get("uptime", "")
        return int(told) if told.isdecimal() else None

    def _reserves(self) -> bytes:
        return str(self._reply(self._holder, b"reserve").args[0]).encode()

    def _dictionary(self, line: bytes) -> dict[str, str]:
        return yamlish.dictionary(self._reply(self._holder, line).body or b"")

    def _ask(self, line: bytes) -> str:
        return self._reply(self._holder, line).word

    def _waiting_asks(self, line: bytes) -> None:
        self._reply(self._waiting, line)

    def _reply(self, client: Transport, line: bytes) -> Reply:
        self.asked = line
        return ask(client, line, self._limit, tells_priority=None)

    def _says(self, seconds: float) -> bool:
        """Return whether a reply comes for who waits, within so many seconds of real time."""
        data = self._waiting.receive_within(seconds)
        if not (data or self._waiting.ended):
            return False
        reader = ReplyReader(tells_priority=None)
        reader.receive(data)
        while reader.next_reply() is None:
            data = self._waiting.receive_within(self._limit)
            self._must(bool(data), _DOES_NOT_FOLLOW)
            reader.receive(data)
        return True

    @staticmethod
    def _must(holds: bool, reason: str) -> None:
        if not holds:
            raise _Doubt(reason)
