"""The reports of the judge: alarms about the server and its clients, suspicions and notices."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

About = Literal["server", "client", "suspicion"]
"""The server is wrong; a request is wrong; something may be wrong."""
KEPT = 20
"""Alarms of one kind that are kept; the others are counted."""
KINDS = 200
"""Kinds of alarms that are kept."""
NOTICES = 200
"""Notices that are kept, the last ones."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A finding in live traffic, at ``at`` seconds of the wall clock.

    ``kind`` groups alarms of one cause. ``shown``: where a request is wrong, the bytes around that.
    ``context``: the last messages of the connection.
    """

    about: About
    kind: str
    at: float
    connection: str
    expected: str
    observed: str
    shown: str = ""
    context: Sequence[str] = ()

    @property
    def sentence(self) -> str:
        """Return it in a line."""
        if self.expected:
            return f"{self.connection}: expected {self.expected}, observed {self.observed}"
        where = f": {self.shown}" if self.shown else ""
        return f"{self.connection}: {self.observed}{where}"


@dataclass
class Alarms:
    """All alarms so far: each kind is counted, and its first ones are kept."""

    counts: Counter[About] = field(default_factory=Counter)
    of_kind: Counter[str] = field(default_factory=Counter)
    kept: list[Alarm] = field(default_factory=list)
    notices: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=NOTICES))

    def add(self, alarm: Alarm) -> bool:
        """Count an alarm; return whether it is kept."""
        self.counts[alarm.about] += 1
        kind = alarm.kind if alarm.kind in self.of_kind or len(self.of_kind) < KINDS else "others"
        self.of_kind[kind] += 1
        if self.of_kind[kind] > KEPT:
            return False
        self.kept.append(alarm)
        return True

    def notice(self, at: float, sentence: str) -> None:
        """Note what cannot be followed, and why."""
        self.notices.append((at, sentence))

    @property
    def are_real(self) -> bool:
        """Return whether there is any that is more than a suspicion."""
        return bool(self.counts["server"] or self.counts["client"])
