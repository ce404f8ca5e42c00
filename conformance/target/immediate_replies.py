"""Probes for replies that need no time: a server under a moved clock must give them at once.

Some servers notice the end of zero seconds only when their clock moves on. One that does not
notice it in real time either has another defect, which the tests report.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from conformance.target.address import Address, ask
from conformance.target.probe_clients import (
    IN_TIME,
    TUBE,
    ProbeClients,
    UnsafeClock,
    must,
    probe_clients,
    unanswered,
)
from conformance.target.traits import Traits

_RESTS = (0.0, 0.2, 0.45, 0.13, 0.31, 0.07)
"""Seconds before each time that it is asked: no two are as far from a tick."""
_FEW, _LONG = 3, 0.5
"""Times that are enough where each wait is longer than so many seconds."""
_AT_ONCE = 0.1
"""Seconds within which a reply comes at once."""
_STEADY, _STEADY_IF_LONG = 0.02, 0.1
"""Seconds by which waits of one length differ, those for ticks by more; the same of long ones."""
_TIMEOUT_GOES_ON = "under libfaketime, a timeout of 0 seconds never ends"
_PAUSE = b"pause-tube " + TUBE
PAUSE_UNANSWERED = unanswered(_PAUSE)
_PAUSE_FATAL = "under libfaketime, the launched server is lost at pause-tube"


def late_instants(address: Address, limit: float, traits: Traits, pause: float) -> list[str]:
    """Return a reason against moving the clock for each effect that a new server delays.

    A reply may take ``limit`` seconds, that to pause-tube ``pause``. ``traits``: as for visits.
    """
    pauses: list[Callable[[ProbeClients], None]] = [
        partial(_expect_end_of_pause, before, pause) for before in (b"0", b"3600")
    ]
    late: list[str] = []
    for expect in (_expect_end_of_timeout, *pauses):
        try:
            with probe_clients(address, limit, traits) as clients:
                expect(clients)
        except UnsafeClock as doubt:
            late.append(str(doubt))
            if expect in pauses:
                # The other pause would time out, too.
                break
    return late


def _expect_end_of_timeout(clients: ProbeClients) -> None:
    """Expect that a timeout of zero ends, and does not always take the same time for that."""
    waits: list[float] = []
    for rest in _RESTS:
        time.sleep(rest)
        begun = time.monotonic()
        clients.waiting.send(b"reserve-with-timeout 0\r\n")
        must(clients.says(IN_TIME), _TIMEOUT_GOES_ON)
        waits.append(time.monotonic() - begun)
        if waits[-1] < _AT_ONCE:
            return
        if len(waits) == _FEW and min(waits) > _LONG:
            break
    # Where a tick must come, it depends on when it was asked.
    steady = _STEADY_IF_LONG if min(waits) > _LONG else _STEADY
    must(max(waits) - min(waits) > steady, _TIMEOUT_GOES_ON)


def _expect_end_of_pause(before: bytes, limit: float, clients: ProbeClients) -> None:
    """Expect that a client is served an instant after a pause of zero, instead of a longer one."""
    if not clients.has_tubes:
        return
    try:
        reply = ask(clients.holder, b"pause-tube %b %b" % (TUBE, before), limit)
    except TimeoutError:
        raise UnsafeClock(PAUSE_UNANSWERED) from None
    except (OSError, EOFError):
        raise UnsafeClock(_PAUSE_FATAL) from None
    if reply.word != "PAUSED":
        return
    job = clients.put(0)
    clients.waiting.send(b"reserve\r\n")
    if before != b"0":
        clients.ask(b"pause-tube %b 0" % TUBE)
    longer = "" if before == b"0" else " a longer one"
    must(clients.says(IN_TIME), f"under libfaketime, a pause of 0 seconds never ends{longer}")
    clients.delete(job)
