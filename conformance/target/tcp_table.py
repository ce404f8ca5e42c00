"""The TCP sockets of a Linux machine, as /proc shows them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ESTABLISHED, LISTENS = "01", "0A"
"""States of a socket."""
KEEPALIVE = "02"
"""The timer of a socket whose idle peer is probed."""
_ANY = "[0-9A-F]{2}"


class TcpSocket(NamedTuple):
    """A row of a table of sockets; ``local`` and ``remote`` are ports."""

    local: int
    remote: int
    state: str
    timer: str
    inode: str


def tcp_sockets(folder: Path, states: str = _ANY) -> Iterator[TcpSocket]:
    """Yield the sockets in the network of a process; none on a system without such tables.

    ``folder`` is its folder in /proc, or /proc. ``states`` is a regular expression: most sockets
    are of connections that were closed, and there may be tens of thousands.
    """
    row = re.compile(
        rf"^ *[0-9]+: [0-9A-F]+:([0-9A-F]+) [0-9A-F]+:([0-9A-F]+) ({states}) "
        r"\S+ +([0-9A-F]+):(?:\S+ +){4}([0-9]+)",
        re.MULTILINE,
    )
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):
            for local, remote, *others in row.findall((folder / "net" / name).read_text()):
                yield TcpSocket(int(local, 16), int(remote, 16), *others)


def socket_inodes(folder: Path) -> set[str]:
    """Return the inodes of the sockets that a process has open; raises OSError.

    ``folder`` is its folder in /proc.
    """
    found = set()
    for file in (folder / "fd").iterdir():
        # It may be closed meanwhile.
        with contextlib.suppress(OSError):
            kind, _, inode = str(file.readlink()).rstrip("]").partition(":[")
            found |= {inode} if kind == "socket" else set()
    return found
