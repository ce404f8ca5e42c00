"""Runs the command that crashes disks on a reference server with a fault that only that shows."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from conformance.durability.campaign import DurabilityCampaign, workers
from conformance.durability.findings import grouped
from conformance.durability.inspection import Inventory, Question
from conformance.durability.recording import RecordingFiles, read, record
from conformance.durability.scenes import TUBES, CrashScene, scenes
from conformance.durability.upgrades import UPGRADE, changed, left_by, upgraded
from conformance.run.tasks import Backend
from conformance.target.limits import USUAL
from reference_server.faults import FAULTS
from reference_server.profiles import NEWEST
from tests.faults import found_by_tests

COMMAND = f"{sys.executable} -m reference_server -p {{port}} -b {{binlog}}"
SCENES = scenes(NEWEST, NEWEST.max_job_size)


def crash_faults() -> list[str]:
    """Return the names of the faults that only a crash shows."""
    return [name for name in FAULTS if name not in found_by_tests()]


def broken(
    backend: Backend[Inventory], options: str, scene: CrashScene, states: int, every: int = 0
) -> dict[str, int]:
    """Return the requirements that crashes in a scene show to be broken, each with its states.

    ``states``: so many of each kind are tried at most. ``every``: milliseconds between syncs.
    """
    command, loss = f"{COMMAND} -f {every} {options}", every / 1000
    with tempfile.TemporaryDirectory() as folder:
        kept = RecordingFiles.of(Path(folder), scene.name)
        record(command, scene, NEWEST, USUAL, loss, kept)
        recording = read(kept, scene, NEWEST, loss)
        question = Question(command, NEWEST, USUAL, tuple(recording.transcript.ids.values()), TUBES)
        outcome = DurabilityCampaign(backend, kept.inventories, lambda *_: None).run(
            question, recording, states
        )
    return {found.requirement: found.states.total() for found in grouped(outcome.cases)}


def broken_by_upgrade(options: str) -> dict[str, int]:
    """Return the requirements that an upgrade shows to be broken, each with its differences."""
    left = left_by(COMMAND, SCENES[0], NEWEST, USUAL)
    older, newer = (
        Question(command, NEWEST, USUAL, tuple(left.bodies), TUBES)
        for command in (COMMAND, f"{COMMAND} {options}")
    )
    return Counter(one.requirement for one in changed(*upgraded(older, newer, left.files)))


def _inventories(backend: Backend[Inventory], fault: str, states: int) -> Iterator[dict[str, int]]:
    """Yield what the scenes show of a fault, up to the one that shows what it breaks."""
    if FAULTS[fault].requirement == UPGRADE:
        yield broken_by_upgrade(f"--fault {fault}")
        return
    for every, scene in itertools.product((0, 50), SCENES):
        yield (found := broken(backend, f"--fault {fault}", scene, states, every))
        if FAULTS[fault].requirement in found:
            return


def main() -> int:
    """``python -m tests.crash_faults``: whether crashes show each of these faults."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--states", type=int, default=12, metavar="N", help="of each kind")
    parser.add_argument("names", nargs="*", metavar="FAULT", help="all, if none is named")
    args = parser.parse_args()
    start, missed = time.monotonic(), 0
    with contextlib.closing(workers(2)) as backend:
        for name in args.names or crash_faults():
            *_, found = _inventories(backend, name, args.states)
            due = FAULTS[name].requirement
            missed += due not in found
            told = ", ".join(f"{slug}: {states} states" for slug, states in found.items())
            print(f"{'caught' if due in found else 'MISSED'} {name} ({due}), {told}", flush=True)
    print(f"{missed} missed, {time.monotonic() - start:.0f} s")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
