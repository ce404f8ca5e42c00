"""Faults of endurance: what grows with each use of a server, or never ends."""

from __future__ import annotations

from reference_server.connection import ServedConnection
from reference_server.faults.registry import fault


@fault("endurance.idle-cpu", "the end of a client that waits for a job is handled for ever")
class HandlesEndForEver(ServedConnection):
    def ends(self) -> None:
        if self._engine.model.is_waiting(self._number):
            self._handle_again()
        super().ends()

    def _handle_again(self) -> None:
        self.loop.call_soon(self._handle_again)
