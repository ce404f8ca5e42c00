"""Room on a disk that is held back for the time when the rest of it is full."""

from __future__ import annotations

import os
from pathlib import Path

from reference_server.system import allocate


class DiskReserve:
    """A file that takes room on the disk, and is of no other use."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._size = 0
        self.let_go()

    def hold(self, size: int) -> bool:
        """Hold at least this many bytes back; return whether there is room for that."""
        if size > self._size:
            try:
                allocate(self._file, size)
            except OSError:
                # Some of it may have been taken.
                self.let_go()
                return False
            self._size = size
        return True

    def let_go(self) -> None:
        """Leave the room to others."""
        os.ftruncate(self._file, 0)
        self._size = 0

    def close(self) -> None:
        """Leave the room to others, for good."""
        self.let_go()
        os.close(self._file)
