"""Servers of old profiles, which leave more open than those that follow."""

from __future__ import annotations

from dataclasses import replace

from reference_server.events import Event, Output
from reference_server.model import Model
from reference_server.state import Client
from reference_server.wire import DRAINING, UNKNOWN_COMMAND, Body, Malformed, Put
from tests.variants.documents import FEW_KEYS, edits
from tests.variants.lines import LONG_DELAYS
from tests.variants.orders import chooses, numbers
from tests.variants.times import LATE
from tests.variants.variant import Variant


class _DrainsAtOnce(Model):
    """In drain mode, put is refused when its line comes; what follows is taken for commands."""

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        if self.draining and isinstance(event, Body):
            return [(conn, DRAINING), *super().step(Malformed(UNKNOWN_COMMAND), now, conn)]
        return super().step(event, now, conn)


class _NoTimeToRun(Model):
    def _put(self, conn: Client, put: Put) -> None:
        super()._put(conn, put)
        if conn.incoming and not put.ttr:
            conn.incoming.ttr = 0


class _TubesInTurn(Model):
    """Of all watched tubes, the first that has a job is served, whatever the priorities are."""

    def _next_ids(self, conn: Client) -> list[int]:
        tube = next((tube for tube in conn.watch if tube.ready and not tube.pause), None)
        return [tube.ready[0][1]] if tube else []


_NEWEST_FIRST = chooses("of equal priorities the newest is next", lambda options: options[-1])
_TUBE_BY_TUBE = Variant("the first tube that has a job is served", _TubesInTurn)
_LONG_LINES = Variant(
    "lines of any length", profile=lambda profile: replace(profile, max_line=2**20)
)

OF_OLD: tuple[tuple[str, Variant], ...] = (
    ("1.4", _NEWEST_FIRST),
    ("1.8", _NEWEST_FIRST),
    ("1.2", _TUBE_BY_TUBE),
    ("1.8", _TUBE_BY_TUBE),
    ("1.12", FEW_KEYS),
    ("1.4", _LONG_LINES),
    ("1.10", _LONG_LINES),
    ("1.10", LONG_DELAYS),
    ("0.6", _NEWEST_FIRST),
    ("0.6", numbers("ids high and with gaps", 2**40, lambda: 6)),
    ("0.6", LATE),
    ("0.6", Variant("drains at once", _DrainsAtOnce)),
    ("0.6", Variant("a ttr of 0 is no time", _NoTimeToRun)),
    ("0.6", edits("more keys", lambda yaml: yaml.replace(b"\nage:", b"\nttr: 1\nage:"))),
)
