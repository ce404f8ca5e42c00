"""The catalogue of requirements: what the documents demand, as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import pytest
import yaml

from reference_server.profiles import PROFILES, Profile
from reference_server.unique_keys import UniqueKeys
from reports.verdicts import SERVER_LEVELS, Level

Test = Callable[..., object]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One testable statement: what kind it is, who says so, where, and in which words.

    ``levels`` begins with the first profile that it belongs to; each level holds from a profile on,
    as texts of other profiles may say more or less. ``until`` is the last profile that it belongs
    to, None if the newest does. ``presupposes`` are the slugs of the requirements without which
    this one says nothing, as it is a special case of them, or a consequence.
    """

    slug: str
    levels: tuple[tuple[str, Level], ...]
    section: str
    source: str
    clause: str
    until: str | None = None
    presupposes: tuple[str, ...] = ()

    @property
    def document(self) -> str:
        """The title of the document that says it."""
        return TITLES.get(self.source, self.source)

    @property
    def level(self) -> Level:
        """The level in the newest profile that it belongs to."""
        return self.levels[-1][1]

    @property
    def since(self) -> str | None:
        """The first profile that it belongs to, None if the oldest does."""
        first = self.levels[0][0]
        return None if first == _STAGES[0] else first

    def judged_by(self, profile: str) -> Requirement:
        """Return the requirement with the level that it has in a profile."""
        stage = _STAGES.index(profile)
        older = [level for level in self.levels if _STAGES.index(level[0]) <= stage]
        return replace(self, levels=((self.levels[0][0], (older or self.levels)[-1][1]),))

    @property
    def level_text(self) -> str:
        """The level, and where it differs in older profiles, in words."""
        (_, level), *later = self.levels
        return ", ".join((level, *(f"{level} since {profile}" for profile, level in later)))

    @property
    def profiles(self) -> str:
        """The profiles that it belongs to, in words."""
        since = f"since {self.since}" if self.since else ""
        until = f"until {self.until}" if self.until else ""
        return " ".join(filter(None, (since, until))) or "all profiles"

    def left_out_of(self, profile: Profile) -> str | None:
        """Return why a fork of this profile does not offer it, None if it does, or is no fork."""
        head, _, rest = self.slug.partition(".")
        for name in profile.dialect.without:
            if head == name or rest == f"cmd-{name}":
                return f"profile {profile.name} has no {name}"
        if profile.dialect.extends and self.slug in profile.lacks - PROFILES[profile.stage].lacks:
            return f"profile {profile.name} has no {self.slug}"
        return None

    def missing_in(self, profile: str) -> str | None:
        """Return why it does not apply to a profile, None if it does."""
        stage = _STAGES.index(profile)
        if self.since and stage < _STAGES.index(self.since):
            return f"came with profile {self.since}"
        if self.until and stage > _STAGES.index(self.until):
            return f"ended with profile {self.until}"
        return None


class CatalogueError(Exception):
    """A file of the catalogue is broken; the text says which, where and how."""


_STAGES = list(PROFILES)
_KEYS = {"level", "clause", "source", "since", "until", "presupposes"}
_TOP = {"section", "source", "requirements"}
_FILE = re.compile(r"\d\d-[a-z]+\.yaml")
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\.[a-z0-9]+(-[a-z0-9]+)*")
TITLES = {
    **{f"protocol-{name}": f"protocol-{name}" for name in _STAGES[_STAGES.index("1.12") :]},
    "manual-1.12": "beanstalkd(1)",
    "seed-000": "Beanstalk Protocol",
    "seed-001": "How Beanstalk handles multiple workers",
    "seed-002": "Beanstalkd中文协议",
    "seed-003": "beanstalk 协议的翻译",
    "seed-004": "Beanstalkd: Protocol",
}
"""The documents by their names in the files, and as a reader finds them."""
_OWN: list[Path] = []
"""The folders with requirements of forks."""


def _requirement(
    name: str,
    section: str,
    source: str,
    slug: str,
    entry: Any,
    is_own: bool,
    allowed: Sequence[Level],
) -> Requirement:
    def complain(what: str) -> CatalogueError:
        return CatalogueError(f"{name}: {slug}: {what}")

    if not isinstance(entry, Mapping):
        raise complain("must be a dictionary")
    if unknown := set(entry) - _KEYS:
        raise complain(f"unknown key {sorted(unknown)[0]!r}")
    clause, since = entry.get("clause"), entry.get("since")
    levels = entry.get("level", "must")
    if not isinstance(levels, Mapping):
        levels = {since or _STAGES[0]: levels}
    elif since is not None:
        raise complain("since belongs to the first profile of level")
    for level in levels.values():
        if level not in allowed:
            raise complain(f"level must be one of {', '.join(allowed)}, not {level!r}")
    if not isinstance(clause, str) or not clause.strip():
        raise complain("a clause is missing")
    source = entry.get("source", source)
    if is_own and not (isinstance(source, str) and source.strip()):
        raise complain("source names a document")
    if source not in TITLES and not is_own:
        raise complain(f"source must be one of {', '.join(TITLES)}, not {source!r}")
    until = entry.get("until")
    for stage in (*levels, until):
        if stage not in (None, *_STAGES):
            raise complain(f"a profile must be one of {', '.join(_STAGES)}, not {stage!r}")
    if not levels or list(levels) != sorted(levels, key=_STAGES.index):
        raise complain("the profiles of level must be there, the oldest first")
    bases = entry.get("presupposes", [])
    bases = [bases] if isinstance(bases, str) else bases
    if not (isinstance(bases, list) and all(isinstance(base, str) for base in bases)):
        raise complain("presupposes names other requirements")
    words = " ".join(clause.split())
    return Requirement(slug, tuple(levels.items()), section, source, words, until, tuple(bases))


@cache
def catalogue() -> Mapping[str, Requirement]:
    """Return all requirements by slug, in the order of the text; raises :class:`CatalogueError`."""
    found = read_catalogue(files("conformance") / "requirements")
    for folder in _OWN:
        found = read_catalogue(folder, found)
    return found


def extend(folder: Path) -> None:
    """Let the catalogue have the requirements of a fork, too; raises :class:`CatalogueError`."""
    known = catalogue()
    if folder in _OWN:
        return
    if len(read_catalogue(folder, known)) == len(known):
        raise CatalogueError(f"{folder} has no file of requirements, such as 10-truncate.yaml")
    _OWN.append(folder)
    catalogue.cache_clear()


def read_catalogue(
    folder: Traversable,
    known: Mapping[str, Requirement] | None = None,
    levels: Sequence[Level] = SERVER_LEVELS,
) -> Mapping[str, Requirement]:
    """Return the requirements of all numbered files in a folder; raises :class:`CatalogueError`.

    ``known`` are those that a fork adds its own to; ``levels`` those that entries may have.
    """
    result = dict(known or {})
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if not _FILE.fullmatch(path.name):
            continue
        name = f"requirements/{path.name}" if known is None else str(path)
        for slug, found in _read_file(path, name, known is not None, levels):
            if slug in result:
                raise CatalogueError(f"{name}: {slug} is in another file, too")
            result[slug] = found
    for slug in result:
        _check_presupposed([slug], result)
    return result


def _check_presupposed(chain: list[str], known: Mapping[str, Requirement]) -> None:
    """Check what the last of a chain presupposes; each requirement in it presupposes the next."""
    for base in known[chain[-1]].presupposes:
        if base not in known or base in chain:
            why = "it presupposes itself" if base in known else "there is no such requirement"
            raise CatalogueError(f"{chain[-1]} presupposes {base}, but {why}")
        _check_presupposed([*chain, base], known)


def _read_file(
    path: Traversable, name: str, is_own: bool, levels: Sequence[Level]
) -> Iterator[tuple[str, Requirement]]:
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), UniqueKeys)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        what = " ".join(str(error).split())
        raise CatalogueError(f"{name} is not YAML: {what}") from error
    if not isinstance(document, Mapping) or set(document) != _TOP:
        raise CatalogueError(f"{name} must have section, source and requirements")
    entries = document["requirements"]
    if not isinstance(entries, Mapping):
        raise CatalogueError(f"{name}: requirements must be a dictionary")
    for slug, entry in entries.items():
        if not (isinstance(slug, str) and _SLUG.fullmatch(slug)):
            raise CatalogueError(f"{name}: {slug!r} is no slug")
        section, source = str(document["section"]), document["source"]
        yield slug, _requirement(name, section, source, slug, entry, is_own, levels)


def documented_keys(command: str, keys: Iterable[str], profile: Profile) -> set[str]:
    """Return the keys of a command's statistics that the text of a profile names."""
    slugs = {key: f"{command}.{key}" for key in keys}
    return {key for key, slug in slugs.items() if _is_named(slug, profile)}


def _is_named(slug: str, profile: Profile) -> bool:
    if slug in profile.lacks or slug not in catalogue():
        return slug not in profile.lacks
    key = catalogue()[slug]
    return not key.missing_in(profile.stage) and key.judged_by(profile.stage).level == "must"


def requirement(slug: str, clause: str) -> pytest.MarkDecorator:
    """Say which requirement a test tests, and in which words the catalogue has it.

    Of several, the one next to the test is named in its failures. Raises :class:`CatalogueError`.
    """
    if slug not in catalogue():
        raise CatalogueError(f"{slug!r} is no requirement of the catalogue")
    if clause != (right := catalogue()[slug].clause):
        raise CatalogueError(f"{slug} has the clause {right!r}, not {clause!r}")
    return pytest.mark.requirement(slug)


def configured(**values: object) -> Callable[[Test], Test]:
    """Say which configuration a test's own server has."""

    def decorate(test: Test) -> Test:
        test.__dict__["configuration"] = values
        return test

    return decorate
