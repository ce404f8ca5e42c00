"""The folders of shared libraries that can be preloaded into a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_PLACES = tuple(map(Path, ("/usr/lib", "/usr/lib64", "/usr/local/lib")))


def library_folders(name: str) -> Iterator[Path]:
    """Yield the folders of this name among libraries, whether they are there or not."""
    for place in _PLACES:
        yield from sorted(place.glob(f"*/{name}"))
        yield place / name
