"""Addresses where launched servers can listen: a reserved port, or a path."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from conformance.target.address import Address
from conformance.target.command import LaunchError

# Below the range from which systems give out ports for outgoing connections.
_PORTS = range(15000, 32000)
SOCKETS = "beanstalk-conformance-socket-"
"""The beginning of the names of folders with sockets, before the id of the process."""


class FreePlace(Protocol):
    """A place of which we know that nobody else listens there; ``values`` are of a template."""

    address: Address
    values: Mapping[str, object]

    @property
    def is_free(self) -> bool:
        """Return whether a server can listen there."""
        ...

    def release(self) -> None:
        """Give it up."""
        ...


class ClaimedPort:
    """A free TCP port, kept from other workers until it is released."""

    def __init__(self, host: str) -> None:
        import fcntl  # Windows has no such locks, and no server is launched there.

        folder = Path(tempfile.gettempdir()) / f"beanstalk-conformance-ports-{os.getuid()}"
        folder.mkdir(exist_ok=True)
        for number in random.sample(_PORTS, 200):
            self.address: Address = host, number
            self.values: Mapping[str, object] = {"port": number}
            self._lock = (folder / str(number)).open("wb")
            with contextlib.suppress(OSError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self.is_free:
                    return
            self._lock.close()
        raise LaunchError(f"no free TCP port found on {host}")

    @property
    def is_free(self) -> bool:
        """Return whether a server can listen there, even one that cannot share the place."""
        with socket.socket() as probe:
            try:
                probe.bind(self.address)
            except OSError:
                return False
        return True

    def release(self) -> None:
        self._lock.close()


class SocketFolder:
    """A path for a UNIX socket, in a folder of its own."""

    is_free = True

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=f"{SOCKETS}{os.getpid()}-")
        path = str(Path(self._folder.name) / "socket")
        self.address: Address = path
        self.values: Mapping[str, object] = {"path": path}

    def release(self) -> None:
        self._folder.cleanup()
