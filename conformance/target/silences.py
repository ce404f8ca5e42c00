"""The replies that a target has been waited for in vain.

The first time, the wait is a full one, and its verdict stands. The same reply to the same command
is then waited for less and less, as nobody expects it any more: what a test misses after a short
wait has the same cause. Once the reply comes, however late, it is waited for in full again, unless
much time has gone for late ones by then; another reply to that command is none.

A target that has been silent for long in several ways does not conform. From then on, replies that
were never missed before are waited for less, too, until one of them comes late; but longer than its
slowest replies have taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

FEWER = 4
"""One in so many seconds is waited the next time."""
LEAST = 0.05
"""Seconds that are waited in any case."""
ENOUGH = 10.0
"""Seconds waited in vain in full, after which no reply of a run is waited for in full any more."""
SLOWER = 3
"""Times the slowest reply so far that one is waited for that was never missed."""
LEAST_ALIVE = 0.25
"""Seconds in which others are served in any case, if it does not hang."""
FATAL = 3
"""Tests that lose the target after a command that it never carries out, until none sends it."""
OFTEN = 3
"""Times that a reply was waited for in vain, until hardly any hope is left."""
OF_FORM = frozenset({"BAD_FORMAT", "UNKNOWN_COMMAND", "EXPECTED_CRLF"})
"""Replies to lines that are no command."""
HALF_CLOSES = b"half-closes"
NOISE = b"noise"
THE_END = "the end of the connection"
_VERB = re.compile(rb"[^ \r\n]*")
_WORD = re.compile(r"[A-Z][A-Z_]+(?=$|[ \\])|[a-z ]+")


class Awaited(NamedTuple):
    """A command, by its first word, and the words of the replies that were expected."""

    verb: str
    words: frozenset[str]

    @property
    def is_any(self) -> bool:
        """Return whether any reply was awaited."""
        return THE_END not in self.words and not any(map(str.isupper, self.words))


def awaited(sent: bytes, expected: str) -> Awaited:
    """Return what is awaited by who has sent this and expects replies like that."""
    parts = (_WORD.match(part) for part in expected.split(" or "))
    return Awaited(_verb(sent), frozenset(part[0] if part else "" for part in parts))


def _verb(sent: bytes) -> str:
    match = _VERB.match(sent)
    assert match is not None
    return match[0].decode("latin-1")


def _kind(key: Awaited) -> frozenset[str]:
    """Return the words of replies of which all come if one does."""
    return OF_FORM if key.words <= OF_FORM else key.words


def _are_in(data: bytes, words: frozenset[str]) -> bool:
    return any(word.encode() in data for word in words)


AN_END = awaited(HALF_CLOSES, THE_END)
GIVEN_UP = awaited(HALF_CLOSES, "TIMED_OUT")
"""The reply to a client that has waited for a job."""
SERVED = awaited(NOISE, "a reply")
"""The reply to another client, whatever one has sent."""
STATS_TOLD = awaited(b"stats", "OK")


@dataclass(slots=True)
class Silences:
    """The number of times that each reply was waited for in vain, since it came the last time."""

    ignores_ends: bool = False
    """A connection on which nothing more can come was not ended."""
    spent: float = 0.0
    """The seconds that replies were waited for in vain, the first time of each."""
    enough: float = ENOUGH
    """The same after which no reply is waited for in full; processes share that of a run."""
    late: float = 0.0
    """The seconds that replies were waited for that came when that was over: not for ever."""
    in_vain: float = 0.0
    """The seconds that replies were waited for in vain, every time."""
    slowest: float = 0.0
    """The seconds that the slowest of all replies was waited for."""
    _vain: dict[Awaited, int] = field(default_factory=dict)
    _of_verb: dict[str, int] = field(default_factory=dict)
    """The same for commands that have got no reply at all."""
    _of_words: dict[frozenset[str], int] = field(default_factory=dict)
    """The same for replies that no command has got meanwhile."""
    _hung: dict[str, int] = field(default_factory=dict)
    """The number of times that nobody was served any more after a command."""
    _lost: dict[str, int] = field(default_factory=dict)
    """The number of tests that have lost the target after a command."""
    _answered: set[str] = field(default_factory=set)
    _carried_out: set[str] = field(default_factory=set)
    """Commands that were answered, and not for their form."""

    def note(self, missed: Awaited, full: float) -> None:
        """Note that it was waited for in vain; nobody can be to blame but the target.

        ``full``: the seconds of a full wait.
        """
        waited = self.patience(missed, full)
        self.in_vain += waited
        if not self.is_expected_in_vain(missed):
            self.spent += waited
        self._vain[missed] = self._vain.get(missed, 0) + 1
        if not missed.is_any:
            words = _kind(missed)
            self._of_words[words] = self._of_words.get(words, 0) + 1
        if missed == AN_END:
            self.lost(HALF_CLOSES)
        if missed.verb not in self._answered:
            self._of_verb[missed.verb] = self._of_verb.get(missed.verb, 0) + 1

    def hung(self, sent: bytes, seconds: float) -> None:
        """Note that nobody is served any more after this, as was seen in so many seconds."""
        self.in_vain += seconds
        for verb in {_verb(sent), SERVED.verb}:
            self._hung[verb] = self._hung.get(verb, 0) + 1
        self._vain[SERVED] = self._vain.get(SERVED, 0) + 1

    def lost(self, sent: bytes) -> None:
        """Note that the target was lost after this."""
        verb = _verb(sent)
        self._lost[verb] = self._lost.get(verb, 0) + 1

    def saw_end(self) -> None:
        """Note that a connection on which nothing more can come has ended."""
        self.came(AN_END, THE_END)

    def fatal(self, sent: bytes | None = None) -> str | None:
        """Return the command after which it was lost again and again, and never carried it out.

        ``sent``: only if it is this one. That connections do not end counts as a command, too.
        """
        verbs = self._lost if sent is None else {_verb(sent)}
        lost = (verb for verb in verbs if self._lost.get(verb, 0) >= FATAL)
        return next((verb for verb in lost if verb not in self._carried_out), None)

    def came(self, key: Awaited, word: str, seconds: float = 0.0) -> None:
        """Note that a reply with this word has come to who has awaited some for so many seconds."""
        self.slowest = max(self.slowest, seconds)
        self._has_answered(key.verb)
        if key == AN_END:
            # Another command may have ended it.
            self._lost.pop(key.verb, None)
        elif word not in OF_FORM:
            self._carried_out.add(key.verb)
        if key.is_any:
            self._vain.pop(key, None)
        for words in [known for known in self._of_words if word in known]:
            # Who has awaited less proves nothing: perhaps it is not that one which is missing.
            if words == OF_FORM or words <= key.words:
                del self._of_words[words]
        for other in [one for one in self._vain if one.verb == key.verb]:
            if word in other.words or (other.is_any and word not in OF_FORM):
                del self._vain[other]

    def was_late(self, key: Awaited, word: str, full: float) -> None:
        """Note that a reply has come when its wait was over: others may be just as late.

        If that goes on for long, it counts as missed: some come only with the next one. ``full``:
        the seconds of a full wait.
        """
        self.late += self.patience(key, full)
        if self.late > self.enough:
            self.note(key, full)
            return
        self.came(key, word)
        self.spent = 0.0

    def heard(self, sent: bytes, data: bytes) -> None:
        """Note that these bytes have come to who has sent this last."""
        verb = _verb(sent)
        self._has_answered(verb)
        for missed in [known for known in self._vain if known.verb == verb]:
            if _are_in(data, missed.words):
                del self._vain[missed]
        for words in [known for known in self._of_words if _are_in(data, known)]:
            del self._of_words[words]

    def _has_answered(self, verb: str) -> None:
        self._answered.add(verb)
        self._of_verb.pop(verb, None)
        self._hung.pop(verb, None)

    def patience(self, key: Awaited, full: float) -> float:
        """Return how many of so many seconds it is waited for."""
        if times := self._times(key):
            return max(full / float(FEWER) ** times, LEAST)
        if self.spent < self.enough:
            return full
        return min(max(full / FEWER, SLOWER * self.slowest), full)

    def is_expected_in_vain(self, key: Awaited) -> bool:
        """Return whether it was waited for in vain before."""
        return self._times(key) > 0

    def is_hopeless(self, key: Awaited) -> bool:
        """Return whether it was waited for in vain several times since it came last."""
        return self._times(key) >= OFTEN

    def _times(self, key: Awaited) -> int:
        # Who has awaited one of several replies in vain, or any, has awaited each of them.
        vain = (
            count
            for known, count in self._vain.items()
            if known.verb == key.verb
            and (known.words >= key.words or (known.is_any and not key.words <= OF_FORM))
        )
        to_any = self._of_words.get(_kind(key), 0) + 1 - OFTEN
        return max(self._of_verb.get(key.verb, 0), *vain, to_any, 0)

    def patience_after(self, sent: bytes, full: float, least: float = LEAST_ALIVE) -> float:
        """Return how many of so many seconds it is waited for, if it may have hung after this.

        Where it has done so before, they are fewer, but not fewer than ``least``; where it has hung
        after anything, they are fewer once.
        """
        times = max(self._hung.get(_verb(sent), 0), SERVED.verb in self._hung)
        return max(full / FEWER**times, least) if times else full
