"""The operations on files that crashes interrupt, in the order in which they ended.

Files are named by numbers, as they keep what they are while their names change; paths are relative
to the folder that the server keeps its jobs in.
"""

from __future__ import annotations

from typing import NamedTuple


class Create(NamedTuple):
    """A file that was not there is made."""

    file: int
    path: str


class Write(NamedTuple):
    """Bytes are written into a file; ``synced``: they are on the disk when that returns."""

    file: int
    offset: int
    data: bytes
    synced: bool = False

    @property
    def is_zeros(self) -> bool:
        """Return whether no other bytes are written."""
        return not self.data.strip(b"\0")


class Resize(NamedTuple):
    """A file gets another size."""

    file: int
    size: int


class Rename(NamedTuple):
    """A file gets another name, which another one may have had."""

    path: str
    to: str


class HardLink(NamedTuple):
    """A file gets one more name."""

    path: str
    to: str


class Unlink(NamedTuple):
    """A name is removed."""

    path: str


class Sync(NamedTuple):
    """All that was written to a file is on the disk; ``file`` is None for all files."""

    file: int | None


class SendBytes(NamedTuple):
    """Bytes are sent to a client."""

    size: int


class Idle(NamedTuple):
    """Time passes in which clients say nothing."""


Operation = Create | Write | Resize | Rename | HardLink | Unlink | Sync | SendBytes | Idle


class Timed(NamedTuple):
    """An operation, and the time at which it had ended, in seconds since 1970."""

    time: float
    operation: Operation


def changes_disk(operation: Operation) -> bool:
    """Return whether an operation changes what is on the disk."""
    return not isinstance(operation, SendBytes | Idle | Sync)
