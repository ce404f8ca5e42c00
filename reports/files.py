"""Files that are replaced whole, so that nobody ever reads half of one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Write a file so that there is the old one or the whole new one; raise OSError.

    Until then the name begins with a dot.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
