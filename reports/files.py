"""Files that are replaced atomically, so that nobody reads half of one."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

LONGEST_NAME = 80
"""Characters of a title in names of files."""


def named(title: str, name: str) -> str:
    """Return the name of a file of a report, which begins with the title of the target, if any."""
    beginning = re.sub(r"[^\w.-]+", "-", title).strip("-.")[:LONGEST_NAME]
    return f"{beginning}-{name}" if beginning else name


def replace(path: Path, data: bytes) -> None:
    """Write a file so that there is the old one or the whole new one; raise OSError.

    Until then the name begins with a dot. A device or a pipe is written to, and stays.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
