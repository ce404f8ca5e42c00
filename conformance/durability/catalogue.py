"""The requirements about crashes, in addition to those that the suite's tests cover."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from conformance.catalogue import Requirement, catalogue, read_catalogue


@cache
def requirements() -> Mapping[str, Requirement]:
    """Return all requirements that a crash may show to be broken."""
    return read_catalogue(files("conformance.durability") / "requirements", catalogue())
