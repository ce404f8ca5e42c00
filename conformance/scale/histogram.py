"""Latencies in buckets whose width is a hundredth of their value, as in HdrHistogram."""

from __future__ import annotations

import math
from collections import Counter

_PER_OCTAVE = 64
"""Buckets for each doubling: a quantile is exact to a hundredth."""
_LEAST = 1e-7
"""Seconds: shorter durations are not distinguished."""


class Histogram:
    """A distribution of seconds in bounded memory."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = 0
        self.longest = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self._buckets[round(math.log2(max(seconds, _LEAST)) * _PER_OCTAVE)] += 1
        self.count += 1
        self.longest = max(self.longest, seconds)

    def quantile(self, share: float) -> float | None:
        """Return the duration that a share does not exceed; None if too few were measured."""
        if round(self.count * (1 - share), 6) < 1:
            return None
        left = share * self.count
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return min(float(2 ** (bucket / _PER_OCTAVE)), self.longest)
        return self.longest
