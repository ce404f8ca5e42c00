"""A disk with the files of one folder, in memory: operations change it, states are taken of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conformance.durability.operations import (
    Create,
    Link,
    Operation,
    Rename,
    Resize,
    Unlink,
    Write,
)

BLOCK = 4096


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file: its size, and its blocks but those with zeros only."""

    size: int = 0
    blocks: Mapping[int, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, data: bytes) -> Content:
        """Return these bytes."""
        return cls().written(0, data)

    def written(self, offset: int, data: bytes) -> Content:
        """Return it with other bytes from an offset on."""
        blocks, end = dict(self.blocks), offset + len(data)
        for start in range(offset - offset % BLOCK, end, BLOCK):
            old = blocks.get(start, bytes(BLOCK))
            first, last = max(offset - start, 0), min(end - start, BLOCK)
            part = data[start + first - offset : start + last - offset]
            blocks[start] = old[:first] + part + old[last:]
            if blocks[start].count(0) == BLOCK:
                del blocks[start]
        return Content(max(self.size, end), blocks)

    def resized(self, size: int) -> Content:
        """Return it with another size."""
        blocks = {start: block for start, block in self.blocks.items() if start < size}
        cut = size % BLOCK
        if cut and (last := blocks.get(size - cut)):
            blocks[size - cut] = last[:cut] + bytes(BLOCK - cut)
        return Content(size, blocks)

    def bytes(self) -> bytes:
        """Return all of it."""
        data = bytearray(self.size)
        for start, block in self.blocks.items():
            data[start : start + BLOCK] = block[: self.size - start]
        return bytes(data)

    def write_out(self, path: Path) -> None:
        """Make a file of it; zeros take no room."""
        with path.open("wb") as file:
            for start, block in self.blocks.items():
                file.seek(start)
                file.write(block[: self.size - start])
            file.truncate(self.size)


Files = Mapping[str, Content]
"""The files of a folder: paths, and the content of each file."""


class Disk:
    """The files of a folder; what is done to it is never half done."""

    def __init__(self) -> None:
        self._contents: dict[int, Content] = {}
        self._names: dict[str, int] = {}

    def copy(self) -> Disk:
        """Return a disk like this one, which changes apart from it."""
        other = Disk()
        other._contents, other._names = dict(self._contents), dict(self._names)
        return other

    def apply(self, operation: Operation) -> None:
        """Change the disk as the operation does, as far as its file is there."""
        match operation:
            case Create(file, path):
                self._names[path] = file
                self._contents.setdefault(file, Content())
            case Write(file, offset, data):
                self._contents[file] = self._content(file).written(offset, data)
            case Resize(file, size):
                self._contents[file] = self._content(file).resized(size)
            case Rename(path, to) if path in self._names:
                self._names[to] = self._names.pop(path)
            case Link(path, to) if path in self._names:
                self._names[to] = self._names[path]
            case Unlink(path):
                self._names.pop(path, None)

    def _content(self, file: int) -> Content:
        return self._contents.get(file, Content())

    def path(self, file: int) -> str:
        """Return the name of a file, or one of them."""
        return next((path for path, number in self._names.items() if number == file), "a lost file")

    def files(self) -> Files:
        """Return what can be found in the folder."""
        return {path: self._contents[file] for path, file in sorted(self._names.items())}


def digest(files: Files) -> str:
    """Return a name for the contents of a folder."""
    found = hashlib.sha256()
    for path, content in sorted(files.items()):
        found.update(f"{path}\0{content.size}\0".encode())
        for start, block in sorted(content.blocks.items()):
            found.update(b"%d\0" % start)
            found.update(block)
    return found.hexdigest()[:24]


def write_out(files: Files, folder: Path) -> None:
    """Make the files in an empty folder."""
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        content.write_out(place)
