"""The history of a campaign: its progress over time, and the time of the last discovery."""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.progress_updates import ProgressUpdate
from reports.fuzzing import CampaignMoment

MOST = 200
"""Moments beyond which only every second one is kept."""


class CampaignHistory:
    """Notes how far a campaign is, now and then."""

    def __init__(self) -> None:
        self.moments: list[CampaignMoment] = [CampaignMoment(0.0)]
        self._apart = 0.5
        self._new: dict[str, float] = {}

    def note(self, updates: Sequence[ProgressUpdate], seconds: float) -> CampaignMoment:
        """Take in the last update of each worker; return the progress of all of them."""
        moment = CampaignMoment(
            seconds,
            sum(update.progress.cases for update in updates),
            max((update.shapes for update in updates), default=0),
            max((update.edges for update in updates), default=0),
            len({line for update in updates for line, _ in update.found}),
        )
        last = self.moments[-1]
        for name in ("shapes", "edges", "findings"):
            if getattr(moment, name) > getattr(last, name):
                self._new[name] = seconds
        if seconds - last.seconds >= self._apart or moment[2:] != last[2:]:
            self.moments.append(moment)
        if len(self.moments) > MOST:
            # The last one is what new ones are compared with.
            self.moments = [*self.moments[:-1:2], self.moments[-1]]
            self._apart *= 2
        return moment

    def since(self, name: str) -> float | None:
        """Return when this count last grew, in seconds from the beginning; None if it never did."""
        return self._new.get(name)
