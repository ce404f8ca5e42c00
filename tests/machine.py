"""A machine whose clock, and whose load by others, a test controls."""

from __future__ import annotations

import time

import pytest

from conformance.target.starvation import Starvation, Starved


class ThisMachine:
    """A clock that only moves when told to, and for how long others had the CPU."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.kept = 100.0, 0.0
        patch.setattr(time, "monotonic", lambda: self.now)
        patch.setattr(Starvation, "since", lambda *_: Starved(self.kept, 0.0, 0.0, 0.0))
