"""A proxy that makes a server slow and its packets small."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Iterator


def _pump(
    source: socket.socket, sink: socket.socket, delay: float, single_bytes: bool, pace: float
) -> None:
    """Forward chunks, each up to ``delay`` seconds late, byte by byte if asked to."""
    with contextlib.suppress(OSError):
        while chunk := source.recv(65536):
            time.sleep(random.uniform(0, delay))
            # Large bodies go in one piece at their end: thousands of packets prove no more.
            head, rest = (chunk[:200], chunk[200:]) if single_bytes else (b"", chunk)
            for byte in head:
                sink.sendall(bytes([byte]))
                time.sleep(pace)
            sink.sendall(rest)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def proxy(
    address: tuple[str, int], delay: float = 0.03, pace: float = 0.0
) -> Iterator[tuple[str, int]]:
    """Yield a proxy of a server: chunks up to ``delay`` seconds late, replies byte by byte.

    ``pace``: seconds from one byte to the next.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client = listener.accept()[0]
                    server = socket.create_connection(address)
                    for sock in (client, server):
                        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    for arguments in (
                        (client, server, delay, False, pace),
                        (server, client, delay, True, pace),
                    ):
                        threading.Thread(target=_pump, args=arguments, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[:2]
