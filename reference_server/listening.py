"""The sockets at which a server listens."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Sequence
from functools import partial

from reference_server.loop import Loop
from reference_server.reserve import RESERVE
from reference_server.system import tell, unix_socket

_BACKLOG = 1024


def _unix(path: str) -> socket.socket:
    """Listen at a path, in the place of a socket that was left there."""
    if os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode):
        os.unlink(path)
    sock = unix_socket()
    try:
        sock.bind(path)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def _tcp(host: str, port: int) -> list[socket.socket]:
    """Listen on all addresses that a host has."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    socks: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((info[0], info[4]) for info in found):
            socks.append(socket.create_server(address, family=family, backlog=_BACKLOG))
            # Those that are accepted inherit both. A client that vanishes is noticed at last.
            socks[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            socks[-1].setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except BaseException:
        for sock in socks:
            sock.close()
        raise
    return socks


class Listeners:
    """The sockets of an address; ``accepted`` is given the socket of each new client.

    ``listening``: those that another server has let go, in place of new ones.
    """

    def __init__(
        self,
        loop: Loop,
        address: str,
        port: int,
        accepted: Callable[[socket.socket], object],
        listening: Sequence[socket.socket] = (),
    ) -> None:
        self.loop = loop
        self._accepted = accepted
        if listening:
            self.socks = [*listening]
            self.where = "{}:{}".format(*listening[0].getsockname())
        elif address.startswith("unix:"):
            self.socks = [_unix(address.removeprefix("unix:"))]
            self.where = address
        else:
            self.socks = _tcp(address, port)
            self.where = "{}:{}".format(*self.socks[0].getsockname())
        for sock in self.socks:
            sock.setblocking(False)
            loop.watch(sock.fileno(), partial(self.accepts, sock))

    def accepts(self, listener: socket.socket, _: int) -> None:
        """Accept one client; the loop reports the others again."""
        try:
            sock, _ = listener.accept()
        except BlockingIOError:
            return
        except ConnectionError:
            self.loop.again(listener.fileno())
            return
        except (OSError, MemoryError) as error:
            if isinstance(error, MemoryError):
                RESERVE.spend()
            self.fails(listener)
            tell(f"cannot accept a client: {error}")
            return
        self.loop.again(listener.fileno())
        if RESERVE.is_spent:
            sock.close()
            return
        try:
            self._accepted(sock)
        except BaseException:
            # Nobody has it yet, and what refers to the error may be there for a while.
            sock.close()
            raise

    def fails(self, listener: socket.socket) -> None:
        """Let clients wait that cannot be accepted, until another one has left."""
        self.loop.again_with_room(listener.fileno())

    def let_go(self) -> list[socket.socket]:
        """Accept no more, and return the sockets: clients that connect meanwhile wait there."""
        socks, self.socks = self.socks, []
        for sock in socks:
            self.loop.forget(sock.fileno())
        return socks

    def close(self) -> None:
        """Listen no more."""
        for sock in self.let_go():
            sock.close()
