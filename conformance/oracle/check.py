"""The public face of the oracle: it judges a recorded transcript, without any target."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from conformance.oracle.diagnosis import Diagnosis, diagnose
from conformance.oracle.judged_entries import Judged, JudgedEntries
from conformance.oracle.pace import Pace
from conformance.oracle.underspecification import has_taken_open_line
from conformance.oracle.unknown_times import UNTIMED, are_unknown, at_any_times
from conformance.oracle.violation import Violation
from conformance.recorded import Conversation
from conformance.transcript import Entry
from conformance.verdict import Inconclusive
from reference_server.profiles import NEWEST, Profile

Level = Literal["must", "de-facto", "left open"]
_INSERTED = re.compile(rb"(?:^|\n)INSERTED ([0-9]{1,20})")
_MET = re.compile(rb"(?:^|\n)(?:RESERVED|FOUND|id:) ([0-9]{1,20})")
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


@dataclass(frozen=True, slots=True)
class Judgement:
    """The finding of a transcript, if any.

    ``awaited``: the replies that had not come at its end, when there was time for them yet.
    """

    finding: Finding | None
    awaited: Sequence[str] = ()


def check(
    transcript: Conversation,
    profile: Profile = NEWEST,
    progress: Callable[[float], object] = lambda share: None,
) -> Finding | None:
    """Return what is wrong with a transcript; None if nothing is. Raises Inconclusive.

    Nothing after a finding is judged, unless the text leaves open what was found. ``progress`` is
    called now and then with the share that is done.
    """
    return judgement(transcript, profile, progress).finding


def judgement(
    transcript: Conversation,
    profile: Profile = NEWEST,
    progress: Callable[[float], object] = lambda share: None,
) -> Judgement:
    """Return what :func:`check` does, and what could not be judged."""
    entries, judged = _judged(transcript, profile, True, lambda share: progress(share / 2))
    if (violation := judged.violation) is not None:
        shown = _before(entries, violation)
        _check_older_jobs(transcript, shown)
        diagnosis = diagnose(violation, shown, profile)
        refused = diagnosis.is_loosened and not has_taken_open_line(shown, profile)
        finding = found(violation, diagnosis, refused and not diagnosis.of_failures)
        return Judgement(_told_from(finding, shown))
    entries, judged = _judged(transcript, profile, False, lambda share: progress(0.5 + share / 2))
    if (violation := judged.violation) is None:
        return Judgement(None, judged.awaited)
    shown = _before(entries, violation)
    _check_older_jobs(transcript, shown)
    finding = found(violation, diagnose(violation, shown, profile), False)
    return Judgement(_told_from(finding, shown))


def _judged(
    transcript: Conversation, profile: Profile, lenient: bool, progress: Callable[[float], object]
) -> tuple[Sequence[Entry], Judged]:
    """Return the messages, with times, and how they are judged."""
    entries, begins = transcript.entries, transcript.begins
    if not are_unknown(entries):
        judging = JudgedEntries(begins, profile, lenient, pace=Pace.of(entries))
        return entries, judging.judged(entries, progress)
    return at_any_times(
        entries, lambda timed: JudgedEntries(begins, profile, lenient, UNTIMED).judged(timed)
    )


def _check_older_jobs(transcript: Conversation, shown: Sequence[Entry]) -> None:
    """Raise Inconclusive if a job takes part that is older than the transcript.

    Ids increase, so its id is below that of the first job that is put. Of such a job, and of what
    it keeps others from, nothing is known.
    """
    if transcript.begins is not None:
        return
    received = [entry.data for entry in shown if entry.direction == "<"]
    first = min((int(id) for data in received for id in _INSERTED.findall(data)), default=None)
    for data in received:
        for id in map(int, _MET.findall(data)):
            if first is None or id < first:
                raise Inconclusive(
                    f"job {id} is older than the transcript, so that its state is not known"
                )


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
