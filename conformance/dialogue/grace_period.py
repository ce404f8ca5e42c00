"""The grace period for effects that no text dates: observe again and again until it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator

from conformance.target.limits import Limits

STEP = 0.05
"""Seconds to wait before it is looked again."""
TRIES = 8
"""The least number of looks: on a busy machine, time may pass without the target."""


def attempts(limits: Limits, share: float = 1.0) -> Iterator[bool]:
    """Give, before each look, whether it is the last. ``share``: that of the usual time."""
    end, tries = time.monotonic() + share * max(limits.lateness, limits.soon), 0
    while tries < share * TRIES or time.monotonic() < end:
        yield False
        tries += 1
    yield True
