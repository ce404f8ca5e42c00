"""A server on which somebody else has jobs, and what replays do to these.

``python -m tests.foreign_jobs`` replays the failures of all faults, and all known transcripts, on
such servers.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from conformance import yamlish
from conformance.__main__ import main as console
from conformance.target.address import Address, ask, ask_all, connect
from conformance.target.builtin import BuiltIn
from conformance.target.transport import Transport
from conformance.transcript import Transcript
from fuzz.test_hostile import CORPUS
from reference_server.faults import FAULTS
from reference_server.profiles import NEWEST
from reference_server.wire import Reply
from tests.faults import found_by_tests, newest_with
from tests.parts import part_of
from tests.pasted_failures import failure

OTHERS = 240
"""Jobs of others on the server: ready, delayed, buried and reserved, in default and elsewhere."""


class Server:
    """A server on which somebody else has jobs."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.client = Transport(connect(address, 10.0))
        self._ask("watch tube-0")
        self.jobs = [self._job(number) for number in range(OTHERS)]

    @property
    def name(self) -> str:
        """Its address, as it is given on the command line."""
        assert isinstance(self.address, tuple)
        return f"{self.address[0]}:{self.address[1]}"

    def _ask(self, line: str) -> Reply:
        return ask(self.client, line.encode(), 10.0)

    def _job(self, number: int) -> int:
        self._ask("use default" if number % 2 else "use tube-0")
        delay, state = (3600, "") if number % 4 == 1 else (0, "buried" * (number % 4 == 2))
        job = int(self._ask(f"put {number % 3} {delay} 3600 1\r\nx").args[0])
        if state:
            self._ask(f"reserve-job {job}")
            self._ask(f"bury {job} 5")
        elif number % 8 == 3:
            self._ask(f"reserve-job {job}")
        return job

    def seen(self) -> list[Mapping[str, str]]:
        """Return what can be seen of the jobs, and of their tubes, apart from their age."""
        lines = [f"stats-job {job}" for job in self.jobs]
        lines += [f"stats-tube {tube}" for tube in ("default", "tube-0")]
        told = ask_all(self.client, [line.encode() for line in lines], 10.0)
        counts = [yamlish.dictionary(reply.body or b"") for reply in told]
        moves = ("age", "time-left", "current-watching", "current-using")
        return [{k: v for k, v in one.items() if k not in moves} for one in counts]

    def tubes(self) -> list[str]:
        """Return the names of its tubes."""
        return yamlish.names(self._ask("list-tubes").body or b"")


class Replayed(NamedTuple):
    """A replay: the exit code, and what it has changed or left; empty if that is nothing."""

    name: str
    code: int
    harm: str


def replayed(name: str, transcript: str, profile: str = NEWEST.name) -> Replayed:
    """Replay a transcript, as a user would, on a server with jobs of others."""
    with (
        closing(BuiltIn()) as running,
        tempfile.TemporaryDirectory() as folder,
        closing((server := Server(running.address)).client),
    ):
        file = Path(folder) / "some.transcript"
        file.write_text(transcript, encoding="utf-8")
        before = server.seen()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            command = ["replay", str(file), f"--target={server.name}", f"--profile={profile}"]
            code = console(command)
        changed = [a for a, b in zip(before, server.seen(), strict=True) if a != b]
        left = {*server.tubes()} - {"default", "tube-0"}
    harm = [f"changed: {changed[0]}"] if changed else []
    harm += [f"left: {', '.join(sorted(left))}"] if left else []
    return Replayed(name, code, "; ".join(harm))


def of_fault(name: str) -> Replayed | None:
    """Replay the failure of a fault; None if none of its tests fails here."""
    profile = newest_with(FAULTS[name].requirement)
    found = failure(FAULTS[name], profile)
    if found is None:
        return None
    _, _, outcome = found
    # What is sent may do harm; nobody need wait for what follows.
    at_once = Transcript([replace(one, time=0.0) for one in outcome.transcript.entries])
    return replayed(name, at_once.render(fold=False), profile.name)


def known() -> Iterator[Replayed]:
    """Replay the transcripts that are kept for the suite's own tests."""
    for file in sorted(CORPUS.glob("*.transcript")):
        yield replayed(file.stem, file.read_text(encoding="utf-8"))


def main() -> int:
    """Replay everything; the exit code is 1 if anything of others was changed, or was left."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--part", default="0/1", help="K/N: each N-th, from K on")
    names = part_of(sorted(found_by_tests()), parser.parse_args().part)
    start, found = time.monotonic(), [*known()]
    # More processes than processors: a failure is often a reply that is waited for.
    with ProcessPoolExecutor(3 * (os.cpu_count() or 1), get_context("spawn")) as pool:
        found += filter(None, pool.map(of_fault, names))
    for one in found:
        if one.harm:
            print(f"{one.name} (exit code {one.code}): {one.harm}")
    codes = Counter(one.code for one in found)
    print(f"{len(found)} replays, {OTHERS} jobs of others, {time.monotonic() - start:.0f} s")
    print("exit codes:", *(f"{code}: {count}" for code, count in sorted(codes.items())))
    return int(any(one.harm for one in found))


if __name__ == "__main__":
    sys.exit(main())
