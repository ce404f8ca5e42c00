"""The marks of a run on a target: the names of its tubes, and its connections."""

from __future__ import annotations

import itertools
import re
import secrets
import threading
import weakref

from conformance.target.transport import Transport
from conformance.transcript import OWN_TUBES

NAMES = OWN_TUBES
"""The beginning of the names of our tubes."""
OURS = re.compile(rf"{NAMES}[0-9a-f]{{8}}-.+")
"""The tubes of all runs of the suite."""


class Footprint:
    """Everything that this process leaves on a shared server.

    ``run``: the name of the run, the same in all of its processes.
    """

    def __init__(self) -> None:
        self.run = secrets.token_hex(3)
        self._process = 0
        self._numbers = itertools.count(1)
        self._connections: weakref.WeakSet[Transport] = weakref.WeakSet()
        self._has_ended = False
        self._lock = threading.Lock()

    def join(self, run: str, process: int) -> None:
        """Make this process number ``process`` of a run that another one has begun."""
        self.run, self._process = run, process

    def new_name(self) -> str:
        """Return the name of a tube that nobody else uses; all have the same length."""
        return f"{NAMES}{self.run}{self._process:02x}-{next(self._numbers):05}"

    def is_ours(self, tube: str) -> bool:
        """Return whether this process made a tube; the first one of a run answers for all."""
        process = f"{self._process:02x}" if self._process else ""
        return tube.startswith(f"{NAMES}{self.run}{process}")

    def opened(self, transport: Transport) -> Transport:
        """Note a connection, and return it; raises OSError if the run has ended."""
        with self._lock:
            if self._has_ended:
                transport.close()
                raise ConnectionAbortedError("the run has ended")
            self._connections.add(transport)
        return transport

    def end(self) -> None:
        """End all connections, from whatever thread; no others are opened after that."""
        with self._lock:
            self._has_ended = True
            connections = list(self._connections)
        for transport in connections:
            # Another thread may wait for it: to close it would not wake that.
            transport.abort()


FOOTPRINT = Footprint()
