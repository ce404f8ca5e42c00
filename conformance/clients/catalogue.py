"""The requirements for client libraries, in files like those for servers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from conformance.catalogue import Requirement, read_catalogue
from reports.verdicts import CLIENT_LEVELS


@cache
def requirements() -> Mapping[str, Requirement]:
    """Return all requirements for clients by slug."""
    folder = files("conformance.clients") / "requirements"
    return read_catalogue(folder, {}, CLIENT_LEVELS)
