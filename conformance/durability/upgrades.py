"""Files of an older version of a server, on which its successor is started."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from conformance.durability.disk import Files, read_in, write_out
from conformance.durability.inspection import Inventory, shown
from conformance.durability.judging import LATE, LEFT, JobDifference
from conformance.durability.recording import play
from conformance.durability.scenes import CrashScene, Say
from conformance.target.launch import DidNotStart, Launched
from conformance.target.limits import Limits
from conformance.verdict import NotTestable
from reference_server.profiles import Profile

UPGRADE = "durability.upgrade"
_KEPT = ("body", "tube", "state", "pri", "ttr", "delay")
"""The fields of a job that are the same in both versions."""
_FILES, _BODIES = "files", "bodies.json"


class LeftFiles(NamedTuple):
    """The files of a server that was ended, and the bodies of all jobs that it was given."""

    files: Files
    bodies: dict[int, str]

    @classmethod
    def of(cls, files: Files, said: Iterable[tuple[int, Say]]) -> LeftFiles:
        """Return the files after these commands, each with the id of the job that it has put."""
        return cls(files, {id: shown(step.body or b"") for id, step in said if step.job})

    @classmethod
    def kept(cls, folder: Path) -> LeftFiles | None:
        """Return those that were kept in a folder, if there are any."""
        bodies_file = folder / _BODIES
        if not bodies_file.exists():
            return None
        bodies = {int(id): body for id, body in json.loads(bodies_file.read_text("utf-8")).items()}
        return cls(read_in(folder / _FILES), bodies)

    def keep(self, folder: Path) -> None:
        """Keep them in a folder, in place of what is there."""
        shutil.rmtree(folder, ignore_errors=True)
        (folder / _FILES).mkdir(parents=True)
        write_out(self.files, folder / _FILES)
        (folder / _BODIES).write_text(json.dumps(self.bodies), encoding="utf-8")


def left_by(command: str, scene: CrashScene, profile: Profile, limits: Limits) -> LeftFiles:
    """Play a scene on a server and end it; raise NotTestable if that goes wrong."""
    with tempfile.TemporaryDirectory(prefix="beanstalk-conformance-binlog-") as folder:
        try:
            launched = Launched(command, values={"binlog": folder}, limits=limits)
        except DidNotStart as error:
            raise NotTestable(f"it {error.how}: {error.said}") from error
        with launched as server:
            played = play(server, scene, profile, limits, 0.0)
        files = read_in(Path(folder))
    steps = (step for step in scene.steps if isinstance(step, Say))
    return LeftFiles.of(
        files, ((id, step) for (id, *_), step in zip(played.spoken, steps, strict=True))
    )


def changed(older: Inventory, newer: Inventory) -> Iterator[JobDifference]:
    """Yield what is not as the older version itself has it after a restart on the same files.

    A newer version that ends with a message has lost nothing.
    """
    if newer.crashed:
        expected = "a server that starts, with the jobs that the older one has"
        observed = f"it {newer.ending}: {newer.said[-200:]}"
        yield JobDifference(UPGRADE, f"the server {newer.ending}", expected, observed)
    if newer.ending:
        return
    for id, job in older.jobs.items():
        found = newer.jobs.get(id)
        if found is None:
            expected = f"a {job.get('state', 'broken')} job"
            yield JobDifference(UPGRADE, "a job is lost", expected, "NOT_FOUND", str(id))
        else:
            yield from _changed_fields(str(id), job, found)
            yield from _changed_delay(str(id), older, newer)
    for id in sorted(newer.jobs.keys() - older.jobs.keys()):
        yield JobDifference(UPGRADE, "a job was not there", "NOT_FOUND", "a job", str(id))
    for tube, jobs in older.buried.items():
        if (order := newer.buried.get(tube, [])) != jobs and sorted(order) == sorted(jobs):
            expected, observed = (" ".join(map(str, ids)) for ids in (jobs, order))
            yield JobDifference(UPGRADE, "buried jobs in another order", expected, observed, tube)


def _changed_fields(
    id: str, job: Mapping[str, str], found: Mapping[str, str]
) -> Iterator[JobDifference]:
    """Yield the fields of a job that differ."""
    for key in _KEPT:
        if job.get(key) != found.get(key, job.get(key)):
            expected, observed = (f"{key}: {fields.get(key)}" for fields in (job, found))
            yield JobDifference(UPGRADE, f"another {key}", expected, observed, id)


def _changed_delay(id: str, older: Inventory, newer: Inventory) -> Iterator[JobDifference]:
    """Yield that the delay of a job ends at another time, if both say when it does."""
    jobs = [one.jobs[int(id)] for one in (older, newer)]
    left = [job.get(LEFT, "") for job in jobs]
    if any(job.get("state") != "delayed" for job in jobs) or not all(map(str.isdecimal, left)):
        return
    # Both were asked at some time between the begin and the end of their inventories.
    slack = LATE + sum(one.ended - one.began for one in (older, newer))
    due, seen = int(left[0]) - (newer.began - older.began), int(left[1])
    if abs(due - seen) > slack:
        expected = f"{LEFT}: {due - slack:.1f} to {due + slack:.1f}"
        yield JobDifference(UPGRADE, "another end of the delay", expected, f"{LEFT}: {seen}", id)
