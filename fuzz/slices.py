"""Slices of a campaign: a worker fuzzes for a while, and returns its discoveries.

A worker keeps target and fuzzer from one slice to the next, as it takes long to start them, and
they know what is found. All that a slice needs to be done elsewhere is in it.
"""

from __future__ import annotations

import atexit
import math
import tempfile
import threading
import time
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance.random_testing.exploration import Exploration
from conformance.run.identity import identified
from conformance.run.options import Options
from conformance.run.transferred_files import HandedOver
from conformance.run.workers import send_message, worker_name
from conformance.target.address import TargetError
from conformance.target.cleanup import leave
from conformance.target.launch import LaunchError
from conformance.target.target import Target
from conformance.transcript import Transcript
from fuzz.campaign_findings import Filed
from fuzz.corpus import Pool
from fuzz.entries import dumps, loads
from fuzz.fuzzer import Fuzzer
from fuzz.grey_target import Sight
from fuzz.guidance import CorpusEntry
from fuzz.hostile import Progress
from fuzz.suppression import Form
from reference_server.profiles import Profile
from reports.results import TargetRecord

_BEAT = 1.0
"""Seconds between two beats of a worker."""


@dataclass(frozen=True, slots=True)
class SharedKnowledge:
    """The knowledge of a campaign: inputs, their outcomes, and forms of lines with known bugs.

    ``entries``: programs, each with the edges that it reaches, as text.
    """

    inputs: frozenset[bytes] = frozenset()
    shapes: frozenset[Hashable] = frozenset()
    forms: frozenset[Form] = frozenset()
    entries: frozenset[str] = frozenset()

    def __or__(self, other: SharedKnowledge) -> SharedKnowledge:
        return SharedKnowledge(
            self.inputs | other.inputs,
            self.shapes | other.shapes,
            self.forms | other.forms,
            self.entries | other.entries,
        )

    def __sub__(self, other: SharedKnowledge) -> SharedKnowledge:
        return SharedKnowledge(
            self.inputs - other.inputs,
            self.shapes - other.shapes,
            self.forms - other.forms,
            self.entries - other.entries,
        )


class HandedOn:
    """Entries that are shared with slices, before and after them."""

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self._new: list[CorpusEntry] = []

    def take(self, texts: Iterable[str]) -> None:
        """Take in what others have found."""
        new = {*texts} - self.texts
        self.texts |= new
        self._new += map(loads, sorted(new))

    def put(self, entry: CorpusEntry) -> None:
        """Hand on an entry."""
        self.texts.add(dumps(entry))

    def new_entries(self) -> Iterator[CorpusEntry]:
        """Yield what others have found since this was asked last."""
        new, self._new = self._new, []
        return iter(new)


@dataclass(frozen=True, slots=True)
class SliceOutcome:
    """The outcome of a slice: all that was not known before."""

    worker: str
    seed: int
    target: str
    identity: TargetRecord
    profile: Profile
    progress: Progress
    undecided: int
    unjudged: int
    known: SharedKnowledge
    found: tuple[Filed, ...]
    files: HandedOver
    health: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FirstSight:
    """A violation at first sight, before it is shrunk, in the slice of a seed."""

    worker: str
    seed: int
    transcript: Transcript


@dataclass(frozen=True, slots=True)
class Beat:
    """The progress of a worker in a slice."""

    worker: str
    seed: int
    target: str
    progress: Progress


@dataclass(slots=True)
class _Kept:
    """A fuzzer that goes on from one slice to the next, and the slice that it is at."""

    campaign: str
    target: Target
    exploration: Exploration
    description: str
    """The target and its coverage, in words."""
    folder: tempfile.TemporaryDirectory[str]
    pool: Pool
    entries: HandedOn
    fuzzer: Fuzzer


_kept: dict[int, _Kept] = {}
"""The one of each thread of this worker."""


@dataclass(frozen=True, slots=True)
class Slice:
    """So many seconds of a campaign, from a seed on, or until ``most`` things are found.

    Can be called.
    """

    campaign: str
    options: Options
    coverage: str
    seed: int
    seconds: float
    most: float
    known: SharedKnowledge

    def __call__(self) -> SliceOutcome:
        """Fuzz; raises TargetError, LaunchError or NotInstrumented."""
        kept = _kept.get(threading.get_ident())
        if kept is None or kept.campaign != self.campaign:
            end_of_thread()
            kept = _kept[threading.get_ident()] = self._begin()
            atexit.register(end_of_campaign, self.campaign)
        try:
            return self._go_on(kept)
        except (OSError, TargetError, LaunchError) as error:
            end_of_thread()
            raise TargetError(f"the target is lost: {error}") from error

    def _begin(self) -> _Kept:
        sight = Sight.of(self.options, self.coverage)
        target = sight.options.target()
        try:
            self.options.recognise(target)
        except BaseException:
            target.close()
            raise
        folder = tempfile.TemporaryDirectory(prefix="beanstalk-conformance-findings-")
        home = Path(folder.name)
        exploration = Exploration(1, self.seed, profile=target.profile, folder=home, shared=True)
        entries = HandedOn()
        grey = sight.grey_box(target, self.seed, entries)
        pool = Pool(None, grey.has_found_new) if grey is not None else Pool()

        def seen(transcript: Transcript) -> None:
            send_message(self.campaign, FirstSight(worker_name(), exploration.seed, transcript))

        description = sight.named(target)
        fuzzer = Fuzzer(exploration, target, pool, grey, seen)
        return _Kept(self.campaign, target, exploration, description, folder, pool, entries, fuzzer)

    def _go_on(self, kept: _Kept) -> SliceOutcome:
        worker, pool, report = worker_name(), kept.pool, kept.fuzzer.report
        pool.take(self.known.inputs, self.known.shapes)
        pool.known.take(self.known.forms)
        kept.entries.take(self.known.entries)
        progress = report.progress
        cases, commands, found = progress.cases, progress.commands, len(report.found)
        undecided, unjudged = kept.exploration.undecided, report.unjudged
        progress.slowest = 0.0

        def done() -> Progress:
            return Progress(progress.cases - cases, progress.commands - commands, progress.slowest)

        kept.exploration.seed = self.seed
        last_beat = -math.inf

        def beat() -> None:
            nonlocal last_beat
            if time.monotonic() - last_beat > _BEAT:
                last_beat = time.monotonic()
                send_message(self.campaign, Beat(worker, self.seed, kept.description, done()))

        beat()
        kept.fuzzer.go_on(self.seconds, found + self.most, beat)
        here = SharedKnowledge(
            frozenset(pool.inputs),
            frozenset(pool.shapes),
            pool.known.forms,
            frozenset(kept.entries.texts),
        )
        return SliceOutcome(
            worker,
            self.seed,
            kept.description,
            identified(kept.target, self.options),
            kept.target.profile,
            done(),
            kept.exploration.undecided - undecided,
            report.unjudged - unjudged,
            here - self.known,
            tuple(report.found[found:]),
            HandedOver.of(Path(kept.folder.name)),
            tuple(report.health.values()),
        )


def end_of_thread() -> None:
    """End what this thread has kept."""
    _end(threading.get_ident())


def end_of_campaign(campaign: str) -> None:
    """End what a worker has kept for a campaign."""
    for thread, kept in list(_kept.items()):
        if kept.campaign == campaign:
            _end(thread)


def _end(thread: int) -> None:
    kept = _kept.pop(thread, None)
    if kept is None:
        return
    kept.fuzzer.close()
    if not kept.target.exclusive:
        leave(kept.target, [])
    kept.target.close()
    kept.folder.cleanup()
