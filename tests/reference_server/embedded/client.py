"""A client of the server for tests of applications."""

from __future__ import annotations

import socket

from reference_server import BeanstalkServer

PUT = b"put 0 0 60 5\r\nhello\r\n"


class Client:
    """A client that sends and reads bytes."""

    def __init__(self, server: BeanstalkServer) -> None:
        self.socket = socket.create_connection(server.address, 20)
        self._file = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def line(self) -> bytes:
        """Return the next line; empty at the end of the connection."""
        return self._file.readline()

    def rest(self) -> bytes:
        """Return what arrives until the connection ends."""
        return self._file.read()

    def ask(self, data: bytes) -> bytes:
        self.send(data)
        return self.line()

    def close(self) -> None:
        self._file.close()
        self.socket.close()
