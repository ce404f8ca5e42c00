"""Names as parts of URLs that stay the same whatever else exists."""

from __future__ import annotations

import hashlib
import re

LONGEST = 80
"""Characters of a name in an address, or in a table."""
_WORD = r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?"
_PLAIN = re.compile(rf"{_WORD}(?: {_WORD})*")


def slug(name: str) -> str:
    """Return a name as a part of an address, and of no other name.

    If some of the name is lost, a digest follows two underscores, which no plain name has.
    """
    if len(name) <= LONGEST and _PLAIN.fullmatch(name):
        return name.replace(" ", "_")
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    kept = re.sub(r"[^a-z0-9.]+", "-", name[:LONGEST].lower()).strip("-.")
    return f"{kept}__{digest}" if kept else f"__{digest}"


def shortened(text: str, longest: int = LONGEST) -> str:
    """Return a text, cut if it is longer."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return the key by which 1.9 comes before 1.10."""
    parts = re.split(r"([0-9]{1,18})", shortened(text).casefold())
    return tuple((int(part), 0, "") if part.isdecimal() else (0, 1, part) for part in parts if part)
