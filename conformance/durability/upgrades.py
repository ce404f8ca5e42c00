"""Files of an older version of a server, on which its successor is started."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from conformance.durability.disk import Files, read_in, write_out
from conformance.durability.inspection import shown
from conformance.durability.recording import play
from conformance.durability.scenes import CrashScene, Say
from conformance.target.launch import DidNotStart, Launched
from conformance.target.limits import Limits
from conformance.verdict import NotTestable
from reference_server.profiles import Profile

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
