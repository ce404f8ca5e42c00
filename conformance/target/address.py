"""The address of a server, and the simplest way to send it a command."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time
from collections.abc import Iterator, Sequence

from conformance.printable import printable
from conformance.target.timeouts import end_timeout
from conformance.target.traits import Traits
from conformance.target.transport import Transport
from reference_server.system import unix_socket
from reference_server.wire import Reply, ReplyReader, escape

Address = tuple[str, int] | str
"""Host and TCP port, or the path of a UNIX socket."""


@contextlib.contextmanager
def visit(address: Address, limit: float, traits: Traits | None = None) -> Iterator[Transport]:
    """Yield a connection that the server has seen the end of, too, when the context ends.

    ``limit`` is in seconds, for each step. ``traits`` are those of the server, if it was surveyed.
    Raises OSError.
    """
    with Transport(connect(address, limit)) as transport:
        yield transport
        transport.hang_up(end_timeout(limit, traits or Traits()))


class TargetError(Exception):
    """There is nothing to test; the text says why, in one sentence.

    ``expected`` says what was needed.
    """

    expected = "a server that reports its stats"
    requirement = "stats.ok"
    """The requirement that is broken where a test meets it."""

    def __init__(self, reason: str) -> None:
        super().__init__(printable(reason))


def parse_address(text: str) -> Address:
    """Read ``host:port``, ``[ipv6]:port`` or ``unix:/path``; raises :class:`TargetError`."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path:
            raise TargetError("--target=unix: names no path; write --target=unix:/path/to/socket")
        return path
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise TargetError(f"--target takes HOST:PORT or unix:/path, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_near(address: Address) -> bool:
    """Return whether no network is between this machine and a server."""
    if isinstance(address, str):
        return True
    with contextlib.suppress(OSError):
        host = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][4][0]
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    return False


def connect(address: Address, limit: float) -> socket.socket:
    """Return a connection to the address; raises OSError."""
    if isinstance(address, str):
        sock = unix_socket()
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
    transport: Transport, line: bytes, limit: float, tells_priority: bool | None = False
) -> Reply:
    """Say one command and return its reply; raises OSError, ProtocolError, or EOFError.

    ``tells_priority``: see :class:`ReplyReader`.
    """
    (reply,) = ask_all(transport, [line], limit, tells_priority)
    return reply


def ask_all(
    transport: Transport, lines: Sequence[bytes], limit: float, tells_priority: bool | None = False
) -> list[Reply]:
    """Send commands at once, and return their replies; ``limit`` seconds are for all of them."""
    reader, end = ReplyReader(tells_priority), time.monotonic() + limit
    transport.send(b"".join(line + b"\r\n" for line in lines))
    return [next_reply(transport, reader, end) for _ in lines]


def next_reply(transport: Transport, reader: ReplyReader, end: float) -> Reply:
    """Return the next reply, which comes until ``end``, in seconds of the monotonic clock.

    Raises OSError, ProtocolError, or EOFError.
    """
    while (reply := reader.next_reply()) is None:
        if data := transport.receive_within(end - time.monotonic()):
            reader.receive(data)
        elif transport.ended:
            raise transport.error or EOFError(escape(reader.pending))
        elif time.monotonic() >= end:
            raise TimeoutError("timed out")
    return reply
