"""Probes whether the clock of a launched server can be moved safely.

Programs differ in the clocks that they read and in how they wait: some read several clocks, some
act only on a tick of their own, and handle missed ticks in a burst. All of that is probed before
the tests rely on it; if any probe fails, the clock is not moved.
"""

from __future__ import annotations

import time

from conformance import yamlish
from conformance.target.address import Address
from conformance.target.clock import GRANULARITY, FakeClock
from conformance.target.probe_clients import (
    DOES_NOT_FOLLOW,
    IN_TIME,
    TTR,
    ProbeClients,
    UnsafeClock,
    must,
    probe_clients,
)
from conformance.target.sanitizers import SANITIZERS, has_sanitizer
from conformance.target.traits import Traits

_EARLY = 0.02
"""Seconds of real time within which a reply would be seen that comes before its time."""
_STILL = 0.25
"""Seconds of real time within which a server works off what it has missed, or begins to."""
_DAY = 86400
_TIMEOUT = 1800
"""The timeout of a client: some servers count 2**31 microseconds at most, which the tests find."""
_AHEAD, _BEYOND = 600, 0.1
"""Seconds before a time, and after it: a server that is a bit early or late is for the tests."""
_LOCKS_UP = "under libfaketime, a server built with a sanitizer may wait for itself for ever"


def why_not(
    address: Address, clock: FakeClock, pid: int, limit: float, traits: Traits | None = None
) -> str:
    """Return why the clock of a server just launched cannot be moved; empty if it can.

    A reply that does not depend on the clock may take ``limit`` seconds. ``traits``: as for visits.
    """
    if not clock.read_back(pid):
        return "the clock of the launched server cannot be read under libfaketime"
    # libfaketime frees memory while it keeps others from asking for the time, and sometimes the
    # allocator of a sanitizer asks just then; a probe would not see it.
    if has_sanitizer(pid, SANITIZERS):
        return _LOCKS_UP
    try:
        with probe_clients(address, limit, traits or Traits(), clock) as clients:
            _Probe(clients, clock).run()
    except UnsafeClock as doubt:
        return str(doubt)
    return ""


class _Probe:
    """The probe of what depends on time."""

    def __init__(self, clients: ProbeClients, clock: FakeClock) -> None:
        self._clients = clients
        self._clock = clock

    def run(self) -> None:
        """Raise :class:`UnsafeClock` if the server does not act as its clock says."""
        self._timeouts_end(self._a_day_passes())

    def _a_day_passes(self) -> bytes:
        """Return the id of a job that is delayed for a day."""
        job = self._clients.put(_DAY)
        try:
            up = self._uptime()
        except TimeoutError:
            # The survey reports a server that is silent there.
            up = None
        then = self._clock.time() + _DAY - _AHEAD
        self._clock.move(_DAY - _AHEAD)
        self._stands_still(then)
        must(not self._is_ready(job), DOES_NOT_FOLLOW)
        self._clock.move(_AHEAD + _BEYOND)
        must(self._is_ready(job), DOES_NOT_FOLLOW)
        if up is not None and (later := self._uptime()) is not None:
            must(abs(later - up - _DAY) <= 1, DOES_NOT_FOLLOW)
        return job

    def _stands_still(self, expected: float) -> None:
        """Expect that the clock shows this, and go on showing it when nobody moves it."""
        end = time.monotonic() + _STILL
        while (left := end - time.monotonic()) > 0:
            ahead = self._clock.time() - expected
            runs = (
                f"under libfaketime, the launched server's clock runs {ahead:.3f} s ahead by itself"
            )
            must(ahead < GRANULARITY, runs)
            time.sleep(min(left, 0.01))

    def _timeouts_end(self, job: bytes) -> None:
        """Expect that a timeout, or else a TTR, ends in time.

        Some programs read one clock for delays, and another for timeouts.
        """
        self._clock.synchronise()
        must(self._clients.reserve() == job, DOES_NOT_FOLLOW)
        seconds = _TIMEOUT
        self._clients.waiting.send(b"reserve-with-timeout %d\r\n" % _TIMEOUT)
        self._clock.synchronise()
        if self._clients.says(_EARLY):
            # It does not know that; but the job times out.
            seconds = TTR
            self._clients.waiting.send(b"reserve\r\n")
            self._clock.synchronise()
        self._clock.move(seconds - _AHEAD)
        must(not self._clients.says(_EARLY), DOES_NOT_FOLLOW)
        self._clock.move(_AHEAD + _BEYOND)
        must(self._clients.says(IN_TIME), DOES_NOT_FOLLOW)
        self._clients.delete(job)

    def _is_ready(self, job: bytes) -> bool:
        if self._clients.has_tubes:
            return self._dictionary(b"stats-job " + job)["state"] == "ready"
        return self._dictionary(b"stats")["current-jobs-ready"] != "0"

    def _uptime(self) -> int | None:
        seconds = self._dictionary(b"stats").get("uptime", "")
        return int(seconds) if seconds.isdecimal() else None

    def _dictionary(self, line: bytes) -> dict[str, str]:
        return yamlish.dictionary(self._clients.ask(line).body or b"")
