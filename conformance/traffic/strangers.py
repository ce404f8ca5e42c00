"""Clients that bypass the proxy, as the sockets of a server on this machine show them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_TABLES = ("tcp", "tcp6")
_ESTABLISHED, _LISTEN = "01", "0A"


class _SocketRow(NamedTuple):
    local: int
    remote: int
    state: str
    inode: str


def _rows(root: Path) -> Iterator[_SocketRow]:
    for table in _TABLES:
        try:
            lines = (root / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            local, remote = (int(field.rpartition(":")[2], 16) for field in fields[1:3])
            yield _SocketRow(local, remote, fields[3], fields[9])


def _sockets(root: Path, process: int) -> set[str]:
    """Return the inodes of the sockets of a process."""
    found = set()
    try:
        for entry in os.scandir(root / str(process) / "fd"):
            try:
                link = os.readlink(entry.path)
            except OSError:
                continue
            if link.startswith("socket:["):
                found.add(link[len("socket:[") : -1])
    except OSError:
        pass
    return found


def bypassing(port: int, proxy: int, root: Path = Path("/proc")) -> int:
    """Return how many connections a local server at a port has that are not those of the proxy.

    ``proxy`` is a process. Returns 0 if the server is on another machine.
    """
    found = _strangers(port, proxy, root)
    # One that begins or ends just now may be in one of these tables and not in the other.
    return len(found & _strangers(port, proxy, root)) if found else 0


def _strangers(port: int, proxy: int, root: Path) -> set[int]:
    """Return the ports of clients that are connected to a local server, except the proxy."""
    rows = list(_rows(root))
    if not any(row.state == _LISTEN and row.local == port for row in rows):
        return set()
    own = _sockets(root, proxy)
    ours = {row.local for row in rows if row.remote == port and row.inode in own}
    # Those of clients that have closed their sockets have no inode any more.
    closed = {row.local for row in rows if row.remote == port and row.inode == "0"}
    served = {row.remote for row in rows if row.state == _ESTABLISHED and row.local == port}
    return served - ours - closed
