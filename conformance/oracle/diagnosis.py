"""The diagnosis of a conversation: which requirements it breaks, and at which level."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from conformance.catalogue import catalogue
from conformance.oracle.attribution import broken
from conformance.oracle.misplacement import KEEPS_PLACES, is_misplaced
from conformance.oracle.underspecification import (
    Lines,
    answered,
    deserves_two_errors,
    has_odd_word,
    is_unlimited,
    open_line,
    talks,
    understood,
)
from conformance.oracle.violation import UNASKED, Violation
from conformance.printable import printable
from conformance.transcript import Entry
from conformance.verdict import WRONG_VALUE, Deviation, Outage, OutcomeKind, Step, TargetLost
from reference_server.commands import COMMANDS, VERBS
from reference_server.profiles import NEWEST, Profile
from reference_server.wire import CRLF, NOT_FOUND, UNKNOWN_COMMAND, Reply, escape

_FAILURES = {
    *("NOT_FOUND", "NOT_IGNORED", "BAD_FORMAT", "EXPECTED_CRLF", "JOB_TOO_BIG", "DRAINING"),
    "UNKNOWN_COMMAND",
}
_COUNTED = re.compile("OK with (?:cmd-([a-z-]+)|current-(producers|workers)): ")
_KEY = re.compile("OK with (?:a value of )?([a-z-]+)(?:: | like )")
_REPLY = re.compile(r"[A-Z][A-Z_]+(?=[ \\]|$)")
_USUAL = {
    word: verb
    for word, verb in (
        (grammar.replies[0], verb) for verb, grammar in COMMANDS.items() if grammar.replies
    )
    if sum(grammar.replies[:1] == (word,) for grammar in COMMANDS.values()) == 1
}
"""The commands by their usual answers, where no other command has the same."""
_ISSUED = {
    "producers": ("put",),
    "workers": ("reserve", "reserve-with-timeout", "reserve-job"),
}
"""The commands that make a client one of these, as it has issued them."""
MOST_NAMES = 3
"""Requirements beyond which a finding names none: it could be any of them."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The requirements that a violation breaks.

    ``requirements``: those that it breaks, if they are known. ``open_line``: a line that the text
    does not decide and that may have caused it, None if there is none; if requirements are known,
    it was sent before the command that they speak of. ``is_quirk``: no text and no decision covers
    what was sent. ``of_failures``: it is about the counts of commands that fail, or are cut off.
    ``behind``: the command that was sent last. ``profile``: it gives the requirements' levels.
    """

    expected: str
    observed: str
    requirements: tuple[str, ...] = ()
    open_line: bytes | None = None
    is_quirk: bool = False
    of_failures: bool = False
    profile: str = NEWEST.name
    behind: str = ""
    step: Step = WRONG_VALUE
    outage: Outage | None = None
    """The outage, if the target was lost."""

    @property
    def de_facto(self) -> bool:
        """Only what every server does is broken, not what the text says."""
        known = [catalogue()[name].judged_by(self.profile) for name in self.requirements]
        loose = bool(known) and all(requirement.level != "must" for requirement in known)
        return loose or self.is_loosened

    @property
    def is_loss(self) -> bool:
        """The target has crashed, or hangs, or is gone otherwise."""
        return self.outage is not None

    @property
    def is_loosened(self) -> bool:
        """It counts for less, as the text leaves open a line that may have caused it."""
        return self.open_line is not None or (
            not self.requirements and (self.is_quirk or self.of_failures)
        )

    @property
    def about(self) -> str:
        """The requirements, or the line that is open, in words; empty if neither is known."""
        if self.requirements and self.open_line is None:
            return f"it breaks {' or '.join(self.requirements)}"
        if self.of_failures:
            return "the text does not say whether commands that fail, or are cut off, are counted"
        if self.open_line is not None:
            shown = escape(self.open_line[:60])
            line = f"the line “{shown}”" if shown else "a line that is empty, too long or cut off"
            return f"the text does not decide {line}"
        return ""

    def deviation(self, mark: int, more: str = "") -> Deviation:
        """Return the failure of a test, shown at this position; its text ends with ``more``."""
        if self.outage is not None:
            outage = replace(self.outage, more=more)
            return TargetLost(self.expected, outage, mark, self.behind)
        about = f"; {self.about}" if self.about else ""
        observed = self.observed + about + more
        deviation = Deviation(self.expected, observed, mark, conclusive=True, step=self.step)
        deviation.de_facto = self.de_facto
        deviation.suspects = self.requirements if self.open_line is None else ()
        return deviation

    @property
    def name(self) -> str:
        """A name for its folder, the same for findings about the same thing."""
        if self.requirements and self.open_line is None:
            return "-or-".join(self.requirements)
        if self.is_loss:
            words = [_kind(self.observed), "behind", self.behind or "odd line"]
            return _slug(words)
        words = [_kind(self.expected), "not", _kind(self.observed)]
        if self.open_line:
            word = self.open_line.partition(b" ")[0].decode("latin-1")
            words += ["behind", word if word in VERBS else "odd-line"]
        elif self.behind:
            words += ["behind", self.behind]
        return _slug(words)


def diagnose(violation: Violation, entries: Sequence[Entry], profile: Profile) -> Diagnosis:
    """Return the diagnosis of the violation that the last of these messages shows."""
    expected = " or ".join(violation.expected)
    behind = last_command(entries)
    step = step_of(violation, _answered(entries, violation, profile) or behind)
    lost = Diagnosis(
        expected, violation.observed, behind=behind, step=step, outage=violation.outage
    )
    if lost.is_loss:
        # Nothing that anybody sends may end a server.
        return lost
    readers = understood(entries, profile)
    of_failures = _is_of_failures(violation, entries, profile)
    names = [] if of_failures else broken(entries, profile, violation)
    if not (names or of_failures) and is_misplaced(violation, entries, profile):
        return replace(lost, requirements=KEEPS_PLACES, profile=profile.stage)
    lines = [line for reader in readers for line in reader.lines]
    unlimited = any(line is not None and is_unlimited(line, profile) for line in lines)
    # A line that is too long and no command may get either error.
    fits = None in lines and violation.observed.startswith(UNKNOWN_COMMAND.word)
    odd = any(line is not None and has_odd_word(line, profile) for line in lines)
    either = violation.observed.startswith(NOT_FOUND.word) and any(
        line is not None and deserves_two_errors(line, profile) for line in lines
    )
    # Many faults explain that nothing came, and some a limit that is not in an old text, or how
    # a server that knows more words than others takes what follows one of them.
    trusted = names and not violation.is_silence and not (unlimited or fits or odd or either)
    return Diagnosis(
        expected,
        violation.observed,
        tuple(names) if len(names) <= MOST_NAMES else (),
        open_line(understood(_earlier(entries) if trusted else entries, profile), profile),
        any(reader.is_quirk for reader in readers),
        of_failures,
        profile.stage,
        behind,
        step,
    )


def _answered(entries: Sequence[Entry], violation: Violation, profile: Profile) -> str:
    """Return the command that got the reply that a violation shows; empty if that is unclear."""
    command = ""
    for sent, got in talks([one for one in entries if one.connection == entries[-1].connection]):
        reader = Lines(profile)
        reader.read(sent)
        for _, line, reply in answered(reader, got, profile):
            if line is not None and reply is not None and _shows(reply, violation.observed):
                command = _command(line)
    return command


def _shows(reply: Reply, observed: str) -> bool:
    """Tell whether a reply is what was observed, or has that value."""
    value = observed.removeprefix("OK with ").encode()
    return printable(str(reply)) == observed or value in (reply.body or b"").split(b"\n")


def step_of(violation: Violation, last: str = "") -> Step:
    """Return the exchange that a violation is about; ``last``: its command, if that is not said."""
    words = tuple(sorted({_word(expected) for expected in violation.expected}))
    command = violation.command or last
    if not violation.command and len(words) == 1 and words[0] in _USUAL:
        # What was sent last may be the next command already.
        command = _USUAL[words[0]]
    if violation.is_silence:
        return Step(OutcomeKind.NO_REPLY, command, words)
    if violation.is_end:
        return Step(OutcomeKind.DISCONNECTED, command, words)
    if violation.expected == (UNASKED,):
        return Step(OutcomeKind.EXTRA_REPLY, command, (), _word(violation.observed))
    key = _KEY.match(violation.expected[0])
    if key is not None:
        return Step(OutcomeKind.WRONG_VALUE, command, subject=key[1])
    return Step(OutcomeKind.WRONG_REPLY, command, words, _word(violation.observed))


def _word(reply: str) -> str:
    """Return the first word of a reply; empty if this is none."""
    match = _REPLY.match(reply)
    return match[0] if match else ""


def last_command(entries: Sequence[Entry]) -> str:
    """Return the command that was sent last, empty if it was none."""
    sent = b"".join(entry.data for entry in entries if entry.direction == ">")
    lines = [line for line in sent.split(CRLF) if line]
    return _command(lines[-1]) if lines else ""


def _command(line: bytes) -> str:
    """Return the command that a line begins with, empty if it is none."""
    verbs = sorted(VERBS, key=len, reverse=True)
    return next((verb for verb in verbs if line.startswith(verb.encode())), "")


def _slug(words: Sequence[str]) -> str:
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")[:80]


def _earlier(entries: Sequence[Entry]) -> list[Entry]:
    """Return the messages before the concerned client sent the concerned command."""
    shown = entries[-1].connection
    sent = [e for e in entries if e.direction == ">" and e.connection == shown]
    return [entry for entry in entries if not sent or entry is not sent[-1]]


def _is_of_failures(violation: Violation, entries: Sequence[Entry], profile: Profile) -> bool:
    """Return whether it is about how often a command was sent that has failed, or was cut off."""
    matches = [match for said in violation.expected if (match := _COUNTED.match(said))]
    keys = [match[1] or match[2] for match in matches]
    counted = {verb for key in keys for verb in _ISSUED.get(key, (key,))}
    return bool(counted) and any(
        _has_failed(counted, sent, got, profile) for sent, got in talks(entries)
    )


def _has_failed(verbs: Collection[str], sent: bytes, got: bytes, profile: Profile) -> bool:
    """Return whether one of these commands of a client that got this has failed or was cut off."""
    reader = Lines(profile)
    reader.read(sent)
    return ("put" in verbs and reader.missing > 0) or any(
        line is None or _command(line) in verbs
        for _, line, reply in answered(reader, got, profile)
        if reply is not None and reply.word in _FAILURES
    )


def _kind(said: str) -> str:
    """Return a reply's word, or what is said instead of a reply."""
    word = re.match(r"[A-Z_]+", said)
    return word[0] if word else re.sub(r"[0-9]+", "n", said.split("behind")[0])[:40]
