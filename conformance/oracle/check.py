"""The public interface of the oracle: judges a recorded transcript, without a target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from conformance.oracle.diagnosis import Diagnosis, diagnose
from conformance.oracle.earlier_state import with_earlier_jobs, with_its_limit
from conformance.oracle.explanation import Explainer
from conformance.oracle.judged_entries import Jobs, JudgedEntries, JudgedMessages
from conformance.oracle.reply_comparison import NOTHING
from conformance.oracle.reply_delays import ReplyDelays
from conformance.oracle.underspecification import has_taken_open_line
from conformance.oracle.unknown_times import UNTIMED, are_unknown, at_any_times
from conformance.oracle.violation import Violation
from conformance.recorded import RecordedConversation
from conformance.transcript import RESTARTS, Entry, Transcript
from conformance.verdict import Inconclusive
from reference_server.profiles import NEWEST, Profile

Level = Literal["must", "de-facto", "unspecified"]
EXPLAINED = 2000
"""Messages of a transcript beyond which no reply is explained."""
KEEPS = "it is about what a server keeps when it is started again"
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
class TranscriptVerdict:
    """The finding of a transcript, if any.

    ``awaited``: the replies that had not come at its end, when there was time for them yet.
    """

    finding: Finding | None
    awaited: Sequence[str] = ()
    explanations: Sequence[str] = ()
    """Sentences on replies that surprise people, though they are allowed."""


def check(
    transcript: RecordedConversation,
    profile: Profile = NEWEST,
    progress: Callable[[float], object] = lambda share: None,
) -> Finding | None:
    """Return what is wrong with a transcript; None if nothing is. Raises Inconclusive.

    Nothing after a finding is judged, unless the text leaves open what was found. ``progress`` is
    called now and then with the share that is done.
    """
    return judgement(transcript, profile, progress).finding


def judgement(
    transcript: RecordedConversation,
    profile: Profile = NEWEST,
    progress: Callable[[float], object] = lambda share: None,
) -> TranscriptVerdict:
    """Return what :func:`check` does, and what could not be judged."""
    profile = with_its_limit(transcript.entries, profile)
    judged = _judgement(transcript, profile, progress)
    finding, entries = judged.finding, transcript.entries
    restarts = [
        place
        for place, entry in enumerate(entries[: finding.position] if finding else ())
        if entry.data == RESTARTS and not entry.connection
    ]
    if finding is None or not restarts or finding.level != "must":
        return judged
    # What it keeps is no matter of the text; what it does with that, whatever it is, may be.
    try:
        later = _judgement(Transcript([*entries[restarts[-1] + 1 :]]), profile, progress)
    except Inconclusive:
        later = TranscriptVerdict(None)
    if later.finding is not None and later.finding.level == "must":
        return judged
    return TranscriptVerdict(replace(finding, level="de-facto", about=KEEPS))


def _judgement(
    transcript: RecordedConversation, profile: Profile, progress: Callable[[float], object]
) -> TranscriptVerdict:
    entries, judged = _judged(transcript, profile, True, lambda share: progress(share / 2))
    if (violation := judged.violation) is not None:
        shown = _before(entries, violation)
        diagnosis = diagnose(violation, shown, profile)
        refused = diagnosis.is_loosened and not has_taken_open_line(shown, profile)
        finding = found(violation, diagnosis, refused and not diagnosis.of_failures)
        return TranscriptVerdict(_qualified(finding, shown))
    entries, judged = _judged(transcript, profile, False, lambda share: progress(0.5 + share / 2))
    if (violation := judged.violation) is None:
        return TranscriptVerdict(None, judged.awaited, judged.explanations)
    shown = _before(entries, violation)
    finding = found(violation, diagnose(violation, shown, profile), False)
    return TranscriptVerdict(_qualified(finding, shown))


def _judged(
    transcript: RecordedConversation,
    profile: Profile,
    lenient: bool,
    progress: Callable[[float], object],
) -> tuple[Sequence[Entry], JudgedMessages]:
    """Return the messages, with times, and how they are judged."""
    entries, begins = transcript.entries, transcript.begins
    untimed = are_unknown(entries)
    pace, before = (None, UNTIMED) if untimed else (ReplyDelays.of(entries), NOTHING)

    def judge(timed: Sequence[Entry], earlier: Jobs | None) -> JudgedMessages:
        explainer = Explainer(profile) if len(timed) <= EXPLAINED else None
        judging = JudgedEntries(begins, profile, lenient, before, pace, earlier, explainer)
        judged = judging.judged(timed, progress)
        return replace(judged, explanations=explainer.latest) if explainer else judged

    def judge_all(timed: Sequence[Entry]) -> JudgedMessages:
        if begins is not None:
            return judge(timed, None)
        return with_earlier_jobs(timed, profile, lambda jobs: judge(timed, jobs))

    timed, judged = at_any_times(entries, judge_all) if untimed else (entries, judge_all(entries))
    if judged.doubt:
        raise Inconclusive(judged.doubt)
    return timed, judged


def _qualified(finding: Finding, shown: Sequence[Entry]) -> Finding:
    """Return a finding that says how many messages its level is judged by, if these are not all."""
    if len(shown) > finding.position:
        return finding
    limit = f"as far as the last {LOOKED_AT:,} messages show"
    return replace(finding, about="; ".join(filter(None, (finding.about, limit))))


def _before(entries: Sequence[Entry], violation: Violation) -> Sequence[Entry]:
    """Return the messages that a violation is judged by: the last ones of a long conversation."""
    return entries[max(violation.mark + 1 - LOOKED_AT, 0) : violation.mark + 1]


def found(violation: Violation, diagnosis: Diagnosis, conclusive: bool) -> Finding:
    """Return the finding of a violation.

    ``conclusive``: it does not depend on unspecified lines.
    """
    level: Level = "must"
    if diagnosis.de_facto and not conclusive:
        level = "unspecified" if diagnosis.is_loosened else "de-facto"
    if level == "de-facto" and all(name.startswith("quirk.") for name in diagnosis.requirements):
        level = "unspecified"
    about = "" if conclusive else diagnosis.about
    return Finding(violation.mark, diagnosis.expected, diagnosis.observed, level, about)
