"""Servers that conform, and use CPU time and memory as runtimes with timers and garbage do."""

from __future__ import annotations

from reference_server.events import Event, Output
from reference_server.model import Model
from reference_server.serve import Server
from tests.variants.variant import Variant

EVERY = 0.005
"""Seconds after which a server looks whether there is something to do."""
GARBAGE, KEPT = 5000, 2**23
"""Bytes of garbage that each event leaves, and of how many some are collected."""


class _Polls(Server):
    def before_wait(self) -> float | None:
        wait = super().before_wait()
        return EVERY if wait is None else min(wait, EVERY)


class _Collects(Model):
    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._garbage: list[bytes] = []

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        self._garbage.append(b"a" * GARBAGE)
        if len(self._garbage) > KEPT // GARBAGE:
            del self._garbage[::2]
        return super().step(event, now, conn)


ENDURANCE = (
    Variant("looks every 5 milliseconds whether there is something to do", server=_Polls),
    Variant("garbage is collected when there are 8 megabytes of it", model=_Collects),
)
