"""Clients that load a server with random commands over real sockets.

``python -m tests.traffic_load PORT CLIENTS COMMANDS SEED [MILLISECONDS]`` prints how many commands
were answered; clients pause for so long for each command.

Some pipeline, some wait for jobs, some hold them until their time is over. They read all replies,
and leave nothing.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections import deque
from random import Random

from reference_server.wire import ReplyReader

TUBES = (b"default", b"mail", b"video", b"audio")


class LoadClient:
    """One client: it knows jobs that any of them has put."""

    def __init__(self, port: int, seed: int, jobs: deque[int]) -> None:
        self._chance = Random(seed)
        self._jobs = jobs
        self._held: list[int] = []
        self._pipelines = seed % 2
        self._reader = ReplyReader()
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.commands = 0

    def run(self, commands: int, pause_ms: int = 0) -> None:
        """Send so many commands, and read their replies."""
        while self.commands < commands:
            count = self._chance.randint(1, 30) if self._pipelines else 1
            time.sleep(count * pause_ms / 1000)
            self._exchange(count)
        self._socket.close()

    def _exchange(self, count: int) -> None:
        self._socket.sendall(b"".join(self._command() for _ in range(count)))
        self.commands += count
        missing = count
        while missing:
            reply = self._reader.next_reply()
            if reply is None:
                data = self._socket.recv(1 << 16)
                if not data:
                    raise EOFError("the server has ended the connection")
                self._reader.receive(data)
                continue
            missing -= 1
            if reply.word == "INSERTED" and self._chance.random() < 0.1:
                self._jobs.append(int(reply.args[0]))
            elif reply.word == "RESERVED":
                self._held.append(int(reply.args[0]))

    def _command(self) -> bytes:
        chance = self._chance
        what = chance.random()
        tube = chance.choice(TUBES)
        pri, delay = chance.choice((0, 5, 1024, 2**32 - 1)), chance.choice((0, 0, 0, 0, 1))
        if self._held and what < 0.45:
            return b"delete %d\r\n" % self._held.pop()
        if what < 0.65:
            body = chance.randbytes(chance.choice((0, 10, 100, 1000)))
            ttr = chance.choice((1, 60, 60))
            return b"put %d %d %d %d\r\n%b\r\n" % (pri, delay, ttr, len(body), body)
        if what < 0.88:
            return b"reserve-with-timeout %d\r\n" % (chance.random() < 0.002)
        job = chance.choice([*self._jobs] or [1])
        own = self._held.pop() if self._held else job
        lines = (
            b"delete %d" % job,
            b"delete %d" % own,
            b"release %d %d %d" % (own, pri, delay),
            b"bury %d %d" % (own, pri),
            b"touch %d" % own,
            b"kick %d" % chance.choice((1, 10, 100)),
            b"kick-job %d" % job,
            b"peek %d" % job,
            b"peek-ready",
            b"peek-delayed",
            b"peek-buried",
            b"reserve-job %d" % job,
            b"stats-job %d" % job,
            b"stats-tube %b" % tube,
            b"use %b" % tube,
            b"watch %b" % tube,
            b"ignore %b" % tube,
            b"list-tube-used",
            b"list-tubes-watched",
            b"list-tubes",
            b"stats",
            b"pause-tube %b 0" % tube if chance.random() < 0.1 else b"peek-ready",
        )
        return chance.choice(lines) + b"\r\n"


def main(port: int, clients: int, commands: int, seed: int, pause_ms: int = 0) -> int:
    """Let clients work at the same time; return how many commands were answered."""
    jobs: deque[int] = deque(maxlen=100)
    crowd = [LoadClient(port, seed * 1000 + number, jobs) for number in range(clients)]
    threads = [
        threading.Thread(target=client.run, args=(commands // clients, pause_ms))
        for client in crowd
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(client.commands for client in crowd)


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:])))
