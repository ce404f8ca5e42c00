"""Where a server listens, and the simplest way to ask it something."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator, Sequence

from reference_server.wire import Reply, ReplyReader, escape

Address = tuple[str, int] | str
"""Host and TCP port, or the path of a UNIX socket."""
_RESET = struct.pack("ii", 1, 0)


@contextlib.contextmanager
def visit(address: Address, limit: float) -> Iterator[socket.socket]:
    """A connection that the server has seen the end of, too, when the context ends.

    ``limit`` is in seconds, for each step. Raises OSError.
    """
    with connect(address, limit) as sock:
        yield sock
        hang_up(sock, limit)


def hang_up(sock: socket.socket, limit: float) -> None:
    """Closes a connection, and waits ``limit`` seconds at most until the server has done so."""
    end = time.monotonic() + limit
    send_end(sock)
    with contextlib.suppress(OSError):
        while (left := end - time.monotonic()) > 0:
            sock.settimeout(left)
            if not sock.recv(65536):
                break
    sock.close()


def send_end(sock: socket.socket) -> None:
    """Sends nothing more; that the server has reset the connection is told by reading."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_WR)


def send_reset(sock: socket.socket) -> None:
    """Closes a connection so that the server is told of an error, and nothing more arrives."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    sock.close()


class TargetError(Exception):
    """There is nothing to test; the text says why, in one sentence."""


def parse_address(text: str) -> Address:
    """``host:port``, ``[ipv6]:port`` or ``unix:/path``; raises :class:`TargetError`."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path:
            raise TargetError("--target=unix: names no path; write --target=unix:/path/to/socket")
        return path
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise TargetError(f"--target takes HOST:PORT or unix:/path, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def connect(address: Address, limit: float) -> socket.socket:
    """A connection to the address; raises OSError."""
    if isinstance(address, str):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(limit)
        try:
            sock.connect(address)
        except OSError:
            sock.close()
            raise
        return sock
    sock = socket.create_connection(address, timeout=limit)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def ask(
    sock: socket.socket, line: bytes, limit: float, tells_priority: bool | None = False
) -> Reply:
    """One command on a blocking socket; raises OSError, ProtocolError, or EOFError.

    ``tells_priority``: see :class:`ReplyReader`.
    """
    (reply,) = ask_all(sock, [line], limit, tells_priority)
    return reply


def ask_all(
    sock: socket.socket, lines: Sequence[bytes], limit: float, tells_priority: bool | None = False
) -> list[Reply]:
    """Send commands at once, and return their replies; ``limit`` seconds are for all of them."""
    reader, end = ReplyReader(tells_priority), time.monotonic() + limit
    replies: list[Reply] = []
    sock.settimeout(limit)
    sock.sendall(b"".join(line + b"\r\n" for line in lines))
    while len(replies) < len(lines):
        reply = reader.next_reply()
        if reply is not None:
            replies.append(reply)
            continue
        sock.settimeout(max(end - time.monotonic(), 0.001))
        data = sock.recv(65536)
        if not data:
            raise EOFError(escape(reader.pending))
        reader.receive(data)
    return replies
