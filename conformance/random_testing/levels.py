"""The level of a finding: one that depends on an unspecified line is tried without it.

An open line may have nothing to do with what is wrong. So before a finding counts for less, its
open lines are left out, or replaced by lines that the text decides: all at once first, then fewer
and fewer of them (delta debugging). Only if nothing is wrong any more in any of these ways, the
finding is about the open line.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial

from conformance.oracle.diagnosis import Diagnosis, diagnose
from conformance.oracle.underspecification import KINDS, Lines, is_decided, is_free
from conformance.random_testing.replay import Counterexample, commands
from conformance.random_testing.steps import Ask, Leave, Program, Step
from reference_server.commands import U64
from reference_server.profiles import NAME_CHARS, Profile
from reference_server.wire import CRLF

AGAIN = 3
"""Times that a finding without open lines is played again; it must be seen at least once."""

Replayed = Callable[[Program], Counterexample | None]
"""The outcome of a program; None if nothing is wrong with it."""
Change = Callable[[Ask], Step | None]
"""The step instead of an open line; None: no step."""

_ENTIRE_NAME = re.compile(rb"(?!-)[" + re.escape(NAME_CHARS) + rb"]{1,200}")
_DIGITS = re.compile(rb"[0-9]{1,9}")


def most_severe(
    found: Counterexample,
    replayed: Replayed,
    with_full_timeouts: Replayed,
    profile: Profile,
    seconds: float,
) -> Counterexample:
    """Return the finding, or what is left of it without lines that the text leaves open.

    For so many seconds, it is looked for with ``replayed``; what is taken for it must be seen
    ``with_full_timeouts``, too.
    """
    if not diagnosis_of(found, profile).is_loosened:
        return found
    return _Search(found, replayed, with_full_timeouts, profile, seconds).result()


class _Search:
    """Looks for what is wrong in programs that have fewer open lines."""

    def __init__(
        self,
        found: Counterexample,
        replayed: Replayed,
        with_full_timeouts: Replayed,
        profile: Profile,
        seconds: float,
    ) -> None:
        self._found = found
        self._best = replace(found, program=list(_apart(found.program)))
        self._replayed = replayed
        self._with_full_timeouts = with_full_timeouts
        self._profile = profile
        self._end = time.monotonic() + seconds
        self._conclusive: Counterexample | None = None
        of_failures = diagnosis_of(found, profile).of_failures
        self._open = every_ask if of_failures else partial(open_steps, profile=profile)
        forms = () if of_failures else (_plain, _malformed, _unknown, _neutral)
        self._changes: list[Change] = [_left_out, *(partial(form, profile) for form in forms)]

    def result(self) -> Counterexample:
        """Return the conclusive finding if there is one, else that with the fewest open lines."""
        size = len(self._open(self._best.program))
        while size and not self._is_over:
            at = 0
            while not self._is_over and (chunk := self._open(self._best.program)[at : at + size]):
                if not any(self._accepts(chunk, change) for change in self._changes):
                    at += size
            size //= 2
        # Without its quirks, one could not tell any more that it is about them.
        is_quirk = diagnosis_of(self._found, self._profile).is_quirk
        return self._conclusive or (self._found if is_quirk else self._best)

    @property
    def _is_over(self) -> bool:
        return self._conclusive is not None or time.monotonic() > self._end

    def _accepts(self, chunk: Collection[int], change: Change) -> bool:
        """Return whether something is wrong though these steps are changed."""
        steps: list[Step] = []
        instead: set[bytes] = set()
        for number, step in enumerate(self._best.program):
            if number not in chunk or not isinstance(step, Ask):
                steps.append(step)
            elif (changed := change(step)) is not None:
                steps.append(changed)
                instead |= {changed.text} if isinstance(changed, Ask) else set()
        if self._is_over or len(self._open(steps)) >= self._count:
            return False
        found = self._replayed(steps)
        if found is None or self._is_other(found, instead):
            return False
        if not diagnosis_of(found, self._profile).de_facto:
            self._conclusive = self._seen_again(found)
            return self._conclusive is not None
        # A finding about something else would mislead.
        if found.violation.kind != self._found.violation.kind:
            return False
        self._best = found
        return True

    def _is_other(self, found: Counterexample, instead: Collection[bytes]) -> bool:
        """Return whether a finding is about the steps put in, and not what it was about before."""
        asked, before = _asked(found), _asked(self._found)
        alike = found.violation.kind == self._found.violation.kind
        same = alike and _verb(asked, self._profile) == _verb(before, self._profile)
        return not same and any(asked == text.replace(b"%%", b"%") for text in instead)

    @property
    def _count(self) -> int:
        return len(self._open(self._best.program))

    def _seen_again(self, found: Counterexample) -> Counterexample | None:
        for _ in range(AGAIN):
            again = self._with_full_timeouts(found.program)
            if again is not None and not diagnosis_of(again, self._profile).de_facto:
                return again
        return None


def diagnosis_of(found: Counterexample, profile: Profile) -> Diagnosis:
    """Return the diagnosis of a finding."""
    if profile.name not in found.diagnoses:
        known = diagnose(found.violation, found.shown.entries, profile)
        found.diagnoses[profile.name] = known
    return found.diagnoses[profile.name]


# ---------------------------------------------------------------- which lines are open


def every_ask(program: Program) -> list[int]:
    """Return the positions of all requests of clients."""
    return [number for number, step in enumerate(program) if isinstance(step, Ask)]


def open_steps(program: Program, profile: Profile) -> list[int]:
    """Return the positions of the steps with a line that the text leaves open."""
    readers: dict[int, Lines] = {}
    asked: dict[int, int] = {}
    found = []
    for number, step in enumerate(program):
        if isinstance(step, Leave):
            left = readers.pop(step.client, None)
            if left is not None and step.half and left.is_cut_off:
                found.append(asked[step.client])
        elif isinstance(step, Ask):
            reader = readers.setdefault(step.client, Lines(profile))
            known = len(reader.lines)
            asked[step.client] = number
            # Ids have up to 20 digits: what is too long with one may not be so with another.
            reader.read(step.text if step.job is None else step.text % U64)
            if (
                reader.is_quirk
                or reader.is_too_long
                or not all(
                    line is not None and is_decided(line, profile) for line in reader.lines[known:]
                )
            ):
                found.append(number)
                reader.is_quirk = False
    found += [asked[client] for client, reader in readers.items() if reader.is_cut_off]
    return sorted(set(found))


def _apart(program: Program) -> Iterator[Step]:
    """Yield the steps; of what is asked in one of them, each command is a step."""
    for step in program:
        texts = list(commands(step.text)) if isinstance(step, Ask) else []
        if not isinstance(step, Ask) or len(texts) < 2 or step.cuts:
            yield step
            continue
        for number, text in enumerate(texts):
            part = _instead(step, text)
            yield part if number == 0 else part._replace(apart=False, hasty=False)


# ---------------------------------------------------------------- what is done instead


def _left_out(_: Ask) -> None:
    """Leave a step out."""


def _plain(profile: Profile, step: Ask) -> Ask | None:
    """Return the same command with arguments that are decided, as near to its own as possible."""
    verb = _verb(step.text, profile)
    if verb is None:
        return None
    line, _, rest = step.text.partition(CRLF)
    arguments = line[len(verb) :].split()
    arguments += [b""] * (len(KINDS[verb]) - len(arguments))
    words = [verb.encode(), *map(_plain_argument, KINDS[verb], arguments)]
    if verb == "put":
        size = len(rest) - len(CRLF)
        words[-1] = b"%d" % max(size, 0)
        rest = rest if size >= 0 else CRLF
    # Whatever was asked of a job is asked of it still.
    return _instead(step, b" ".join(words) + CRLF + rest)


def _plain_argument(kind: str, argument: bytes) -> bytes:
    if b"%d" in argument:
        return b"%d"
    if kind == "t":
        name = _ENTIRE_NAME.search(argument)
        return name[0] if name else b"default"
    digits = _DIGITS.search(argument)
    return b"%d" % int(digits[0]) if digits else b"0"


def _malformed(profile: Profile, step: Ask) -> Ask:
    """Return the same command with arguments that nobody takes for any."""
    verb = _verb(step.text, profile)
    kinds = KINDS[verb] if verb else ""
    line = " ".join([verb or "", *("-" if kind == "t" else "x" for kind in kinds)]).encode()
    decided = kinds and is_decided(line, profile) and not is_free(line, profile)
    return _instead(step, (line if decided else b"delete x") + CRLF)


def _unknown(_: Profile, step: Ask) -> Ask:
    return _instead(step, b"foo" + CRLF)


def _neutral(profile: Profile, step: Ask) -> Ask:
    return _instead(step, profile.neutral + CRLF)


def _instead(step: Ask, text: bytes) -> Ask:
    """Return a step that asks this, in one piece."""
    return step.asking(text)._replace(cuts=())


def _asked(found: Counterexample) -> bytes:
    """Return the last request of the concerned client."""
    entries = found.shown.entries
    shown = entries[-1].connection if entries else ""
    sent = [e.data for e in entries if e.direction == ">" and e.connection == shown]
    return [b"", *commands(b"".join(sent))][-1]


def _verb(text: bytes, profile: Profile) -> str | None:
    """Return the command that a line is meant to be, as far as one can say."""
    line = text.partition(CRLF)[0].lstrip()
    verbs = sorted(profile.commands, key=len, reverse=True)
    return next((verb for verb in verbs if line.startswith(verb.encode())), None)
