"""The words for the end of a target."""

from __future__ import annotations

CRASHED = "the target crashed"
HANGS = "the target hangs"


def hangs(fate: str | None) -> bool:
    """Return whether this fate of a target is that it is there, and does not answer."""
    return fate is not None and fate.startswith(HANGS)
