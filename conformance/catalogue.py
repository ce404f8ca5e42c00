"""The catalogue of requirements: what the documents demand, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import pytest
import yaml

LEVELS = ("must", "de-facto", "quirk")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One testable statement: what kind it is, who says so, where, and in which words."""

    slug: str
    level: str
    section: str
    source: str
    clause: str
    since: str | None = None


class CatalogueError(Exception):
    """A file of the catalogue is broken; the text says which, where and how."""


_KEYS = {"level", "clause", "source", "since"}


def _requirement(file: str, section: str, source: str, slug: str, entry: Any) -> Requirement:
    def complain(what: str) -> CatalogueError:
        return CatalogueError(f"requirements/{file}: {slug}: {what}")

    if not isinstance(entry, Mapping):
        raise complain("must be a dictionary")
    if unknown := set(entry) - _KEYS:
        raise complain(f"unknown key {sorted(unknown)[0]!r}")
    level, clause = entry.get("level", "must"), entry.get("clause")
    if level not in LEVELS:
        raise complain(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
    if not isinstance(clause, str) or not clause.strip():
        raise complain("a clause is missing")
    since = entry.get("since")
    if not (since is None or isinstance(since, str)):
        raise complain("since must be a quoted version")
    clause = " ".join(clause.split())
    return Requirement(slug, level, section, entry.get("source", source), clause, since)


@cache
def catalogue() -> Mapping[str, Requirement]:
    """All requirements by slug, in the order of the text; raises :class:`CatalogueError`."""
    result: dict[str, Requirement] = {}
    folder = files("conformance") / "requirements"
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if not path.name.endswith(".yaml"):
            continue
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise CatalogueError(f"requirements/{path.name} is not YAML: {error}") from error
        if not isinstance(document, Mapping) or set(document) != {
            "section",
            "source",
            "requirements",
        }:
            raise CatalogueError(
                f"requirements/{path.name} must have section, source and requirements"
            )
        for slug, entry in document["requirements"].items():
            if slug in result:
                raise CatalogueError(f"requirements/{path.name}: {slug} is there twice")
            section, source = document["section"], document["source"]
            result[slug] = _requirement(path.name, section, source, slug, entry)
    return result


def requirement(*slugs: str) -> pytest.MarkDecorator:
    """Says which requirements a test tests; the first one is named in its failures."""
    return pytest.mark.requirement(*slugs)
