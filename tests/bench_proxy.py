"""The cost of judging: the proxy next to a plain forwarder, in one run.

``python -m tests.bench_proxy`` starts beanstalkd, a plain forwarder and the proxy, and asks both in
turn: the latency of single commands, and the throughput of pipelined ones.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from conformance.traffic.events import Kind
from conformance.traffic.forwarder import Forwarder, listening

ROUNDS = 60
SINGLE = 200
PIPELINED = 20
DELETES = b"delete 1\r\n" * 50


class NoTap:
    """A tap that takes nothing: with it, this is a plain forwarder."""

    def note(self, conn: int, kind: Kind, data: bytes = b"") -> None:
        """Ignore an event."""

    def tick(self) -> None:
        """Do nothing."""


def plain(port: int, target: int) -> None:
    """Forward as the proxy does, and judge nothing."""
    forwarder = Forwarder(listening("127.0.0.1", port), ("127.0.0.1", target), NoTap())
    signal.signal(signal.SIGTERM, lambda *_: forwarder.stop())
    forwarder.run()


def latency(sock: socket.socket) -> float:
    """Return the median time of a command and its reply, in seconds."""
    times = []
    for _ in range(SINGLE):
        begun = time.perf_counter()
        sock.sendall(b"list-tube-used\r\n")
        sock.recv(4096)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def throughput(sock: socket.socket) -> float:
    """Return commands per second, where many are sent at once."""
    begun = time.perf_counter()
    for _ in range(PIPELINED):
        sock.sendall(DELETES)
        wanted = len(b"NOT_FOUND\r\n") * 50
        while wanted > 0:
            wanted -= len(sock.recv(1 << 16))
    return PIPELINED * 50 / (time.perf_counter() - begun)


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def _connected(port: int) -> socket.socket:
    end = time.monotonic() + 20
    while True:
        try:
            sock = socket.create_connection(("127.0.0.1", port))
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock


@contextlib.contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program while the context lasts."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


def main() -> None:
    """Print latencies and throughputs, and their ratios."""
    target, first, second = _free(), _free(), _free()
    python = (sys.executable, "-m")
    listen = ("proxy", "--listen", f"127.0.0.1:{second}", "--target", f"127.0.0.1:{target}")
    with (
        started(os.environ.get("BEANSTALKD", "/usr/bin/beanstalkd"), "-p", str(target)),
        started(*python, "tests.bench_proxy", str(first), str(target)),
        started(*python, "conformance", *listen, "--profile", "1.12"),
    ):
        socks = {"plain": _connected(first), "proxy": _connected(second)}
        latencies: dict[str, list[float]] = {name: [] for name in socks}
        rates: dict[str, list[float]] = {name: [] for name in socks}
        for _ in range(ROUNDS):
            for name, sock in socks.items():
                latencies[name].append(latency(sock))
                rates[name].append(throughput(sock))
    for name in socks:
        middle, rate = statistics.median(latencies[name]), statistics.median(rates[name])
        print(f"{name}: {middle * 1e6:.1f} µs a round trip, {rate:,.0f} commands/s pipelined")
    # Neighbours in time are compared: whatever else the machine does, it does to both.
    pairs = zip(latencies["proxy"], latencies["plain"], strict=True)
    more = statistics.median(proxy - plain for proxy, plain in pairs)
    shares = zip(rates["proxy"], rates["plain"], strict=True)
    share = statistics.median(proxy / plain for proxy, plain in shares)
    print(f"proxy: {more * 1e6:+.1f} µs, {share:.1%} of the throughput of a plain forwarder")


if __name__ == "__main__":
    plain(*map(int, sys.argv[1:])) if sys.argv[1:] else main()
