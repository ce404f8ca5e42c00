"""A disk with the files of one folder, in memory: operations change it, snapshots are taken."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conformance.durability.operations import (
    Create,
    HardLink,
    Operation,
    Rename,
    Resize,
    Unlink,
    Write,
)

BLOCK = 4096
_ZEROS = bytes(BLOCK)


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file: its size, and its blocks except those with zeros only."""

    size: int = 0
    blocks: Mapping[int, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, data: bytes) -> Content:
        """Return these bytes."""
        return cls().written(0, data)

    def written(self, offset: int, data: bytes) -> Content:
        """Return it with other bytes from an offset on."""
        draft = MutableContent(self)
        draft.write(offset, data)
        return draft.content()

    def resized(self, size: int) -> Content:
        """Return it with another size."""
        draft = MutableContent(self)
        draft.resize(size)
        return draft.content()

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


class MutableContent:
    """The bytes of a file while many operations change them."""

    def __init__(self, content: Content) -> None:
        self._size = content.size
        self._blocks = dict(content.blocks)

    def write(self, offset: int, data: bytes) -> None:
        """Change the bytes from an offset on."""
        end = offset + len(data)
        for start in range(offset - offset % BLOCK, end, BLOCK):
            first, last = max(offset - start, 0), min(end - start, BLOCK)
            block = data[start + first - offset : start + last - offset]
            if len(block) < BLOCK:
                old = self._blocks.get(start, _ZEROS)
                block = old[:first] + block + old[last:]
            if block == _ZEROS:
                self._blocks.pop(start, None)
            else:
                self._blocks[start] = block
        self._size = max(self._size, end)

    def resize(self, size: int) -> None:
        """Cut the file off, or add zeros."""
        for start in [start for start in self._blocks if start >= size]:
            del self._blocks[start]
        cut = size % BLOCK
        if cut and size - cut in self._blocks:
            self.write(size, bytes(BLOCK - cut))
        self._size = size

    def content(self) -> Content:
        """Return the bytes; nothing is to be changed any more."""
        return Content(self._size, self._blocks)


Files = Mapping[str, Content]
"""The files of a folder: paths, and the content of each file."""


class Disk:
    """The files of a folder; what is done to it is never half done."""

    def __init__(self) -> None:
        self._contents: dict[int, Content] = {}
        self._names: dict[str, int] = {}
        self._drafts: dict[int, MutableContent] = {}
        """The files that have changed since their contents were taken."""

    def copy(self) -> Disk:
        """Return a disk like this one, which changes apart from it."""
        self._take()
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
                self._draft(file).write(offset, data)
            case Resize(file, size):
                self._draft(file).resize(size)
            case Rename(path, to) if path in self._names:
                self._names[to] = self._names.pop(path)
            case HardLink(path, to) if path in self._names:
                self._names[to] = self._names[path]
            case Unlink(path):
                self._names.pop(path, None)

    def _draft(self, file: int) -> MutableContent:
        if file not in self._drafts:
            self._drafts[file] = MutableContent(self._contents.get(file, Content()))
        return self._drafts[file]

    def _take(self) -> None:
        """Take the contents of the files that have changed."""
        for file, draft in self._drafts.items():
            self._contents[file] = draft.content()
        self._drafts.clear()

    def path(self, file: int) -> str:
        """Return the name of a file, or one of them."""
        return next((path for path, number in self._names.items() if number == file), "a lost file")

    def files(self) -> Files:
        """Return what can be found in the folder."""
        self._take()
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


def read_in(folder: Path) -> Files:
    """Return the files in a folder."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): Content.of(path.read_bytes()) for path in paths}
