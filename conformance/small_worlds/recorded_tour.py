"""Recorded tours of small worlds."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from conformance.small_worlds.cache import keep
from conformance.small_worlds.graph import Explorer
from conformance.small_worlds.recording import Segment, TourRecorder, Turn
from conformance.small_worlds.route import Route
from conformance.small_worlds.tour import Tour
from conformance.small_worlds.world import World
from reference_server.profiles import Profile

STEPS = 200
"""Steps of a segment."""


class RecordedTour:
    """A world that is explored, and a tour that takes all of its transitions.

    ``limit``: the largest number of states.
    """

    def __init__(self, world: World, profile: Profile, limit: int = sys.maxsize) -> None:
        self.world = world
        self.graph = Explorer(world, profile, limit).explore()
        self._of = world, profile, limit
        self._recorder = TourRecorder(profile)
        self._route = Route(self.graph)
        self._tour = Tour(world, self._recorder, self._route)
        self._segments: list[Segment] = []
        self._kept = 0
        self._is_walking = False
        """A walk has begun, and what goes on is not of one piece."""

    def segments(self) -> Iterator[list[Turn]]:
        """Yield the segments of the tour; each is written down when it is first needed."""
        number = 0
        while number < len(self._segments) or self._route.count:
            if number == len(self._segments):
                self._record()
            yield self._segments[number].turns
            number += 1

    def _record(self) -> None:
        left = self._route.count
        self._is_walking = True
        self._tour.walk(STEPS)
        self._segments.append(Segment.of(self._recorder.turns))
        self._recorder.turns = []
        self._is_walking = False
        if self._route.count == left:
            raise AssertionError(f"no way leads to {left} transitions of {self.world.name}")

    def keep(self) -> None:
        """Keep what is written down for the next run, if there is more than before."""
        if len(self._segments) > self._kept and not self._is_walking:
            self._kept = len(self._segments)
            keep(self, *self._of)
