"""Compares replies with recorded ones, except for values that differ between servers.

Ids of jobs, what was counted before, the clock, and the name of a server differ from one target to
the next. All else is compared as it is, which is fast; only lines that differ are read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from conformance.oracle.reply_comparison import CLOCKS, TOLERANCE, difference
from conformance.yamlish import dictionary
from reference_server.wire import OK

_CRLF = b"\r\n"
_LIST = b"---\n- "
_INSERTED = b"INSERTED "
_PUT = re.compile(rb"INSERTED ([1-9][0-9]{0,19})\r\n")
_JOB = re.compile(rb"(INSERTED |RESERVED |FOUND |\nid: )([0-9]+)(?=[ \r\n])")
_COUNTER = re.compile(
    rb"(?:cmd-[a-z-]+|total-[a-z]+|job-timeouts|current-(?:connections|tubes|using|watching)): \d+"
)
_CLOCK = re.compile(rb"(%b): (-?[0-9]+)" % "|".join(sorted(CLOCKS)).encode())
_RUNNING = re.compile(rb"rusage-[us]time: [0-9]+[.][0-9]+|uptime: [0-9]+")
_DOCUMENT = re.compile(rb"OK ([0-9]{1,7})\r\n(?=---\r\n)")
_CRLF_DOCUMENT = b"---\r\n"
_OF_SERVER = b"\npid: "
_OF_DEFAULT = re.compile(rb'---\nname: "?default"?\n')


class DifferentReply(Exception):
    """A reply is not the one that was written down."""


class ReplyComparison:
    """Compares what comes from a target with what was written down.

    ``alone``: nobody else uses the target. ``ids``: the ids of jobs by those that were written
    down.
    """

    def __init__(self, alone: bool) -> None:
        self._alone = alone
        self.ids: dict[int, int] = {}
        self._renames = False
        self._begun = 0.0
        self._more: dict[tuple[bool, bytes], int] = {}
        # Lines, and lists of tubes, that were found to be alike.
        self._alike: set[tuple[bytes, bytes]] = set()
        # The target has another layout of YAML.
        self._lays_out = False

    def begin(self) -> None:
        """Note that there are no jobs now."""
        self._begun = time.monotonic()
        self.ids.clear()

    def check(self, mine: bytes, theirs: bytes) -> None:
        """Compare replies; raise :class:`DifferentReply`."""
        if _INSERTED in mine:
            self._learn(_PUT.findall(mine), _PUT.findall(theirs))
        if self._renames:
            mine = _JOB.sub(self._renamed, mine)
        if mine == theirs:
            return
        parts, others = mine.split(_CRLF), theirs.split(_CRLF)
        if len(parts) != len(others):
            raise DifferentReply
        for index, (part, other) in enumerate(zip(parts, others, strict=True)):
            if part == other:
                continue
            if part.startswith(b"OK "):
                if other != b"OK %d" % len(others[index + 1]):
                    raise DifferentReply
            elif not (part.startswith(b"---\n") and self._says_the_same(part, other)):
                raise DifferentReply

    def _learn(self, mine: Sequence[bytes], theirs: Sequence[bytes]) -> None:
        """Take the ids of jobs."""
        if len(mine) != len(theirs):
            raise DifferentReply
        self._renames |= mine != theirs
        self.ids.update(zip(map(int, mine), map(int, theirs), strict=True))

    def _renamed(self, match: re.Match[bytes]) -> bytes:
        return b"%b%d" % (match[1], self.ids.get(int(match[2]), 0))

    def _says_the_same(self, mine: bytes, theirs: bytes) -> bool:
        """Tell whether two documents say the same, in whatever layout."""
        if not self._lays_out and self._is_alike(mine, theirs):
            return True
        same = self._is_alike(mine, _laid_out(mine, theirs))
        self._lays_out |= same
        return same

    def _is_alike(self, mine: bytes, theirs: bytes) -> bool:
        """Tell whether two documents say the same, line by line."""
        expected, actual = mine.split(b"\n"), theirs.split(b"\n")
        if len(expected) != len(actual):
            return self._is_same(mine, theirs)
        pairs = zip(expected, actual, strict=True)
        different = [pair for pair in pairs if pair[0] != pair[1] and pair not in self._alike]
        others = {
            line: other for line, other in different if not self._may_differ(mine, line, other)
        }
        if not others:
            return True
        adopted = dict(different)
        body = b"\n".join(line if line in others else adopted.get(line, line) for line in expected)
        if not self._is_same(body, theirs):
            return False
        if _OF_SERVER in mine:
            self._alike.update(others.items())
        return True

    def _may_differ(self, document: bytes, mine: bytes, theirs: bytes) -> bool:
        """Tell whether a line differs by what was counted before, or by the time that passes."""
        key, value = mine.partition(b": ")[::2]
        other, observed = theirs.partition(b": ")[::2]
        if key == other and _RUNNING.fullmatch(theirs):
            return True
        if key != other or not observed.lstrip(b"-").isdigit():
            return False
        if _COUNTER.fullmatch(mine):
            if key == b"cmd-list-tube-used":
                # The suite itself sends this, to synchronise with the target.
                return True
            if not _has_old_counters(document):
                return False
            of_server, more = _OF_SERVER in document, int(observed) - int(value)
            return self._more.setdefault((of_server, key), more) == more
        passed = TOLERANCE + time.monotonic() - self._begun
        return bool(_CLOCK.fullmatch(mine)) and abs(int(observed) - int(value)) <= passed

    def _is_same(self, mine: bytes, theirs: bytes) -> bool:
        pair = mine, theirs
        if pair in self._alike:
            return True
        same = difference(OK(mine), OK(theirs), self._alone) is None
        if same and mine.startswith(_LIST):
            self._alike.add(pair)
        return same


def _has_old_counters(document: bytes) -> bool:
    """Tell whether a document counts what was before: that of the server, or of ``default``."""
    return _OF_SERVER in document or _OF_DEFAULT.match(document) is not None


def with_plain_lines(came: bytes) -> bytes:
    """Return received bytes with LF as line ends of documents.

    A document with CR LF as line ends is returned when it is complete.
    """
    if _CRLF_DOCUMENT not in came:
        return came
    parts = []
    while (match := _DOCUMENT.search(came)) is not None:
        end = match.end() + int(match[1])
        if len(came) < end:
            parts.append(came[: match.start()])
            return b"".join(parts)
        body = came[match.end() : end].replace(_CRLF, b"\n")
        parts += [came[: match.start()], b"OK %d\r\n" % len(body), body]
        came = came[end:]
    return b"".join((*parts, came))


def _laid_out(mine: bytes, theirs: bytes) -> bytes:
    """Return what another document says in the layout of mine, if it has the same keys."""
    if mine.startswith(_LIST):
        return theirs
    try:
        expected, actual = dictionary(mine), dictionary(theirs)
        said = [b"---"]
        for line, (key, value) in zip(mine.splitlines()[1:], expected.items(), strict=True):
            said.append(line if actual[key] == value else f"{key}: {actual[key]}".encode())
    except (KeyError, ValueError):
        return theirs
    return b"\n".join((*said, b""))
