"""Files of an older version of a server, on which its successor is started."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from conformance.durability.disk import Files, read_in, write_out
from conformance.durability.inspection import Inventory, Question, inspect, shown
from conformance.durability.judging import LATE, LEFT, JobDifference, other_delay
from conformance.durability.recording import play
from conformance.durability.scene_transcript import SceneTranscript
from conformance.durability.scenes import CrashScene
from conformance.target.launch import DidNotStart, Launched
from conformance.target.limits import Limits
from conformance.verdict import NotTestable
from reference_server.profiles import Profile

UPGRADE = "durability.upgrade"
_KEPT = ("body", "tube", "state", "pri", "ttr", "delay")
"""The fields of a job that are the same in both versions."""
_FILES, _TRANSCRIPT = "files", "transcript.json"


class LeftFiles(NamedTuple):
    """The files of a server that was ended, and what it was asked before."""

    files: Files
    transcript: SceneTranscript

    @property
    def bodies(self) -> dict[int, str]:
        """The bodies of all jobs that it was given, by ids."""
        return {
            one.id: shown(one.step.body or b"") for one in self.transcript.spoken if one.step.job
        }

    @classmethod
    def kept(cls, folder: Path, scene: CrashScene) -> LeftFiles | None:
        """Return those that were kept in a folder after a scene, if there are any."""
        if not (file := folder / _TRANSCRIPT).exists():
            return None
        transcript = SceneTranscript.of_json(scene, json.loads(file.read_text("utf-8")))
        return cls(read_in(folder / _FILES), transcript)

    def keep(self, folder: Path) -> None:
        """Keep them in a folder, in place of what is there."""
        shutil.rmtree(folder, ignore_errors=True)
        (folder / _FILES).mkdir(parents=True)
        write_out(self.files, folder / _FILES)
        text = json.dumps(self.transcript.as_json())
        (folder / _TRANSCRIPT).write_text(text, encoding="utf-8")


def left_by(command: str, scene: CrashScene, profile: Profile, limits: Limits) -> LeftFiles:
    """Play a scene on a server and end it; raise NotTestable if that goes wrong."""
    with tempfile.TemporaryDirectory(prefix="beanstalk-conformance-binlog-") as folder:
        try:
            launched = Launched(command, values={"binlog": folder}, limits=limits)
        except DidNotStart as error:
            raise NotTestable(f"it {error.how}: {error.said}") from error
        with launched as server:
            played = play(server, scene, profile, limits, 0.0)
        return LeftFiles(read_in(Path(folder)), played.transcript)


def upgraded(older: Question, newer: Question, files: Files) -> tuple[Inventory, Inventory]:
    """Start both versions on these files of the older one, and return what each has.

    Raises NotTestable if the older one does not start on them.
    """
    before = inspect(older, files)
    if before.ending:
        raise NotTestable(f"the older version {before.ending} on its own files: {before.said}")
    return before, inspect(newer, files)


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
            yield JobDifference(UPGRADE, "a job is lost", expected, "NOT_FOUND", str(id), (id,))
        else:
            # Each was asked at some time between the begin and the end of its inventory.
            slack = LATE + sum(one.ended - one.began for one in (older, newer))
            for one in _changed_fields(str(id), job, found, newer.began - older.began, slack):
                yield one._replace(ids=(id,))
    for id in sorted(newer.jobs.keys() - older.jobs.keys()):
        yield JobDifference(UPGRADE, "a job was not there", "NOT_FOUND", "a job", str(id))
    for tube, jobs in older.buried.items():
        if (order := newer.buried.get(tube, [])) != jobs and sorted(order) == sorted(jobs):
            expected, observed = (" ".join(map(str, ids)) for ids in (jobs, order))
            cause = "buried jobs in another order"
            yield JobDifference(UPGRADE, cause, expected, observed, tube, tuple(jobs))


def _changed_fields(
    id: str, job: Mapping[str, str], found: Mapping[str, str], passed: float, slack: float
) -> Iterator[JobDifference]:
    """Yield the fields of a job that differ so many seconds later; of those that both show."""
    for key in _KEPT:
        if key in job and found.get(key, job[key]) != job[key]:
            expected, observed = (f"{key}: {fields[key]}" for fields in (job, found))
            yield JobDifference(UPGRADE, f"another {key}", expected, observed, id)
    left = job.get(LEFT, "")
    if job.get("state") == found.get("state") == "delayed" and left.isdecimal():
        due = int(left) - passed
        if (values := other_delay(found, due - slack, due + slack)) is not None:
            yield JobDifference(UPGRADE, "another end of the delay", *values, id)
