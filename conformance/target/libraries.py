"""The folders in which systems keep libraries that a server can load before its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_PLACES = tuple(map(Path, ("/usr/lib", "/usr/lib64", "/usr/local/lib")))


def library_folders(name: str) -> Iterator[Path]:
    """Yield the folders of this name among libraries, whether they are there or not."""
    for place in _PLACES:
        yield from sorted(place.glob(f"*/{name}"))
        yield place / name
