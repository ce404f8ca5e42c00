"""The tour of a world: shipped, from the user's cache, or recorded now."""

from __future__ import annotations

import sys

from conformance.small_worlds.cache import kept
from conformance.small_worlds.recorded_tour import RecordedTour
from conformance.small_worlds.shipped_tours import ShippedTour, shipped_tour
from conformance.small_worlds.world import World
from reference_server.profiles import Profile

WorldTour = RecordedTour | ShippedTour


def tour_of(world: World, profile: Profile, limit: int = sys.maxsize) -> WorldTour:
    """Return the tour of a world, of which ``limit`` states are explored at most."""
    shipped = shipped_tour(world, profile)
    if shipped is not None and len(shipped.graph.edges) <= limit:
        return shipped
    return kept(lambda: RecordedTour(world, profile, limit), world, profile, limit)
