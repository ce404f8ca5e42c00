"""Clients that bypass the proxy, as the sockets of a server on this machine show them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from conformance.target.tcp_table import ESTABLISHED, LISTENS, socket_inodes, tcp_sockets


def bypassing(port: int, proxy: int, root: Path = Path("/proc")) -> int:
    """Return how many connections a local server at a port has that are not those of the proxy.

    ``proxy`` is a process. Returns 0 if the server is on another machine.
    """
    found = _strangers(port, proxy, root)
    # One that begins or ends just now may be in one of these tables and not in the other.
    return len(found & _strangers(port, proxy, root)) if found else 0


def _strangers(port: int, proxy: int, root: Path) -> set[int]:
    """Return the ports of clients that are connected to a local server, except the proxy."""
    rows = list(tcp_sockets(root))
    if not any(row.state == LISTENS and row.local == port for row in rows):
        return set()
    own = set[str]()
    with contextlib.suppress(OSError):
        own = socket_inodes(root / str(proxy))
    ours = {row.local for row in rows if row.remote == port and row.inode in own}
    # Those of clients that have closed their sockets have no inode any more.
    closed = {row.local for row in rows if row.remote == port and row.inode == "0"}
    served = {row.remote for row in rows if row.state == ESTABLISHED and row.local == port}
    return served - ours - closed
