"""The whole suite, with its command line, on variants that run as servers of their own."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from conformance.target.launch import Launched
from reference_server.profiles import NEWEST
from tests import ROOT
from tests.parts import part_of
from tests.variants.gallery import SERVED

WAYS = ("fake", "real", "remote")
"""How the suite reaches a server: launched, under a fake or a real clock, or run by others."""
LIMIT = 900.0
"""Seconds that a run may take."""


class VariantRun(NamedTuple):
    """What came of one run: what is wrong with it, and what was not decided."""

    wrong: list[str]
    undecided: list[str]
    seconds: float

    @property
    def wrong_in_a_part(self) -> list[str]:
        """What is wrong in a run of some tests, apart from what was not selected."""
        return [told for told in self.wrong if not told.startswith("not run ")]


def command(name: str) -> str:
    """How a variant is launched."""
    return (
        f"{sys.executable} -m tests.variants serve {name} -l {{host}} -p {{port}}"
        f" [-z {{max_job_size}}]"
    )


def run(name: str, way: str, options: Sequence[str] = ()) -> VariantRun:
    """Run the suite on a variant, and judge one of an old profile by that.

    In a folder of its own, so that no finding of another run is replayed.
    """
    profile, variant = SERVED[name]
    old = profile != NEWEST.name
    chosen = [*options, f"--profile={profile}"] if old else options
    start = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        _reached(name, way) as target,
    ):
        arguments = [*target, f"--report={folder}", "-q", "-p", "no:cacheprovider", *chosen]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "conformance", "run", *arguments],
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        except subprocess.TimeoutExpired:
            return VariantRun([f"not at its end after {LIMIT:g} s"], [], LIMIT)
        results = Path(folder, "results.json")
        if not results.exists():
            return VariantRun([done.stdout[-500:] + done.stderr[-500:]], [], 0.0)
        came = json.loads(results.read_text(encoding="utf-8"))
        wrong, undecided = _judged(came, None if old else variant.non_strict)
    return VariantRun(wrong, undecided, time.monotonic() - start)


@contextlib.contextmanager
def _reached(name: str, way: str) -> Iterator[list[str]]:
    """Yield the options that name a variant, which runs meanwhile."""
    if way != "remote":
        yield ["--launch", command(name), *(["--clock=real"] if way == "real" else [])]
        return
    with Launched(command(name)) as server:
        host, port = server.address
        yield [f"--target={host}:{port}"]


def _judged(
    results: dict[str, object], non_strict: frozenset[str] | None
) -> tuple[list[str], list[str]]:
    """Return what is wrong, and what was not decided, in a run's results.

    ``non_strict``: where it may be unlike beanstalkd; None: anywhere, as with old profiles.
    """
    wrong, undecided = [], []
    requirements = results["requirements"]
    assert isinstance(requirements, list)
    for requirement in requirements:
        slug, verdict = requirement["slug"], requirement["verdict"]
        told = f"{verdict} {slug}: {requirement.get('reason', '')[:300]}"
        loose = verdict == "non-strict" and non_strict is not None and slug not in non_strict
        if loose or verdict in ("fail", "error", "not run"):
            wrong.append(told)
        elif verdict == "inconclusive":
            undecided.append(told)
    return wrong, undecided


def runs() -> list[tuple[str, str]]:
    """Return all variants, each in all ways."""
    return [(name, way) for way in WAYS for name in SERVED]


def main(argv: Sequence[str]) -> int:
    """``python -m tests.variants``: whether the suite has a false alarm for any variant."""
    parser = argparse.ArgumentParser(prog="python -m tests.variants", description=main.__doc__)
    parser.add_argument("--part", default="0/1", help="K/N: each N-th, from K on")
    parser.add_argument("--only", help="the name of one variant")
    parser.add_argument("options", nargs="*", help="more options of the suite, behind --")
    args = parser.parse_args(argv)
    failed = 0
    pairs = [pair for pair in part_of(runs(), args.part) if args.only in (None, pair[0])]
    for name, way in pairs:
        came = run(name, way, args.options)
        failed += bool(came.wrong)
        word = "FAILED" if came.wrong else "passed"
        print(f"{word} {name}, {way}, {came.seconds:.0f} s", flush=True)
        for told in (*came.wrong, *came.undecided):
            print(f"    {told}", flush=True)
    print(f"{len(pairs)} runs, {failed} failed")
    return bool(failed)
