"""Recorded tours that ship with the package, so that no run has to record them.

``python -m conformance.small_worlds.shipped_tours`` records anew those that are not what the model
says today; with ``--check`` it only says so. Tours that other code has recorded are never played.
"""

from __future__ import annotations

import argparse
import lzma
import pickle
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from conformance.small_worlds.graph import Graph
from conformance.small_worlds.packing import PackedTour, pack, unpack
from conformance.small_worlds.recorded_tour import RecordedTour
from conformance.small_worlds.recording import Turn
from conformance.small_worlds.sources import digest
from conformance.small_worlds.world import HOME, WORLDS, World
from reference_server.profiles import PROFILES, Profile

FOLDER = Path(__file__).parent / "shipped"
RECORDED_BY = "recorded-by.txt"
"""The file with the digest of the code that has recorded the tours."""


class ShippedTour:
    """A tour that was recorded as a whole."""

    def __init__(self, world: World, packed: PackedTour) -> None:
        self.world = world
        self._packed = packed

    @property
    def graph(self) -> Graph:
        """The graph of the world."""
        return self._packed.graph

    def segments(self) -> Iterator[Iterator[Turn]]:
        """Yield the segments of the tour, each to be read before the next."""
        return unpack(self._packed)

    def keep(self) -> None:
        """Do nothing: it is kept already."""


class TourFile(NamedTuple):
    """A world under a profile that a tour is shipped of."""

    world: World
    profile: Profile

    @property
    def file(self) -> Path:
        """The file of the tour, in its folder."""
        shared = "-shared" if self.world.home else ""
        return Path(self.profile.name) / f"{self.world.name.replace(' ', '-')}{shared}.xz"


def places() -> list[TourFile]:
    """Return all worlds of a run under each profile, in tubes of our own, too."""
    found = []
    for profile in PROFILES.values():
        for world in (world for world in WORLDS if world.is_of(profile)):
            found.append(TourFile(world, profile))
            if profile.has_tubes and not world.drains:
                found.append(TourFile(world.at(HOME), profile))
    return found


def shipped_tour(world: World, profile: Profile, folder: Path = FOLDER) -> ShippedTour | None:
    """Return the tour of a world; None if there is none, or if other code has recorded it."""
    place = TourFile(world, profile)
    if profile != PROFILES.get(profile.name) or place not in places():
        return None
    try:
        if (folder / RECORDED_BY).read_text(encoding="ascii").strip() != digest():
            return None
        return ShippedTour(world, PackedTour.read((folder / place.file).read_bytes()))
    except (OSError, ValueError, TypeError, EOFError, lzma.LZMAError, pickle.UnpicklingError):
        return None


def recorded(place: TourFile) -> PackedTour:
    """Record a tour as the model says today."""
    tour = RecordedTour(place.world, place.profile)
    return pack(tour.graph, tour.segments())


def is_current(place: TourFile, folder: Path = FOLDER) -> bool:
    """Record a tour; tell whether the shipped one is the same."""
    return _shipped_as(recorded(place), folder / place.file)


def _shipped_as(packed: PackedTour, path: Path) -> bool:
    try:
        return PackedTour.read(path.read_bytes()) == packed
    except (OSError, ValueError, TypeError, EOFError, lzma.LZMAError, pickle.UnpicklingError):
        return False


def ship(place: TourFile, folder: Path = FOLDER) -> bool:
    """Record a tour, and write its file if it differs; tell whether it does."""
    packed, path = recorded(place), folder / place.file
    if _shipped_as(packed, path):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed.compressed())
    return True


def main() -> int:
    """Record all tours, on all CPUs; the exit code of a check is 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    # Tours of code that was edited meanwhile would never be played.
    now, found = digest(), places()
    with ProcessPoolExecutor() as pool:
        if check:
            differs = [not same for same in pool.map(is_current, found)]
        else:
            differs = list(pool.map(ship, found))
    wanted = {place.file for place in found}
    surplus = [path for path in FOLDER.rglob("*.xz") if path.relative_to(FOLDER) not in wanted]
    stamp = FOLDER / RECORDED_BY
    is_stale = not stamp.exists() or stamp.read_text(encoding="ascii").strip() != now
    if not check:
        for path in surplus:
            path.unlink()
        stamp.write_text(f"{now}\n", encoding="ascii")
    for place in (place for place, differ in zip(found, differs, strict=True) if differ):
        print(f"{place.file}: {'differs from' if check else 'written as'} what the model says")
    print(f"{sum(differs)} of {len(found)} tours differed, {len(surplus)} were not needed")
    return int(check and (any(differs) or bool(surplus) or is_stale))


if __name__ == "__main__":
    sys.exit(main())
