"""Known deviations of a target: all that a file lists must be found, and nothing else.

A requirement can be broken in several ways. An entry therefore lists the kinds of its deviations,
as ``wrong reply at kick``; a deviation of another kind is new, even if its requirement is listed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import yaml

from conformance.catalogue import catalogue
from conformance.verdict import OutcomeKind, Step
from reference_server.unique_keys import NotUnique, UniqueKeys
from reports.files import replace
from reports.verdicts import Verdict
from reports.words import counted

VERDICTS = (Verdict.FAIL, Verdict.NON_STRICT)
_NAMED = 5
"""Entries of each kind of change that are named."""
_LONGEST = 60
"""Characters of a wrong value that are shown."""
_SHIPPED = Path(__file__).parent.parent / "baselines"
_LOST = "lost"
"""The outcome of each kind of loss: a race decides which of them is observed."""
_OUTCOMES = (*(kind.value for kind in OutcomeKind if not kind.is_loss), _LOST)
_WORD = re.compile(r"[a-z][a-z-]*")


class BaselineError(Exception):
    """The file cannot be used; the text says why, in one sentence."""


@dataclass(frozen=True, slots=True, order=True)
class DeviationKind:
    """The features of a deviation that are the same in each run.

    ``command`` is empty if the deviation has none, or one that varies.
    """

    outcome: str
    command: str = ""

    @classmethod
    def of(cls, step: Step) -> Self:
        """Return the kind of deviation that an exchange shows."""
        if step.kind.is_loss:
            # What was sent last depends on when the loss was noticed.
            return cls(_LOST)
        return cls(step.kind.value, step.command if _WORD.fullmatch(step.command) else "")

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read what :meth:`__str__` has written; None if it is something else."""
        outcome, at, command = text.partition(" at ")
        is_written = not at or _WORD.fullmatch(command)
        return cls(outcome, command) if outcome in _OUTCOMES and is_written else None

    def __str__(self) -> str:
        return f"{self.outcome} at {self.command}" if self.command else self.outcome


@dataclass(frozen=True, slots=True)
class KnownDeviation:
    """A known deviation; a ``flaky`` one may be absent, or a de-facto deviation only.

    ``kinds`` is empty if it stands for deviations of any kind, as in files of older versions.
    """

    verdict: str
    reason: str
    observed: str = ""
    link: str = ""
    flaky: bool = False
    kinds: tuple[DeviationKind, ...] = ()

    def covers(self, verdict: str, kinds: Collection[DeviationKind]) -> bool:
        """Return whether deviations of these kinds, the worst with this verdict, are known."""
        is_listed = not self.kinds or set(kinds) <= set(self.kinds)
        is_expected = verdict == self.verdict or (self.flaky and verdict == Verdict.NON_STRICT)
        return is_expected and is_listed

    def as_yaml(self) -> dict[str, object]:
        """Return the entry as it is written: without what is empty."""
        entry: dict[str, object] = {
            "verdict": self.verdict,
            "kinds": [str(kind) for kind in self.kinds],
            "observed": self.observed,
            "reason": self.reason,
            "link": self.link,
            "flaky": self.flaky,
        }
        return {key: value for key, value in entry.items() if value}


_KEYS = {field.name for field in fields(KnownDeviation)}


def shipped(version: str) -> Path | None:
    """Return the known deviations of this version of beanstalkd; None if we have none."""
    path = _SHIPPED / f"beanstalkd-{version}.yaml"
    return path if re.fullmatch("[0-9.]+", version) and path.is_file() else None


def is_known(
    baseline: Mapping[str, KnownDeviation],
    slug: str,
    verdict: str,
    kinds: Collection[DeviationKind],
) -> bool:
    """Return whether a baseline lists these deviations of a requirement."""
    return slug in baseline and baseline[slug].covers(verdict, kinds)


def read_baseline(path: Path, slugs: Collection[str] | None = None) -> Mapping[str, KnownDeviation]:
    """Return the known deviations by slug; raises :class:`BaselineError`.

    ``slugs`` are those of all requirements, by default of those for servers.
    """
    known = catalogue() if slugs is None else slugs
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
    return {_slug(path, slug, known): _known(path, slug, entry) for slug, entry in document.items()}


def write_baseline(path: Path, known: Mapping[str, KnownDeviation]) -> None:
    """Write known deviations; raises :class:`BaselineError`."""
    document = {slug: entry.as_yaml() for slug, entry in known.items()}
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
    moved = [
        slug for slug in same if slug not in changed and after[slug].kinds != before[slug].kinds
    ]
    parts = [counted(len(after), "known deviation")]
    kinds = {
        "added": added,
        "removed": removed,
        "with another verdict": changed,
        "with other kinds of deviations": moved,
    }
    for word, slugs in kinds.items():
        if slugs:
            more = ", …" if len(slugs) > _NAMED else ""
            parts.append(f"{len(slugs)} {word}: {', '.join(slugs[:_NAMED])}{more}")
    return "; ".join(parts if any(kinds.values()) else [*parts, "none has changed"])


def _slug(path: Path, slug: Any, known: Collection[str]) -> str:
    if slug not in known:
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
    return KnownDeviation(**{**entry, "kinds": tuple(_kinds(path, slug, entry))})


def _kinds(path: Path, slug: str, entry: Mapping[str, Any]) -> Iterator[DeviationKind]:
    kinds = entry.get("kinds", [])
    if not isinstance(kinds, list):
        raise BaselineError(f"the baseline {path}: {slug}: kinds is a list")
    for text in kinds:
        if not isinstance(text, str) or (kind := DeviationKind.parse(text)) is None:
            choice = ", ".join(_OUTCOMES)
            raise BaselineError(
                f"the baseline {path}: {slug}: {str(text)[:_LONGEST]!r} is no kind of deviation,"
                f" such as “wrong reply at put”; the outcomes are {choice}"
            )
        yield kind
