"""The profile that somebody names: one of the protocol, or the file of a fork's dialect."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from reference_server.dialect import DialectError
from reference_server.profiles import PROFILES, Profile

ENDS = (".yaml", ".yml")
"""Suffixes of file names; they set files apart from names of profiles."""


@cache
def find_profile(name: str) -> Profile:
    """Return the profile of a name, or of a file; raises :class:`DialectError`."""
    if (known := PROFILES.get(name)) is not None:
        return known
    if not name.endswith(ENDS):
        choice = f"choose from {', '.join(PROFILES)}, or name a file that ends with .yaml"
        raise DialectError(f"there is no profile {name!r}; {choice}")
    # It takes longer to import than the rest, and most runs need no dialect.
    from reference_server.dialect_file import read_dialect

    return read_dialect(Path(name))
