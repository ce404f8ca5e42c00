"""The public face of the oracle: it judges a recorded transcript, without any target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from conformance.oracle.diagnosis import Diagnosis, diagnose
from conformance.oracle.judged_entries import first_violation
from conformance.oracle.underspecification import has_taken_open_line
from conformance.oracle.violation import Violation
from conformance.recorded import Conversation
from conformance.transcript import Entry
from reference_server.profiles import NEWEST, Profile

Level = Literal["must", "de-facto", "left open"]
LOOKED_AT = 100_000
"""Messages before a finding that are enough to tell its level, and what it breaks."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The first message of a transcript that is not as the model says, by its position.

    ``level``: what forbids it: the text, only every server, or nothing. ``about``: more in words.
    """

    position: int
    expected: str
    observed: str
    level: Level
    about: str = ""


def check(
    transcript: Conversation,
    profile: Profile = NEWEST,
    progress: Callable[[float], object] = lambda share: None,
) -> Finding | None:
    """Return what is wrong with a transcript; None if nothing is. Raises Inconclusive.

    Nothing after a finding is judged, unless the text leaves open what was found. ``progress`` is
    called now and then with the share that is done.
    """
    entries = transcript.entries
    violation = first_violation(
        entries, transcript.begins, profile, True, lambda share: progress(share / 2)
    )
    if violation is not None:
        shown = _before(entries, violation)
        diagnosis = diagnose(violation, shown, profile)
        refused = diagnosis.is_loosened and not has_taken_open_line(shown, profile)
        finding = found(violation, diagnosis, refused and not diagnosis.of_failures)
        return _told_from(finding, shown)
    violation = first_violation(
        entries, transcript.begins, profile, False, lambda share: progress(0.5 + share / 2)
    )
    if violation is None:
        return None
    shown = _before(entries, violation)
    return _told_from(found(violation, diagnose(violation, shown, profile), False), shown)


def _told_from(finding: Finding, shown: Sequence[Entry]) -> Finding:
    """Return a finding that says how many messages its level is judged by, if these are not all."""
    if len(shown) > finding.position:
        return finding
    limit = f"as far as the last {LOOKED_AT:,} messages tell"
    return replace(finding, about="; ".join(filter(None, (finding.about, limit))))


def _before(entries: Sequence[Entry], violation: Violation) -> Sequence[Entry]:
    """Return the messages that a violation is judged by: the last ones of a long conversation."""
    return entries[max(violation.mark + 1 - LOOKED_AT, 0) : violation.mark + 1]


def found(violation: Violation, diagnosis: Diagnosis, firm: bool) -> Finding:
    """Return what is told of a violation. ``firm``: it does not depend on lines that are open."""
    level: Level = "must"
    if diagnosis.de_facto and not firm:
        level = "left open" if diagnosis.is_loosened else "de-facto"
    if level == "de-facto" and all(name.startswith("quirk.") for name in diagnosis.requirements):
        level = "left open"
    about = "" if firm else diagnosis.about
    return Finding(violation.mark, diagnosis.expected, diagnosis.observed, level, about)
