"""Clients of a target that take the steps of programs, and judge no reply."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.random_testing.steps import Leave
from conformance.target.target import Target
from conformance.target.transport import Transport


class UnjudgedClients:
    """The clients by number; each connects when it is first needed, and after its end anew."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._transports: dict[int, Transport] = {}

    @property
    def transports(self) -> Mapping[int, Transport]:
        """The connections of the clients that have not left."""
        return self._transports

    def is_connected(self, number: int) -> bool:
        """Tell whether a client has not left, and the target has not hung up on it."""
        return number in self._transports and not self._transports[number].ended

    def connect(self, number: int) -> Transport:
        """Return the connection of a client, which is opened if need be; raises OSError."""
        if not self.is_connected(number):
            self._transports[number] = self._target.connect()
        return self._transports[number]

    def leave(self, step: Leave) -> None:
        """Let a client leave."""
        if step.reset:
            self._transports.pop(step.client).reset()
        elif step.half:
            self._transports[step.client].half_close()
        else:
            self._transports.pop(step.client).close()

    def close(self) -> None:
        """Let all clients leave at once."""
        for transport in self._transports.values():
            transport.close()
        self._transports.clear()
