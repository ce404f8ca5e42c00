"""The time that a target gets for what must happen, though no text says when."""

from __future__ import annotations

import time
from collections.abc import Iterator

SOON = 0.5
"""Seconds that it gets at least."""
STEP = 0.05
"""Seconds to wait before it is looked again."""
TRIES = 8
"""The least number of looks: on a busy machine, time may pass without the target."""


def looks(lateness: float) -> Iterator[bool]:
    """Gives, before each look, whether it is the last; ``lateness`` is that of timers."""
    end, tries = time.monotonic() + max(lateness, SOON), 0
    while tries < TRIES or time.monotonic() < end:
        yield False
        tries += 1
    yield True
