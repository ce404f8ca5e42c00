"""The servers of the gallery: how each is found and started, and where its code is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from reports.results import Results

FOLDER = Path(__file__).parent


class GalleryEntry(BaseModel):
    """Something that was run: its version, and where its code is."""

    model_config = ConfigDict(extra="forbid")

    version: str
    language: str
    source: str = ""
    commit: str = ""
    changes: str = ""

    @property
    def origin(self) -> dict[str, str]:
        """The labels of its results: the code that was run."""
        labels = self.model_dump(include={"language", "source", "commit", "changes"})
        return {key: text for key, text in labels.items() if text}


class GalleryServer(GalleryEntry):
    """A server of the gallery; see ``servers.yaml``.

    ``processes``: one that is slow to answer is run so many times, side by side.
    """

    label: str
    program: str
    options: str
    profile: str = "auto"
    processes: int = 0

    @property
    def has_profile(self) -> bool:
        """Tell whether it is judged by a profile of its own, not by that of its version."""
        return self.profile != "auto"

    def programs(self, name: str) -> Iterator[str]:
        """Yield the paths of programs that may be it."""
        return filter(None, map(shutil.which, (name, self.program)))

    def made(self, results: Results) -> bool:
        """Return whether results are of this version."""
        return results.target.version.removeprefix("beanstalkd ") == self.version


def results_of(name: str) -> Path:
    """Return the file with the results of a server."""
    return FOLDER / f"{name}.json.gz"


def servers() -> dict[str, GalleryServer]:
    """Return all servers of the gallery, by name."""
    text = (FOLDER / "servers.yaml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, GalleryServer]).validate_python(yaml.safe_load(text))
