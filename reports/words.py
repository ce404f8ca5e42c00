"""Numbers in words."""

from __future__ import annotations


def counted(count: int, noun: str, many: str = "") -> str:
    """Return a number of things: one of them, or many, as a regular noun has it."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {many or f'{noun}s'}"
