"""The step at which a test has deviated: which command, what was expected, what was observed.

Failures of the same command that expected and observed the same are of one cause, whatever the
numbers and names in them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conformance.oracle.underspecification import Lines
from conformance.transcript import Entry, Transcript
from conformance.verdict import UNASKED, Deviation, TargetLost
from reference_server.commands import COMMANDS, VERBS
from reference_server.profiles import Profile

LONGEST = 80
"""Characters of what was expected or observed by which causes are told apart."""
MOST = 500
"""Messages beyond which nobody looks for the command."""
_WORD = re.compile(r"([A-Z][A-Z_]+)(?=$|[ \\])")
_ASIDE = re.compile(r"; it breaks |; the text does not |, as in |; reproduced ")
SILENCE = "nothing within N seconds"
"""The form of what was observed where a reply never came."""
_VARYING = (
    (re.compile(r"^nothing within [0-9.]+ seconds(, as before)?"), SILENCE),
    (re.compile(r"\bconformance-[0-9a-f]+-[0-9]+"), "TUBE"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\bonly .*"), "only others"),
    (re.compile(r"^OK [0-9]+\\r\\n.*\\r\\n"), "OK …"),
    (re.compile(r"[0-9]+"), "N"),
)


@dataclass(frozen=True, slots=True)
class Cause:
    """A command, empty if it cannot be told, and the forms of what was expected and observed.

    ``answer`` is the word of the reply that was expected, if another came: empty if there were
    several, or if it came with something else behind it.
    """

    command: str
    expected: str
    observed: str
    answer: str = ""

    @property
    def is_of_reply(self) -> bool:
        """Return whether the command's reply was wrong, not a conclusion from many replies."""
        return bool(_WORD.match(self.expected)) or self.expected.startswith("the key ")


@dataclass(frozen=True, slots=True)
class Step:
    """Where a test has deviated.

    ``before``: the commands that were sent until then. ``messages``: how many these are.
    ``timed``: time had passed; ``eventful``: connections had ended, or the target was sent signals.
    ``lost``: it was the end of the target. ``surplus``: more replies than commands were seen.
    """

    cause: Cause
    before: tuple[str, ...]
    messages: int
    timed: bool
    eventful: bool
    lost: bool = False
    surplus: bool = False

    @property
    def is_out_of_step(self) -> bool:
        """Return whether what came is nobody's reply, or that of a command before this one."""
        cause = self.cause
        if self.surplus or cause.expected == UNASKED:
            return True
        if not cause.command:
            return False
        return cause.observed not in COMMANDS[cause.command].replies and any(
            cause.observed in COMMANDS[verb].replies for verb in self.before if verb
        )


def step_of(error: Deviation, transcript: Transcript, profile: Profile) -> Step:
    """Return the step at which a test has deviated."""
    marked = transcript.last if error.marked is None else error.marked
    entries, lost = transcript.entries[: marked + 1], isinstance(error, TargetLost)
    if len(entries) > MOST:
        return Step(_cause("", error), (), len(entries), True, True, lost)
    said = _said(entries, profile)
    connection, number = _asked(entries, said)
    asked = said.pop(connection, [])
    command = asked[number] if number < len(asked) else ""
    before = asked[:number] + [verb for verbs in said.values() for verb in verbs]
    return Step(
        _cause(command, error),
        tuple(sorted(set(before))),
        len(before) + 1,
        any(entry.direction == "+" for entry in entries),
        any(entry.direction == "!" and entry.data != _CLOSED for entry in entries),
        lost,
        number >= len(asked) > 0,
    )


_CLOSED = b"closed by the target"


def _said(entries: Sequence[Entry], profile: Profile) -> dict[str, list[str]]:
    """Return the commands of each connection; empty where a line begins with none."""
    readers: dict[str, Lines] = {}
    for entry in entries:
        if entry.direction == ">":
            readers.setdefault(entry.connection, Lines(profile)).read(entry.data)
    return {name: [_verb(line) for line in reader.lines] for name, reader in readers.items()}


def _verb(line: bytes | None) -> str:
    verb = (line or b"").partition(b" ")[0].decode("latin-1")
    return verb if verb in VERBS else ""


def _asked(entries: Sequence[Entry], said: Mapping[str, Sequence[str]]) -> tuple[str, int]:
    """Return the connection and the number of the command that the last entry is about.

    Where that is no reply, it is the last command that was not answered.
    """
    if not entries:
        return "", 0
    answers: dict[str, int] = {}
    for entry in entries:
        if entry.direction == "<":
            answers[entry.connection] = answers.get(entry.connection, 0) + 1
    last = entries[-1]
    if last.direction == "<":
        return last.connection, answers[last.connection] - 1
    for entry in reversed(entries):
        answered = answers.get(entry.connection, 0)
        if entry.direction == ">" and answered < len(said[entry.connection]):
            return entry.connection, answered
    return last.connection, max(len(said.get(last.connection, ())) - 1, 0)


def _cause(command: str, error: Deviation) -> Cause:
    expected, observed = (_ASIDE.split(text)[0] for text in (error.expected, error.observed))
    words = {match[0] if (match := _WORD.match(part)) else "" for part in expected.split(" or ")}
    came = _WORD.match(observed)
    if "" in words or (came and came[0] in words):
        return Cause(command, _form(expected), _form(observed))
    told = " or ".join(f"{word} …" for word in sorted(words))
    # What a reply of another kind carries is no matter.
    seen = came[0] if came else _form(observed)
    return Cause(command, told, seen, words.pop() if len(words) == 1 else "")


def _form(text: str) -> str:
    """Return a text without what differs between failures of one cause."""
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
