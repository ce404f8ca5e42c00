"""Known deviations of a target: what a file lists must be there, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from conformance.catalogue import catalogue
from reference_server.unique_keys import NotUnique, UniqueKeys
from reports.files import replace
from reports.verdicts import Verdict
from reports.words import counted

VERDICTS = (Verdict.FAIL, Verdict.NON_STRICT)
_NAMED = 5
"""Entries of a kind that are named where it is told what has changed."""
_SHIPPED = Path(__file__).parent.parent / "baselines"
_KEYS = {"verdict", "observed", "reason", "link", "flaky"}


class BaselineError(Exception):
    """The file cannot be used; the text says why, in one sentence."""


@dataclass(frozen=True, slots=True)
class KnownDeviation:
    """A known deviation; a ``flaky`` one may be absent, or non-strict only."""

    verdict: str
    reason: str
    observed: str = ""
    link: str = ""
    flaky: bool = False

    def covers(self, verdict: str) -> bool:
        """Return whether a deviation with this verdict is the known one."""
        return verdict == self.verdict or (self.flaky and verdict == Verdict.NON_STRICT)


def shipped(version: str) -> Path | None:
    """Return the known deviations of this version of beanstalkd; None if we have none."""
    path = _SHIPPED / f"beanstalkd-{version}.yaml"
    return path if re.fullmatch("[0-9.]+", version) and path.is_file() else None


def is_known(baseline: Mapping[str, KnownDeviation], slug: str, verdict: str) -> bool:
    """Return whether a baseline lists this deviation of a requirement."""
    return slug in baseline and baseline[slug].covers(verdict)


def read_baseline(path: Path) -> Mapping[str, KnownDeviation]:
    """Return the known deviations by slug; raises :class:`BaselineError`."""
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), UniqueKeys)
    except NotUnique as error:
        raise BaselineError(f"the baseline {path}: {error}") from None
    except OSError as error:
        raise BaselineError(f"cannot read the baseline {path}: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        mark, problem = error.problem_mark, error.problem or "it cannot be read"
        at = f": line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else ""
        raise BaselineError(f"the baseline {path} is not YAML{at}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise BaselineError(f"the baseline {path} is not YAML") from None
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise BaselineError(f"the baseline {path} is not a dictionary of requirements")
    return {_slug(path, slug): _known(path, slug, entry) for slug, entry in document.items()}


def write_baseline(path: Path, known: Mapping[str, KnownDeviation]) -> None:
    """Write known deviations; raises :class:`BaselineError`."""
    document = {
        slug: {key: value for key, value in asdict(entry).items() if value}
        for slug, entry in known.items()
    }
    try:
        text = yaml.safe_dump(document, sort_keys=False, width=96) if document else ""
        replace(path, text.encode())
    except OSError as error:
        raise BaselineError(f"cannot write the baseline {path}: {error.strerror}") from error


def changes(before: Mapping[str, KnownDeviation], after: Mapping[str, KnownDeviation]) -> str:
    """Return in words what a new baseline has that the old one had not."""
    added = [slug for slug in after if slug not in before]
    removed = [slug for slug in before if slug not in after]
    same = [slug for slug in after if slug in before]
    changed = [slug for slug in same if after[slug].verdict != before[slug].verdict]
    told = [counted(len(after), "known deviation")]
    kinds = {"added": added, "removed": removed, "with another verdict": changed}
    for word, slugs in kinds.items():
        if slugs:
            more = ", …" if len(slugs) > _NAMED else ""
            told.append(f"{len(slugs)} {word}: {', '.join(slugs[:_NAMED])}{more}")
    return "; ".join(told if any(kinds.values()) else [*told, "no verdict has changed"])


def _slug(path: Path, slug: Any) -> str:
    if slug not in catalogue():
        raise BaselineError(f"the baseline {path} lists an unknown requirement: {slug}")
    return str(slug)


def _known(path: Path, slug: str, entry: Any) -> KnownDeviation:
    takes = f"takes the keys {', '.join(sorted(_KEYS))}"
    if not isinstance(entry, Mapping):
        raise BaselineError(f"the baseline {path}: {slug} {takes}")
    if unknown := [str(key) for key in entry if key not in _KEYS]:
        raise BaselineError(f"the baseline {path}: {slug} {takes}, not {', '.join(unknown)}")
    if entry.get("verdict") not in VERDICTS:
        choice = " or ".join(VERDICTS)
        raise BaselineError(f"the baseline {path}: {slug} needs a verdict: {choice}")
    if not isinstance(entry.get("reason"), str):
        raise BaselineError(f"the baseline {path}: {slug} needs a reason")
    if not isinstance(entry.get("flaky", False), bool):
        raise BaselineError(f"the baseline {path}: {slug}: flaky is true or false")
    return KnownDeviation(**entry)
