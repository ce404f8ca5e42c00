"""The process that serves a launched target, found by its listening socket."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from conformance.target.address import Address
from conformance.target.tcp_table import ESTABLISHED, LISTENS, socket_inodes, tcp_sockets
from conformance.verdict import NotTestable

_UNIX = re.compile(r"^(?:\S+ +){6}([0-9]+) (.+)$", re.MULTILINE)
"""A row of /proc/PID/net/unix: inode and path."""
_SELF = Path("/proc/self")
_USER, _SYSTEM = 11, 12
"""The fields after the name in /proc/PID/stat that hold the CPU time of a process."""


class ServerProcess(NamedTuple):
    """A process, by its folder in /proc."""

    folder: Path

    @property
    def numbers(self) -> list[int]:
        """Its ids: where it runs in a container, it knows itself by another one."""
        match = re.search(r"^NSpid:((?:\s+\d+)+)$", self._read("status"), re.MULTILINE)
        return [int(self.folder.name), *(map(int, match[1].split()) if match else ())]

    @property
    def cpu(self) -> dict[str, float]:
        """The seconds of CPU time that it has used so far, by the keys of stats."""
        fields = self._read("stat").rpartition(")")[2].split()
        tick = os.sysconf("SC_CLK_TCK")
        user, system = int(fields[_USER]) / tick, int(fields[_SYSTEM]) / tick
        return {"rusage-utime": user, "rusage-stime": system}

    @property
    def system(self) -> dict[str, tuple[str, ...]]:
        """The names that it may have for its machine, by the keys of stats; raises NotTestable."""
        for name, thing in (("ns/uts", "name"), ("personality", "kind")):
            if self._own(name) is None or self._own(name) != ServerProcess(_SELF)._own(name):
                raise NotTestable(f"the server may see another {thing} of its machine than we")
        machine = os.uname()
        return {
            "hostname": (machine.nodename,),
            "os": (machine.version, machine.release),
            "platform": (machine.machine,),
        }

    def _own(self, name: str) -> str | None:
        """Return something that it may have of its own; None if the system does not show it."""
        with contextlib.suppress(OSError):
            file = self.folder / name
            return str(file.readlink()) if file.is_symlink() else file.read_text()
        return None

    def _read(self, name: str) -> str:
        return (self.folder / name).read_text()


def own_process() -> ServerProcess:
    """Return this process; raises NotTestable without /proc."""
    folder = Path("/proc", str(os.getpid()))
    if not (folder / "stat").exists():
        raise NotTestable("needs a system that shows processes in /proc")
    return ServerProcess(folder)


def serving(processes: Iterable[Path], address: Address) -> list[ServerProcess]:
    """Return the processes of a session of which one serves at an address, the first listens there.

    Raises NotTestable if it may be that none of them does.
    """
    listeners, others = _listeners(processes, address)
    if not listeners:
        raise NotTestable("needs a server whose process can be seen")
    return [*listeners, *others]


def signalled(processes: Iterable[Path], address: Address, leader: int) -> int:
    """Return the process of a session that a signal for the server is sent to.

    That is the first of the session, unless one that it has started is seen to listen at the
    address instead. Raises NotTestable if it may be that none of them serves.
    """
    listening = [int(one.folder.name) for one in _listeners(processes, address)[0]]
    return leader if leader in listening or not listening else listening[0]


def _listeners(
    processes: Iterable[Path], address: Address
) -> tuple[list[ServerProcess], list[ServerProcess]]:
    """Return the processes that listen at an address, and the others."""
    listeners: list[ServerProcess] = []
    others: list[ServerProcess] = []
    for folder in processes:
        with contextlib.suppress(OSError):
            sockets = _sockets(folder, address)
            if _Kind.FORWARDS in sockets:
                raise NotTestable("the process that listens may forward to another server")
            (listeners if _Kind.LISTENS in sockets else others).append(ServerProcess(folder))
    return listeners, others


class _Kind(Enum):
    """The sockets of a process that show its role."""

    LISTENS = "listens at the address"
    FORWARDS = "is connected to another server"


def _sockets(folder: Path, address: Address) -> set[_Kind]:
    """Return the kinds of sockets that a process has; raises OSError."""
    kinds = dict(_known(folder, address))
    return {kinds[inode] for inode in socket_inodes(folder) & kinds.keys()}


def _known(folder: Path, address: Address) -> Iterator[tuple[str, _Kind]]:
    """Yield the inodes of the sockets of its network that matter, and their kinds.

    A server that is connected to itself forwards nothing.
    """
    if isinstance(address, str):
        table = folder / "net/unix"
        rows = _UNIX.findall(table.read_text() if table.exists() else "")
        yield from ((inode, _Kind.LISTENS) for inode, path in rows if path == address)
    port = None if isinstance(address, str) else address[1]
    for one in tcp_sockets(folder, f"{ESTABLISHED}|{LISTENS}"):
        if one.local == port:
            if one.state == LISTENS:
                yield one.inode, _Kind.LISTENS
        elif one.state == ESTABLISHED and one.remote != port:
            yield one.inode, _Kind.FORWARDS
