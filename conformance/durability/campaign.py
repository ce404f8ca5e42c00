"""All crashes of a scene: starts a server on each disk state, several at a time.

What a server reports is written down at once, so that a campaign can be resumed.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from conformance.durability.crashes import Crash, CrashKind, crashes, points, some
from conformance.durability.disk import Files, digest
from conformance.durability.findings import CrashCase, place
from conformance.durability.inspection import Inventory, Question, inspect
from conformance.durability.judging import differences
from conformance.durability.operations import Idle
from conformance.durability.recording import NEVER, SceneRecording
from conformance.run.tasks import Backend, InProcess, Processes, Task

_AHEAD = 32
"""States that the processes have before them."""


class JudgedCrash(NamedTuple):
    """A crash as it is judged: which commands have had their effect, and which may have."""

    crash: Crash
    least: int
    most: int

    @property
    def way(self) -> tuple[CrashKind, int, int]:
        """Return everything besides the disk that its verdict depends on."""
        return self.crash.kind, self.least, self.most


@dataclass
class DiskState:
    """The content of a disk, and the crashes that may leave it there."""

    files: Files
    crashes: list[JudgedCrash] = field(default_factory=list)

    @property
    def kind(self) -> CrashKind:
        """Return the simplest kind of crash that leaves it."""
        return min((one.crash for one in self.crashes), key=lambda one: place(one.kind, 0)).kind


@dataclass
class CrashOutcome:
    """The outcome of the crashes of a scene; ``states`` counts what they leave, by kinds.

    ``found``: so many states were there to be tried. ``untried``: why some crashes were not.
    """

    cases: list[CrashCase] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    """The states that were not tried, by the reason."""
    found: int = 0
    untried: list[str] = field(default_factory=list)


def states_of(recording: SceneRecording, limit: int) -> tuple[dict[str, DiskState], CrashOutcome]:
    """Return the states of the disk after crashes by their names; at most so many of each kind."""
    outcome, scene = CrashOutcome(), recording.scene
    # Writes through memory are not recorded: only what is never synced may have any content.
    killed = not recording.mapped
    if not killed:
        outcome.untried.append("its files are written through memory, which strace does not show")
    # What may be lost must be known, and the jobs before a large scene begins are not.
    power = not scene.begin or recording.loss != NEVER
    if not power:
        outcome.untried.append("lost power may cost all of it, as nothing is synced")
    found: dict[str, DiskState] = {}
    for crash in crashes(recording.operations, power, killed, _among(recording)):
        judged = JudgedCrash(crash, *recording.bounds(crash))
        if judged.least < scene.begin:
            outcome.left_out["it may cost more than the end of the scene"] += 1
            continue
        state = found.setdefault(digest(crash.files), DiskState(crash.files))
        if all(other.way != judged.way for other in state.crashes):
            state.crashes.append(judged)
    outcome.found = len(found)
    by_kind: defaultdict[str, list[str]] = defaultdict(list)
    for name, state in found.items():
        by_kind[state.kind].append(name)
    kept: set[str] = set()
    for names in by_kind.values():
        # As evenly as they came, and the last, before which the most was done.
        chosen = some(names, min(limit, scene.points or limit))
        due = min(len(names), scene.points or len(names))
        outcome.left_out["--states"] += due - len(chosen)
        kept |= {*chosen}
    found = {name: state for name, state in found.items() if name in kept}
    for state in found.values():
        outcome.states[state.kind] += 1
    return found, outcome


def _among(recording: SceneRecording) -> Container[int] | None:
    """Return the numbers of the operations at which it crashes; None for all."""
    scene = recording.scene
    if not scene.points:
        return None
    begin = recording.answered[scene.begin - 1] if scene.begin else 0
    kinds = [type(one.operation) for one in recording.operations]
    # The pause after the beginning, in which everything before it is synced.
    begin = kinds.index(Idle, begin) + 1 if Idle in kinds[begin:] else begin
    return points(recording.operations, begin, scene.points)


class DurabilityCampaign:
    """Inspects states in processes; ``kept`` is the file of the inventories.

    ``on_progress`` is called with the number of states that were tried, and of all. ``started``
    counts those of this run: others may be known from one that it resumes.
    """

    def __init__(
        self, backend: Backend[Inventory], kept: Path, on_progress: Callable[[int, int], None]
    ) -> None:
        self._backend = backend
        self._kept = kept
        self._on_progress = on_progress
        self.started, self.seconds = 0, 0.0

    def run(self, question: Question, recording: SceneRecording, limit: int) -> CrashOutcome:
        """Try the crashes of a recording, and judge the inventories."""
        states, outcome = states_of(recording, limit)
        inventories = self.inspected(
            question, [(name, state.files) for name, state in states.items()]
        )
        for name, state in states.items():
            outcome.cases += _cases(recording, name, state, inventories[name])
        return outcome

    def inspected(
        self, question: Question, work: Sequence[tuple[str, Files]]
    ) -> dict[str, Inventory]:
        """Return what a server has on each of these disks, by their names."""
        inventories = _read(self._kept)
        left = [(name, files) for name, files in work if name not in inventories]
        begun = time.monotonic()
        with self._kept.open("a", encoding="utf-8") as kept:
            tasks = (Task(name, partial(inspect, question, files)) for name, files in left)
            for task in self._backend.each(tasks):
                one = inventories[task.name] = task.outcome()
                kept.write(json.dumps([task.name, one.as_json()]) + "\n")
                self.started += 1
                self._on_progress(self.started, len(left))
        self.seconds = time.monotonic() - begun
        return inventories


def workers(count: int) -> Backend[Inventory]:
    """Return a backend for so many states at a time."""
    return InProcess() if count == 1 else Processes(count, _AHEAD)


def _read(path: Path) -> dict[str, Inventory]:
    """Return the inventories of earlier runs; unfinished lines are skipped."""
    inventories = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                name, fields = json.loads(line)
                inventories[name] = Inventory.of_json(fields)
            except (ValueError, TypeError, KeyError):
                continue
    return inventories


def _cases(
    recording: SceneRecording, name: str, state: DiskState, inventory: Inventory
) -> Iterator[CrashCase]:
    """Yield the differences of an inventory, for each crash that leads there."""
    transcript = recording.transcript
    for crash, least, most in state.crashes:
        moments = recording.story.moments[least : most + 1]
        for difference in differences(inventory, moments, transcript.ids, transcript.slowest):
            talk = partial(transcript.until, most, difference.ids)
            disk = f"{crash.kind}: {crash.words}"
            where = place(CrashKind(crash.kind), crash.at)
            yield CrashCase(
                difference, crash.kind, where, disk, talk, name, state.files, recording.scene.name
            )
