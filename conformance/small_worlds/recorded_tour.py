"""Recorded tours, made once and kept in the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pickle
import sys
import zlib
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import platformdirs

import reference_server
from conformance.small_worlds.graph import Explorer, Graph
from conformance.small_worlds.recording import Recorder, Segment
from conformance.small_worlds.route import Route
from conformance.small_worlds.tour import Tour
from conformance.small_worlds.world import World
from reference_server.profiles import Profile
from reports.files import replace

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
    path = _folder() / f"{digest(world, profile, limit)}.tour"
    with contextlib.suppress(OSError, zlib.error, pickle.UnpicklingError, EOFError):
        tour: RecordedTour = pickle.loads(zlib.decompress(path.read_bytes()))
        return tour
    tour = record(world, profile, limit)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, zlib.compress(pickle.dumps(tour, pickle.HIGHEST_PROTOCOL), 1))
    return tour


def record(world: World, profile: Profile, limit: int = sys.maxsize) -> RecordedTour:
    """Explore a world, and write a tour down."""
    graph = Explorer(world, profile, limit).explore()
    recorder, route, segments = Recorder(world, profile), Route(graph), list[Segment]()
    tour = Tour(world, recorder, route)
    while (left := route.count) > 0:
        tour.walk(STEPS)
        segments.append(Segment.of(recorder.turns))
        recorder.turns = []
        if route.count == left:
            raise AssertionError(f"no way leads to {left} transitions of {world.name}")
    return RecordedTour(world, graph, segments)


def _folder() -> Path:
    return platformdirs.user_cache_path("beanstalk-conformance") / "small-worlds"


def digest(world: World, profile: Profile, limit: int) -> str:
    """Return the same for the same tour as long as the model and this package are the same."""
    # Sets are in another order in each process.
    told = json.dumps([asdict(world), asdict(profile), limit], default=_in_order)
    return hashlib.sha256(told.encode() + _sources()).hexdigest()[:32]


def _in_order(value: bytes | frozenset[str]) -> str | list[str]:
    return value.decode("latin-1") if isinstance(value, bytes) else sorted(value)


@cache
def _sources() -> bytes:
    found = hashlib.sha256(sys.version.encode())
    for package in (Path(reference_server.__file__).parent, Path(__file__).parent):
        for path in sorted(package.rglob("*.py")):
            found.update(path.read_bytes())
    return found.digest()
