"""Damaged files: a server exits with a message, or continues with the undamaged part.

It must not crash, hang, or hand out jobs that nobody has put. What of the damaged files it still
finds is its own affair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from conformance.durability.disk import BLOCK, Content, Files
from conformance.durability.inspection import Inventory
from conformance.durability.judging import JobDifference

DAMAGED = "durability.damaged-files"
_LIMITS = (0, 2**31 - 1, 2**31, 2**32 - 1)
"""Numbers that are written in place of each 32 bits: where lengths are, these are their limits."""
_FOREIGN = (b"", b"\0", b"hello, world\n" * 500, b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
_OLDER = 3
"""Earlier versions that a file is made to claim, if it begins with a version."""
_VERSIONS = 256
"""The least number at the beginning of a file that is not taken for a version."""
_BEHIND = 64
"""Bytes after the last that is not zero that are damaged, too."""


class Damage(NamedTuple):
    """Files that are not as the server has left them, and what was done to them.

    ``is_cut``: one of them ends early, as where a disk was full.
    """

    files: Files
    words: str
    is_cut: bool = False


def damages(files: Files) -> Iterator[Damage]:
    """Yield files with one place that is damaged."""
    for path, content in files.items():
        data = content.bytes()
        used = _used(data)
        for place in range(used):
            flipped = bytes([data[place] ^ 0xFF])
            yield _changed(files, path, place, flipped, f"byte {place} of {path} flipped")
        for place in range(0, used - 3, 4):
            for number in _LIMITS:
                words = f"{number} in the 32 bits at {place} of {path}"
                yield _changed(files, path, place, number.to_bytes(4, "little"), words)


def cuts(files: Files) -> Iterator[Damage]:
    """Yield files of which one ends early, after each of its bytes."""
    for path, content in files.items():
        for size in range(_used(content.bytes())):
            cut = {**files, path: content.resized(size)}
            yield Damage(cut, f"{path} cut off after {size} bytes", is_cut=True)


def _used(data: bytes) -> int:
    """Return the size of the part of a file that is worth being damaged."""
    return min(len(data.rstrip(b"\0")) + _BEHIND, len(data))


def other_files(files: Files) -> Iterator[Damage]:
    """Yield files of which one is missing, foreign, of an older version, or a folder."""
    for path, content in files.items():
        others = {p: c for p, c in files.items() if p != path}
        yield Damage(others, f"no {path}")
        longer = content.written(content.size, b"\xff" * BLOCK)
        yield Damage({**files, path: longer}, f"{BLOCK} bytes of 255 after {path}")
        for number, foreign in enumerate(_FOREIGN):
            other = {**files, path: Content.of(foreign)}
            yield Damage(other, f"a foreign file in place of {path} ({number})")
        yield Damage({**others, f"{path}/file": Content.of(b"x")}, f"a folder in place of {path}")
        version = int.from_bytes(content.bytes()[:4], "little")
        for older in range(max(version - _OLDER, 0), version) if version < _VERSIONS else ():
            words = f"{older} in place of {version} at the beginning of {path}"
            yield _changed(files, path, 0, older.to_bytes(4, "little"), words)


def _changed(files: Files, path: str, place: int, data: bytes, words: str) -> Damage:
    return Damage({**files, path: files[path].written(place, data)}, words)


def wrong(
    inventory: Inventory, bodies: Mapping[int, str], is_cut: bool = False
) -> Iterator[JobDifference]:
    """Yield what a server must not do with damaged files; ``bodies`` are those of all jobs put.

    ``is_cut``: it has a cause of its own, as any server comes across files that end early.
    """
    where = " where a file ends early" if is_cut else ""
    if inventory.crashed:
        expected = "a server that ends with a message, or goes on"
        yield JobDifference(
            DAMAGED,
            f"the server {inventory.ending}{where}",
            expected,
            f"{inventory.ending}: {inventory.said}",
        )
    for id, job in inventory.jobs.items():
        if id not in bodies:
            what = f"a job {id} with the body {job['body']}"
            yield JobDifference(DAMAGED, f"a job that nobody has put{where}", "no such job", what)
        elif bodies[id] != job["body"]:
            cause = f"a job with another body than it was put with{where}"
            yield JobDifference(
                DAMAGED, cause, f"body: {bodies[id]}", f"body: {job['body']}", str(id), (id,)
            )
