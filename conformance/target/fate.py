"""The words for the end of a target."""

from __future__ import annotations

CRASHED = "the target crashed"
HANGS = "the target hangs"


def hangs(fate: str | None) -> bool:
    """Return whether this fate of a target is that it is there, and does not answer."""
    return fate is not None and fate.startswith(HANGS)


def is_fault(fate: str) -> bool:
    """Return whether a program has ended by an access to what it has not got.

    Runtimes end in many other ways when they give up.
    """
    return "SIGSEGV" in fate or "SIGBUS" in fate
