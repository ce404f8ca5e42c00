"""The states in which a crash may leave the disk, computed from the operations before it.

The model of the file system is that of ALICE, as narrow as the journaling ones of Linux are in
their usual mode (ext4, XFS), so that what it says is lost can be lost there:

- A process that is killed loses nothing: each prefix of the operations is a state.
- A write may be on its way when the power fails: its first bytes are there, and no more. Each byte
  of a short write is tried, each sector of a long one.
- Until a file is synced, each of its blocks may be on the disk or not, whatever became of others. A
  block that is new may be there with zeros in place of its bytes. Within a block, nothing is there
  that was written later than what is missing: the system keeps whole blocks.
- Names and sizes are kept by a journal, in order: those that are there are a prefix of all. To sync
  any file, or a folder, is to write the journal out; the name of a new file is then there, too.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeVar

from conformance.durability.disk import BLOCK, Disk, Files
from conformance.durability.operations import (
    Create,
    HardLink,
    Idle,
    Operation,
    Rename,
    Resize,
    Sync,
    Timed,
    Unlink,
    Write,
    changes_disk,
)

SECTOR = 512
_FEW = 3
"""Losses of each kind that are tried where not all of them are."""
_Item = TypeVar("_Item")
SHORT = 600
"""Bytes of a write that may be torn at each of them."""


class CrashKind(StrEnum):
    """The kinds of crashes."""

    KILLED = "killed"
    TORN = "torn write"
    POWER = "power lost"
    LOAD = "killed under load"
    DAMAGE = "damaged"
    UPGRADE = "upgraded"


class Crash(NamedTuple):
    """A state of the disk; ``at``: so many operations had ended before the crash."""

    kind: CrashKind
    at: int
    files: Files
    words: str


@dataclass
class _Pending:
    """The operations that no sync has covered, by their numbers."""

    disk: Disk = field(default_factory=Disk)
    """The part that is on the disk whatever happens."""
    left: dict[int, Operation] = field(default_factory=dict)

    def take(self, number: int, operation: Operation) -> None:
        """Note an operation."""
        if isinstance(operation, Sync):
            self._sync(operation.file)
        elif changes_disk(operation):
            self.left[number] = operation
            if isinstance(operation, Write) and operation.synced:
                self._sync(operation.file)

    def _sync(self, file: int | None) -> None:
        """Note that a file is on the disk now, and with it all names and sizes."""
        left, self.left = self.left, {}
        for number, operation in left.items():
            if isinstance(operation, Write) and file is not None and operation.file != file:
                self.left[number] = operation
            else:
                self.disk.apply(operation)


def crashes(
    operations: Sequence[Timed],
    power: bool,
    killed: bool = True,
    among: Container[int] | None = None,
) -> Iterator[Crash]:
    """Yield the states of the disk: those of a server that is killed, and of lost power.

    ``among`` are the numbers of the operations at which it crashes; None for all of them. Of many
    losses at one of those, a few are tried.
    """
    disk, pending = Disk(), _Pending()
    losses = len(operations) if among is None else _FEW
    for number, (_, operation) in enumerate(operations):
        tried = among is None or number in among
        if tried and power and isinstance(operation, Write):
            yield from _torn(disk, number, operation)
        if tried and power and isinstance(operation, Sync | Idle):
            # All that can be lost until then is not safe yet.
            yield from _lost(pending, disk, number + isinstance(operation, Idle), losses)
        pending.take(number, operation)
        if changes_disk(operation):
            disk.apply(operation)
        if tried and killed:
            yield Crash(CrashKind.KILLED, number + 1, disk.files(), _all(number + 1))
    if power and (among is None or len(operations) in among):
        yield from _lost(pending, disk, len(operations), losses)


def points(operations: Sequence[Timed], begin: int, most: int) -> set[int]:
    """Return numbers of operations from ``begin`` on, of each kind so many at most.

    The kinds are those that change names, those that write, and those that sync.
    """
    found: set[int] = set()
    for kinds in ((Create, Rename, HardLink, Unlink), (Write, Resize), (Sync, Idle)):
        of_kind = [n for n in range(begin, len(operations)) if isinstance(operations[n][1], kinds)]
        found |= {*some(of_kind, most)}
    return found


def some(found: Sequence[_Item], most: int) -> list[_Item]:
    """Return ``most`` items at most, evenly spaced, the last one included."""
    step = max(len(found) / most, 1.0)
    return [found[int((n + 1) * step) - 1] for n in range(min(most, len(found)))]


def safe(operations: Sequence[Timed]) -> list[int]:
    """Return, for each number of operations, how many of them cannot be lost after so many."""
    pending, kept = _Pending(), [0]
    for number, (_, operation) in enumerate(operations):
        pending.take(number, operation)
        kept.append(min(pending.left, default=number + 1))
    return kept


def _torn(disk: Disk, number: int, write: Write) -> Iterator[Crash]:
    """Yield the states in which a write is on the disk in part."""
    size = len(write.data)
    for cut in range(1, size) if size <= SHORT else _sectors(write):
        torn = disk.copy()
        torn.apply(write._replace(data=write.data[:cut]))
        part = f"the first {cut} of {_named(disk, write)}"
        yield Crash(CrashKind.TORN, number, torn.files(), f"{_all(number)}, and {part}")


def _sectors(write: Write) -> Sequence[int]:
    """Return where sectors begin within a long write; of one with zeros only, the middle."""
    starts = range(SECTOR - write.offset % SECTOR, len(write.data), SECTOR)
    return starts[len(starts) // 2 :][:1] if write.is_zeros else starts


def _lost(pending: _Pending, now: Disk, at: int, most: int) -> Iterator[Crash]:
    """Yield the states in which some of what was not synced is lost; of each kind, so many."""
    left = list(pending.left.values())
    before = f"{_all(at)}, of which {len(left)} were not synced"

    def state(kept: Iterable[Operation], words: str, on: Disk | None = None) -> Crash:
        disk = on or pending.disk.copy()
        for operation in kept:
            disk.apply(operation)
        return Crash(CrashKind.POWER, at, disk.files(), f"{before}: {words}")

    begun, applied = pending.disk.copy(), 0
    for count in some(range(len(left)), most):
        yield state(left[applied:count], f"the last {len(left) - count} are lost", begun)
        applied = count
    pieces = [piece for operation in left for piece in _pieces(operation)]
    blocks = dict.fromkeys(block for piece in pieces if (block := _block(piece)))
    for file, start in some([*blocks], most) if len(blocks) > 1 else ():
        block = file, start
        region = f"the {BLOCK} bytes at {start} of {now.path(file)}"
        yield state((p for p in pieces if _block(p) != block), f"without {region}")
        yield state((_zeros(p) if _block(p) == block else p for p in pieces), f"zeros in {region}")
        others = (p for p in pieces if _block(p) in (block, None))
        yield state(others, f"except for names and sizes, only {region}")
    if any(not isinstance(operation, Write) for operation in left):
        yield state((p for p in pieces if _block(p) is None), "only names and sizes are there")
        yield state(map(_zeros, pieces), "zeros in place of all that was written")


def _pieces(operation: Operation) -> Iterator[Operation]:
    """Yield the parts of an operation that are on the disk or not apart from each other."""
    if not isinstance(operation, Write):
        yield operation
        return
    end = operation.offset + len(operation.data)
    for start in range(operation.offset - operation.offset % BLOCK, end, BLOCK):
        first, last = max(start, operation.offset), min(start + BLOCK, end)
        data = operation.data[first - operation.offset : last - operation.offset]
        yield operation._replace(offset=first, data=data)


def _block(operation: Operation) -> tuple[int, int] | None:
    """Return the file and the beginning of the block that is written to; None if none is."""
    if not isinstance(operation, Write):
        return None
    return operation.file, operation.offset - operation.offset % BLOCK


def _zeros(operation: Operation) -> Operation:
    if not isinstance(operation, Write):
        return operation
    return operation._replace(data=bytes(len(operation.data)))


def _named(disk: Disk, write: Write) -> str:
    """Return a write in words."""
    return f"the {len(write.data)} bytes at {write.offset} of {disk.path(write.file)}"


def _all(count: int) -> str:
    return f"the first {count} operations"
