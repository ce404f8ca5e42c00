"""Recorded tours of small worlds."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from conformance.small_worlds.cache import kept
from conformance.small_worlds.graph import Explorer, Graph
from conformance.small_worlds.recording import Recorder, Segment
from conformance.small_worlds.route import Route
from conformance.small_worlds.tour import Tour
from conformance.small_worlds.world import World
from reference_server.profiles import Profile

STEPS = 200
"""Steps of a segment."""


@dataclass(frozen=True, slots=True)
class RecordedTour:
    """A world that is explored, and a tour that takes all of its transitions."""

    world: World
    graph: Graph
    segments: list[Segment]


def recorded_tour(world: World, profile: Profile, limit: int = sys.maxsize) -> RecordedTour:
    """Return the tour of a world, of at most ``limit`` states of it."""
    return kept(lambda: record(world, profile, limit), world, profile, limit)


def record(world: World, profile: Profile, limit: int = sys.maxsize) -> RecordedTour:
    """Explore a world, and write a tour down."""
    graph = Explorer(world, profile, limit).explore()
    recorder, route, segments = Recorder(profile), Route(graph), list[Segment]()
    tour = Tour(world, recorder, route)
    while (left := route.count) > 0:
        tour.walk(STEPS)
        segments.append(Segment.of(recorder.turns))
        recorder.turns = []
        if route.count == left:
            raise AssertionError(f"no way leads to {left} transitions of {world.name}")
    return RecordedTour(world, graph, segments)
