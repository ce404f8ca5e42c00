"""The client libraries of the gallery: how each is found, and its driver started."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import TypeAdapter

from reports.gallery.servers import FOLDER, GalleryEntry


class GalleryClient(GalleryEntry):
    """A client library of the gallery; see ``clients.yaml``."""

    find: str
    driver: str

    @property
    def command(self) -> Sequence[str]:
        """The command of its driver."""
        return shlex.split(self.driver)

    def found_version(self) -> str:
        """Return the version that is installed, or nothing."""
        command = shlex.split(self.find)
        try:
            found = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            return ""
        return found.stdout.strip() if found.returncode == 0 else ""


def client_results_of(name: str) -> Path:
    """Return the file with the results of a client library."""
    return FOLDER / "clients" / f"{name}.json.gz"


def clients() -> dict[str, GalleryClient]:
    """Return all client libraries of the gallery, by name."""
    text = (FOLDER / "clients.yaml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, GalleryClient]).validate_python(yaml.safe_load(text))
