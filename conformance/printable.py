"""Makes text of a target safe to print: a terminal must not obey it."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return what a program says without anything that a terminal would obey, except line ends."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _code(c) for c in text)


def _code(character: str) -> str:
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"
