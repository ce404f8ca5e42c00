"""Speed of the server for tests of applications, and what its plugin costs other projects.

``python -m tests.bench_embedded``; the times of the processor depend least on how busy the
machine is.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import reference_server

TTR = 60
FIXTURES = """
import sys

def test_it(beanstalk_server, beanstalk_clock):
    own = ("beanstalk_conformance", "conformance", "fuzz", "reference_server", "reports")
    count = sum(name.partition(".")[0] in own for name in sys.modules)
    open("modules", "w").write(f"{count} of {len(sys.modules)}")
"""


class Stopwatch:
    """Milliseconds of a call: as they pass, and of the processor."""

    def __init__(self) -> None:
        self.passed: list[float] = []
        self.busy: list[float] = []

    def measure(self, function: Callable[[], object]) -> None:
        """Call a function, and add its times."""
        passed, busy = time.perf_counter(), time.process_time()
        function()
        self.passed.append(1000 * (time.perf_counter() - passed))
        self.busy.append(1000 * (time.process_time() - busy))

    def __str__(self) -> str:
        return f"{_summary(self.passed)}; of the processor {_summary(self.busy)}"


def _summary(times: Sequence[float]) -> str:
    return f"median {statistics.median(times):.2f} ms, longest {max(times):.2f} ms"


def start_and_stop(rounds: int) -> Stopwatch:
    """Start a server and stop it, so many times."""
    watch = Stopwatch()

    def once() -> None:
        with reference_server.running():
            pass

    once()
    for _ in range(rounds):
        watch.measure(once)
    return watch


def an_hour(jobs: int, rounds: int) -> Stopwatch:
    """Let an hour pass in which the TTRs of so many jobs end."""
    watch = Stopwatch()
    for _ in range(rounds):
        with (
            reference_server.running() as server,
            contextlib.closing(socket.create_connection(server.address)) as client,
            client.makefile("rb") as replies,
        ):
            server.clock.freeze()
            client.sendall(b"put 0 0 %d 5\r\nhello\r\n" % TTR * jobs)
            for _ in range(jobs):
                replies.readline()
            for _ in range(jobs):
                client.sendall(b"reserve\r\n")
                replies.readline()
                replies.readline()
            watch.measure(lambda server=server: server.clock.advance(3600))  # type: ignore[misc]
            if len(server.jobs(state="ready")) != jobs:
                raise AssertionError("a TTR did not end")
    return watch


def pytest_runs(rounds: int) -> tuple[Stopwatch, Stopwatch, str]:
    """Run pytest on an empty test with our plugin and without it, and count modules of ours."""
    with_it, without_it = Stopwatch(), Stopwatch()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def run(*options: str) -> None:
            subprocess.run([*command, *options], cwd=folder, check=True, capture_output=True)

        (folder / "test_it.py").write_text("def test_it():\n    pass\n")
        for _ in range(rounds):
            with_it.measure(run)
            without_it.measure(lambda: run("-p", "no:beanstalk_conformance"))
        (folder / "test_it.py").write_text(FIXTURES)
        run()
        return with_it, without_it, (folder / "modules").read_text()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=1000)
    args = parser.parse_args()
    print(f"start and stop: {start_and_stop(args.rounds)}", flush=True)
    hour = an_hour(args.jobs, args.rounds // 10 or 1)
    print(f"an hour with the TTRs of {args.jobs:,} jobs: {hour}", flush=True)
    with_it, without_it, modules = pytest_runs(args.rounds // 25 or 1)
    print(f"pytest with the plugin: {_summary(with_it.passed)}")
    print(f"pytest without it: {_summary(without_it.passed)}")
    print(f"modules of ours in a project that uses the fixtures: {modules}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
