"""A cache of recorded conversations in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pickle
import sys
import zlib
from collections.abc import Callable
from dataclasses import asdict
from enum import Enum
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import platformdirs

import conformance.random_testing
import conformance.small_worlds
import reference_server
from reports.files import replace

T = TypeVar("T")


def kept(make: Callable[[], T], *of: object, by: ModuleType = conformance.small_worlds) -> T:
    """Return what ``make`` makes of this, or what was made of it before.

    ``by``: the package that makes it.
    """
    path = _path(*of, by=by)
    with contextlib.suppress(OSError, zlib.error, pickle.UnpicklingError, EOFError):
        found: T = pickle.loads(zlib.decompress(path.read_bytes()))
        return found
    made = make()
    keep(made, *of, by=by)
    return made


def keep(made: object, *of: object, by: ModuleType = conformance.small_worlds) -> None:
    """Keep what was made of this, if there is room for it."""
    path = _path(*of, by=by)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, zlib.compress(pickle.dumps(made, pickle.HIGHEST_PROTOCOL), 1))


def _path(*of: object, by: ModuleType) -> Path:
    folder = platformdirs.user_cache_path("beanstalk-conformance") / "small-worlds"
    return folder / f"{digest(*of, by=by)}.tour"


def digest(*of: object, by: ModuleType = conformance.small_worlds) -> str:
    """Return the same for the same as long as the model and the package are the same."""
    text = json.dumps(of, default=_plain)
    return hashlib.sha256(text.encode() + _sources(by)).hexdigest()[:32]


def _plain(value: Any) -> object:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, frozenset):
        # Sets are in another order in each process.
        return sorted(value)
    return value.decode("latin-1") if isinstance(value, bytes) else asdict(value)


@cache
def _sources(package: ModuleType) -> bytes:
    found = hashlib.sha256(sys.version.encode())
    for module in (reference_server, conformance.random_testing, package):
        for folder in module.__path__:
            for path in sorted(Path(folder).rglob("*.py")):
                found.update(path.read_bytes())
    return found.digest()
