"""Speed of the reference server beside beanstalkd: the same client, the same run, as a ratio.

``python -m tests.bench``; with ``--binlog``, of those that keep their jobs
"""

from __future__ import annotations

import argparse
import select
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

from conformance.target.address import connect
from conformance.target.launch import Launched
from tests.servers import BEANSTALKD, REFERENCE_COMMAND

BATCH = 500
CLIENTS = 200


def pipelined(address: tuple[str, int], jobs: int) -> float:
    """Return commands a second of put, reserve and delete, ``BATCH`` of each in one go."""
    put = b"put 0 0 60 5\r\nhello\r\n" * BATCH
    reserve = b"reserve\r\n" * BATCH
    with connect(address, 60) as sock, sock.makefile("rb") as replies:
        start = time.perf_counter()
        for _ in range(jobs // BATCH):
            sock.sendall(put)
            for _ in range(BATCH):
                replies.readline()
            sock.sendall(reserve)
            delete = bytearray()
            for _ in range(BATCH):
                delete += b"delete %b\r\n" % replies.readline().split()[1]
                replies.readline()
            sock.sendall(delete)
            for _ in range(BATCH):
                if replies.readline() != b"DELETED\r\n":
                    raise AssertionError("a job was not deleted")
        return jobs * 3 / (time.perf_counter() - start)


def round_trips(address: tuple[str, int], jobs: int) -> float:
    """Return commands a second of put, reserve and delete, each sent when the last was answered."""
    with connect(address, 60) as sock:

        def ask(data: bytes) -> bytes:
            sock.sendall(data)
            return sock.recv(100)

        start = time.perf_counter()
        for _ in range(jobs // 10):
            job = ask(b"put 0 0 60 5\r\nhello\r\n").split()[1]
            ask(b"reserve\r\n")
            ask(b"delete " + job + b"\r\n")
        return jobs // 10 * 3 / (time.perf_counter() - start)


def many_clients(address: tuple[str, int], jobs: int) -> float:
    """Return commands a second of ``CLIENTS`` clients, each asking when it has been answered."""
    socks = [connect(address, 60) for _ in range(CLIENTS)]
    by_number = {sock.fileno(): sock for sock in socks}
    ready = select.poll()
    for sock in socks:
        ready.register(sock, select.POLLIN)
    try:
        start = time.perf_counter()
        for sock in socks:
            sock.sendall(b"put 0 0 60 5\r\nhello\r\n")
        done = 0
        while done < jobs:
            for number, _ in ready.poll():
                sock = by_number[number]
                sock.recv(100)
                sock.sendall(b"put 0 0 60 5\r\nhello\r\n")
                done += 1
        return done / (time.perf_counter() - start)
    finally:
        for sock in socks:
            sock.close()


def with_queue(address: tuple[str, int], jobs: int) -> float:
    """As :func:`pipelined`, while 100,000 other jobs are ready."""
    with connect(address, 60) as sock, sock.makefile("rb") as replies:
        for _ in range(200):
            sock.sendall(b"put 5 0 60 1\r\na\r\n" * 500)
            for _ in range(500):
                replies.readline()
    return pipelined(address, jobs)


KEPT = ("-b {binlog} -f 0", "-b {binlog}", "-b {binlog} -F")
"""The options of servers that keep their jobs."""
Benchmark = Callable[[tuple[str, int], int], float]
BENCHMARKS: dict[str, Benchmark] = {
    "pipelined": pipelined,
    "round trips": round_trips,
    f"{CLIENTS} clients": many_clients,
    "pipelined, 100,000 jobs ready": with_queue,
}


def compare(name: str, benchmark: Benchmark, kept: str, rounds: int, jobs: int) -> None:
    """Print the speed of both servers with an option, in the same rounds."""
    rates: dict[str, list[float]] = {
        f"{BEANSTALKD} -l {{host}} -p {{port}}": [],
        REFERENCE_COMMAND: [],
    }
    for _ in range(rounds):
        for command, measured in rates.items():
            with (
                tempfile.TemporaryDirectory() as folder,
                Launched(f"{command} {kept}", values={"binlog": folder}) as server,
            ):
                measured.append(benchmark(server.address, jobs))
    real, ours = (statistics.median(measured) for measured in rates.values())
    print(
        f"{name}: beanstalkd {real:,.0f}/s, reference {ours:,.0f}/s, ratio {ours / real:.2f}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--binlog", action="store_true", help="with jobs that are kept")
    args = parser.parse_args()
    if BEANSTALKD is None:
        parser.error("beanstalkd is not installed")
    for kept in KEPT if args.binlog else ("",):
        for name, benchmark in BENCHMARKS.items():
            # Where each put is synced, it takes minutes to have so many.
            if not (kept.endswith("-f 0") and benchmark is with_queue):
                compare(f"{name}{kept and ', '}{kept}", benchmark, kept, args.rounds, args.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
