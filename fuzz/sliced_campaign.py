"""A campaign in slices: distributes them to workers, and merges their findings.

Here is all that must not be lost: the corpus and the findings, each of them filed once. Between two
clients, a cluster keeps what was handed out.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from conformance.random_testing.findings import at_first_sight, not_kept
from conformance.run.options import Options
from conformance.run.tasks import Backend, Task
from conformance.target.address import TargetError
from fuzz.campaign_findings import Filed
from fuzz.corpus import Pool
from fuzz.edges import count
from fuzz.entries import FOLDER as PROGRAMS
from fuzz.entries import Shelf, dumps, loads
from fuzz.guidance import union
from fuzz.hostile import Progress
from fuzz.progress_updates import ProgressUpdate
from fuzz.slices import Beat, FirstSight, SharedKnowledge, Slice, SliceOutcome, end_of_campaign
from reference_server.profiles import Profile
from reports.results import TargetRecord
from reports.words import counted

SECONDS = 5.0
"""Seconds of a slice: it is done again if its worker is lost."""
APART = 10**6
"""The distance between the seeds of two slices."""


class SlicedCampaign:
    """A campaign on workers: ``findings`` and ``corpus`` are folders, the corpus if it is kept.

    ``shows`` is called now and then with the last update of each worker.
    """

    def __init__(
        self,
        options: Options,
        seed: int,
        findings: Path,
        corpus: Path | None,
        coverage: str = "auto",
        shows: Callable[[Sequence[ProgressUpdate]], None] = lambda _: None,
    ) -> None:
        self._options = options
        self._coverage = coverage
        self._seed = seed
        self._findings = findings
        self._shows = shows
        self._pool = Pool(corpus)
        self._shelf = Shelf(corpus / PROGRAMS) if corpus is not None else None
        self._reached = 0
        self.known = SharedKnowledge()
        self.found: dict[str, Filed] = {}
        """The findings, by name."""
        self.target: tuple[TargetRecord, Profile] | None = None
        """The target and its profile, once a slice is over."""
        which = repr((options, coverage, seed)).encode()
        self.name = f"fuzz-{hashlib.sha256(which).hexdigest()[:12]}"
        """The name of the work: equal for the same options, coverage and seed."""
        self._updates: dict[str, ProgressUpdate] = {}
        self._beats: dict[str, Beat] = {}
        self._mine: set[int] = set()
        """The seeds of slices whose outcome was not taken by an earlier client."""
        self._begun: float | None = None
        self._over: set[tuple[str, int]] = set()
        self._unreduced: dict[tuple[str, int], list[Path]] = {}

    def run(self, backend: Backend[SliceOutcome], seconds: float, most: float = math.inf) -> None:
        """Fuzz for so long since a worker has begun, or until ``most`` things are found.

        Raises TargetError when as many slices in a row fail as are done at a time.
        """
        failed = 0

        def next_slice() -> Task[SliceOutcome] | None:
            passed = 0.0 if self._begun is None else time.monotonic() - self._begun
            left, wanted = seconds - passed, most - len(self.found)
            if min(left, wanted) <= 0:
                return None
            seed = self._seed + backend.number() * APART
            self._mine.add(seed)
            part = Slice(
                *(self.name, self._options, self._coverage, seed, min(left, SECONDS), wanted),
                self._all_known(),
            )
            return Task(str(seed), part)

        with contextlib.closing(backend):
            self._mine.update(map(int, backend.left()))
            if self._mine:
                print(f"taking over {counted(len(self._mine), 'slice')} of before", flush=True)
            backend.hear(self.name, self._hear)
            for task in backend.done(next_slice, lambda: self._shows(self.updates)):
                if task.result is not None:
                    failed = 0
                    self._merge(task.result)
                    continue
                failed += 1
                if failed >= backend.slots:
                    raise TargetError(str(task.error))
                print(f"a slice could not be done: {task.error}", flush=True)
            backend.end_work(end_of_campaign, self.name)
            if not self._over:
                raise TargetError("no worker has done anything in the time")

    @property
    def updates(self) -> list[ProgressUpdate]:
        """The last update of each worker, with its progress in the slice that it is at."""
        return [
            replace(update, progress=_sum(update.progress, self._beats[worker].progress))
            if worker in self._beats
            else update
            for worker, update in self._updates.items()
        ]

    @property
    def unreduced(self) -> list[Path]:
        """The files of unshrunk findings from slices that are not over."""
        return [path for paths in self._unreduced.values() for path in paths]

    def _all_known(self) -> SharedKnowledge:
        """Return all that is known, with what other fuzzers have put into the corpus."""
        self._pool.exchange()
        self.known |= SharedKnowledge(frozenset(self._pool.inputs))
        for entry in self._shelf.new_entries() if self._shelf is not None else ():
            self._reached |= entry.reached
            self.known |= SharedKnowledge(entries=frozenset({dumps(entry)}))
        fewest = frozenset(map(dumps, union(map(loads, self.known.entries))))
        return replace(self.known, entries=fewest)

    # ------------------------------------------------------------ putting together

    def _merge(self, outcome: SliceOutcome) -> None:
        """Merge the outcome of a slice; merging it twice changes nothing except counts."""
        for data in outcome.known.inputs - self.known.inputs:
            self._pool.add(data)
        for entry in map(loads, outcome.known.entries - self.known.entries):
            self._reached |= entry.reached
            if self._shelf is not None:
                self._shelf.put(entry)
        self.known |= outcome.known
        self.target = outcome.identity, outcome.profile
        self._file(outcome)
        self._over.add((outcome.worker, outcome.seed))
        for path in self._unreduced.pop((outcome.worker, outcome.seed), ()):
            path.unlink(missing_ok=True)
        self._beats = {
            worker: beat for worker, beat in self._beats.items() if beat.seed != outcome.seed
        }
        update = self._updates.setdefault(outcome.worker, ProgressUpdate(len(self._updates)))
        lines = (self.found[filed.diagnosis.name] for filed in outcome.found)
        found = ((filed.line, not filed.diagnosis.de_facto) for filed in lines)
        self._updates[outcome.worker] = replace(
            update,
            target=outcome.target,
            progress=_sum(update.progress, outcome.progress),
            shapes=len(self.known.shapes),
            edges=count(self._reached),
            undecided=update.undecided + outcome.undecided,
            unjudged=update.unjudged + outcome.unjudged,
            found=tuple(dict.fromkeys([*update.found, *found])),
            health=tuple(
                outcome.files.with_local_paths(said, self._findings) for said in outcome.health
            )
            or update.health,
        )

    def _file(self, outcome: SliceOutcome) -> None:
        """File what was found, unless it is filed."""
        files, unkept = outcome.files, ""
        try:
            files.file(self._findings)
        except OSError as error:
            unkept = not_kept(self._findings, error)
        for filed in outcome.found:
            path = None
            if filed.path is not None and not unkept:
                path = Path(files.with_local_paths(str(filed.path), self._findings))
            seen = "; ".join(filter(None, (filed.seen, unkept)))
            self.found.setdefault(filed.diagnosis.name, replace(filed, path=path, seen=seen))

    # ------------------------------------------------------------ meanwhile

    def _hear(self, heard: FirstSight | Beat) -> None:
        """Take a message of a worker that is at work."""
        place = heard.worker, heard.seed
        if heard.seed not in self._mine or place in self._over:
            return
        if isinstance(heard, Beat):
            self._begun = self._begun or time.monotonic()
            self._beats[heard.worker] = heard
            update = ProgressUpdate(len(self._updates), target=heard.target)
            self._updates.setdefault(heard.worker, update)
            return
        # The slice brings what its worker makes of it, unless the worker is lost.
        with contextlib.suppress(OSError):
            path = at_first_sight(self._findings, heard.transcript)
            self._unreduced.setdefault(place, []).append(path)


def _sum(one: Progress, other: Progress) -> Progress:
    return Progress(
        one.cases + other.cases,
        one.commands + other.commands,
        max(one.slowest, other.slowest),
    )
