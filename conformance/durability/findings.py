"""The findings of a campaign: differences by cause, each with the simplest crash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from conformance.durability.catalogue import requirements
from conformance.durability.crashes import CrashKind
from conformance.durability.disk import Files
from conformance.durability.judging import JobDifference
from reference_server.profiles import Profile

POWER_LOSS = "durability.power-loss"
_KEPT = "persistence."
"""The beginning of requirements about what is kept; lost power may cost that."""
_WITHOUT_LOSS = frozenset((CrashKind.KILLED, CrashKind.LOAD))
_SIMPLEST = (
    *(CrashKind.KILLED, CrashKind.POWER, CrashKind.TORN, CrashKind.LOAD),
    *(CrashKind.UPGRADE, CrashKind.DAMAGE),
)


@dataclass
class CrashCase:
    """A crash that shows a difference: the disk in words, and the conversation before it."""

    difference: JobDifference
    kind: str
    place: tuple[int, int]
    """Its simplicity: its kind, and the number of operations before it."""
    disk: str
    talk: Callable[[], list[str]]
    """Return the conversation: built on demand, as few cases are printed."""
    state: str
    """The name of what is on the disk."""
    files: Files
    scene: str

    @property
    def place_of_files(self) -> Path:
        """The folder, in that of the campaign, with the files that show it."""
        return Path("states", self.state)


@dataclass
class CrashFinding:
    """All crashes that show the same; ``states`` counts them by their kinds."""

    requirement: str
    cause: str
    case: CrashCase
    states: Counter[str] = field(default_factory=Counter)

    def level(self, profile: Profile) -> str:
        """Return the level of the requirement in a profile."""
        return requirements()[self.requirement].judged_by(profile.stage).level


def grouped(cases: Iterable[CrashCase]) -> list[CrashFinding]:
    """Group the cases by cause: one finding each, however many jobs and crashes show it."""
    found: dict[tuple[str, str], CrashFinding] = {}
    states: dict[tuple[str, str], set[tuple[str, str, str]]] = {}
    for case in cases:
        key = case.difference.requirement, case.difference.cause
        finding = found.setdefault(key, CrashFinding(*key, case))
        if case.place < finding.case.place:
            finding.case = case
        counted = states.setdefault(key, set())
        if (case.kind, case.scene, case.state) not in counted:
            counted.add((case.kind, case.scene, case.state))
            finding.states[case.kind] += 1
    for finding in found.values():
        if not {CrashKind.KILLED, CrashKind.LOAD} & set(
            finding.states
        ) and finding.requirement.startswith(_KEPT):
            # It is kept as long as the system goes on.
            finding.requirement = POWER_LOSS
    return sorted(found.values(), key=lambda one: (one.requirement, one.cause))


def place(kind: CrashKind, at: int) -> tuple[int, int]:
    """Return how simple a crash is to a reader."""
    return _SIMPLEST.index(kind), at
