"""Shipped tours: what the model would record today, and nothing that other code has recorded."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.small_worlds import shipped_tours, sources
from conformance.small_worlds.packing import PackedTour, pack, unpack
from conformance.small_worlds.recorded_tour import RecordedTour
from conformance.small_worlds.shipped_tours import (
    FOLDER,
    RECORDED_BY,
    TourFile,
    is_current,
    places,
    ship,
    shipped_tour,
)
from conformance.small_worlds.sources import MODULES, canonical, digest
from conformance.small_worlds.tours import tour_of
from conformance.small_worlds.world import HOME, WORLDS
from reference_server.profiles import NEWEST, PROFILES
from tests import ROOT
from tests.parts import sample

SMALL = next(world for world in WORLDS if world.name == "two that wait")
REMEDY = "run python -m conformance.small_worlds.shipped_tours"
LIMIT = 10_000_000


def test_tours_are_shipped_of_all_worlds_and_profiles() -> None:
    for place in places():
        assert (FOLDER / place.file).exists(), REMEDY
    assert {path.relative_to(FOLDER) for path in FOLDER.rglob("*.xz")} == {
        place.file for place in places()
    }
    assert sum(path.stat().st_size for path in FOLDER.rglob("*")) < LIMIT


def test_shipped_tours_were_recorded_by_this_code() -> None:
    assert (FOLDER / RECORDED_BY).read_text(encoding="ascii").strip() == digest(), REMEDY


@pytest.mark.parametrize("place", sample(places(), 80, lambda place: str(place.file)))
def test_a_shipped_tour_is_what_the_model_says_today(place: TourFile) -> None:
    assert is_current(place), REMEDY


@pytest.mark.parametrize("home", ["", HOME])
def test_a_tour_of_the_newest_profile_takes_all_transitions(home: str) -> None:
    for world in WORLDS:
        if not (home and world.drains):
            tour = shipped_tour(world.at(home) if home else world, NEWEST)
            assert tour is not None
            taken = [
                number for turns in tour.segments() for turn in turns for number in turn.reached
            ]
            assert sorted(taken) == list(range(tour.graph.transitions))


@pytest.mark.parametrize("profile", ["0.6", "1.13"])
def test_what_is_packed_is_unpacked_as_it_was(profile: str) -> None:
    tour = RecordedTour(SMALL, PROFILES[profile])
    packed = PackedTour.read(pack(tour.graph, tour.segments()).compressed())
    assert [list(turns) for turns in unpack(packed)] == list(tour.segments())
    assert packed.graph == tour.graph


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one shipped tour."""
    place = TourFile(SMALL, NEWEST)
    (tmp_path / place.file).parent.mkdir()
    shutil.copy(FOLDER / place.file, tmp_path / place.file)
    shutil.copy(FOLDER / RECORDED_BY, tmp_path / RECORDED_BY)
    return tmp_path


def test_a_tour_that_other_code_has_recorded_is_not_played(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shipped_tour(SMALL, NEWEST, folder) is not None
    monkeypatch.setattr(shipped_tours, "digest", lambda: "another")
    assert shipped_tour(SMALL, NEWEST, folder) is None
    assert shipped_tour(SMALL, NEWEST) is None
    # It is recorded instead.
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    assert isinstance(tour_of(SMALL, NEWEST), RecordedTour)


def test_a_torn_tour_is_not_played(folder: Path) -> None:
    path = folder / TourFile(SMALL, NEWEST).file
    whole = path.read_bytes()
    for torn in (b"", whole[: len(whole) // 2], b"no tour"):
        path.write_bytes(torn)
        assert shipped_tour(SMALL, NEWEST, folder) is None
    path.unlink()
    assert shipped_tour(SMALL, NEWEST, folder) is None


def test_a_tour_that_differs_is_seen_and_written_anew(folder: Path) -> None:
    place = TourFile(SMALL, NEWEST)
    path = folder / place.file
    assert is_current(place, folder)
    assert not ship(place, folder)
    shutil.copy(FOLDER / TourFile(SMALL, PROFILES["1.12"]).file, path)
    assert not is_current(place, folder)
    assert ship(place, folder)
    # Its bytes depend on the version of Python, too.
    shipped = (FOLDER / place.file).read_bytes()
    assert PackedTour.read(path.read_bytes()) == PackedTour.read(shipped)


def test_the_digest_is_of_all_code_that_says_what_is_recorded() -> None:
    code = (
        "import sys; from conformance.small_worlds.packing import pack;"
        "import conformance.small_worlds.recorded_tour;"
        "print(*sorted(getattr(m, '__file__', '') or '' for m in sys.modules.values()), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = {Path(line) for line in done.stdout.splitlines() if line.startswith(str(ROOT))}
    ours = {
        path.relative_to(ROOT).as_posix() for path in loaded if "site-packages" not in path.parts
    }
    # Packages say nothing themselves; the name of our tubes is a part of the digest; a cache and
    # files keep what was recorded, and do not change it. Nothing is sent to a target.
    apart = {
        *("conformance/__init__.py", "conformance/small_worlds/__init__.py"),
        *("conformance/random_testing/__init__.py", "conformance/target/__init__.py"),
        *("reference_server/__init__.py", "reports/__init__.py"),
        *("conformance/target/footprint.py", "conformance/target/transport.py"),
        *("conformance/target/command_rate.py", "conformance/transcript.py", "reports/words.py"),
        *("conformance/small_worlds/cache.py", "reports/files.py", "reference_server/entries.py"),
    }
    assert ours - apart == set(MODULES)
    # That of the reference server names what applications import, and imports it when they do.
    packages = {path for path in apart if path.endswith("__init__.py")}
    for package in packages - {"reference_server/__init__.py"}:
        assert len(canonical((ROOT / package).read_bytes())) < 60, package


CODE = b'''"""What it is for."""

LIMIT = 3
"""Of what."""


def double(number: int) -> int:
    """Return twice as much."""
    return 2 * number
'''


def test_prose_and_layout_change_no_digest() -> None:
    prose = CODE.replace(b"What", b"Why").replace(b"twice", b"# two times")
    layout = prose.replace(b"\n\n", b"\n\n# A reason.\n").replace(b"2 * number", b"(2*number)")
    assert canonical(layout) == canonical(CODE)


@pytest.mark.parametrize(("old", "new"), [(b"= 3", b"= 4"), (b"2 *", b"2 +"), (b"int)", b"str)")])
def test_other_code_has_another_digest(old: bytes, new: bytes) -> None:
    assert canonical(CODE.replace(old, new)) != canonical(CODE)


def test_the_digest_reads_all_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in MODULES:
        (tmp_path / module).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / module, tmp_path / module)
    monkeypatch.setattr(sources, "_ROOT", tmp_path)
    made = {sources.digest.__wrapped__()}
    assert made == {digest()}
    for module in MODULES:
        with (tmp_path / module).open("a", encoding="utf-8") as file:
            file.write("\nMORE = 1\n")
        made.add(sources.digest.__wrapped__())
    assert len(made) == len(MODULES) + 1
