"""The system calls of processes, as strace prints them.

A call has a line, or two if others go on before it returns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from reference_server.state import SECOND

STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"(\.\.\.)?')
"""A string among arguments, and dots if it is cut."""
_DAY = 86_400 * SECOND
_LINE = re.compile(
    r"(?:\[pid +(?P<pid>\d+)\] +|(?P<id>\d+) +)?"
    r"(?:(?P<hours>\d\d):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?) "
    r"|(?P<epoch>\d+\.\d+) )?(?P<call>.*)",
    re.DOTALL,
)
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|\?)(.*)", re.DOTALL)
_UNFINISHED = re.compile(r"(\w+)\((.*?)(?: *<unfinished \.\.\.>)$", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_LOOKS_SO = re.compile(
    r"(?:\[pid +\d+\] +|\d+ +)?(?:[\d:.]+ )?\w+\(.*(?:\) += |<unfinished \.\.\.>)"
)
_SPENT = re.compile(r" <(\d+\.\d+)>$")
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|[0-7]{1,3}|.)", re.DOTALL)
_MEANS = {"n": "\n", "r": "\r", "t": "\t", "v": "\v", "f": "\f", "a": "\a", "b": "\b"}


def is_strace(line: str) -> bool:
    """Return whether a line is one of strace."""
    return line.startswith("strace: Process") or _LOOKS_SO.match(line) is not None


class Phase(Enum):
    """The part of a call that a line shows."""

    WHOLE = "whole"
    BEGUN = "begun"
    """It has not returned yet."""
    RESUMED = "resumed"
    """It has returned, after others have called."""


class SystemCall(NamedTuple):
    """A call. ``line``: the number of its line; ``at``: nanoseconds of the time there, if any.

    ``result``: -1 if it has failed, or not returned. ``rest``: the text after the result.
    """

    line: int
    process: str
    at: int | None
    phase: Phase
    name: str
    arguments: str
    result: int = -1
    rest: str = ""

    @property
    def returned_at(self) -> int | None:
        """Return when it has returned, in nanoseconds; None if that was not traced."""
        if self.at is None or self.phase is Phase.RESUMED:
            return self.at
        spent = _SPENT.search(self.rest)
        return self.at + round(float(spent[1]) * SECOND) if spent else None


class SystemCalls:
    """Reads lines. ``begun``: the calls that have not returned yet, by process."""

    def __init__(self) -> None:
        self.begun: dict[str, SystemCall] = {}
        self._day = 0
        self._last = 0

    def read(self, lines: Iterable[str]) -> Iterator[SystemCall]:
        """Yield the calls; lines that show none are left out."""
        for number, line in enumerate(lines, 1):
            match = _LINE.match(line.rstrip("\n"))
            assert match is not None
            process, text = match["pid"] or match["id"] or "", match["call"]
            at, phase = self._time(match), Phase.WHOLE
            if unfinished := _UNFINISHED.fullmatch(text):
                call = SystemCall(number, process, at, Phase.BEGUN, unfinished[1], unfinished[2])
                yield call
                self.begun[process] = call
                continue
            if resumed := _RESUMED.fullmatch(text):
                before = self.begun.pop(process, None)
                name, arguments = (before.name, before.arguments) if before else (resumed[1], "")
                text, phase = f"{name}({arguments}{resumed[2]}", Phase.RESUMED
            if call_ := _CALL.fullmatch(text):
                result = -1 if call_[3] == "?" else int(call_[3])
                yield SystemCall(number, process, at, phase, call_[1], call_[2], result, call_[4])

    def _time(self, match: re.Match[str]) -> int | None:
        if match["epoch"]:
            seconds, _, fraction = match["epoch"].partition(".")
            return int(seconds) * SECOND + int(fraction.ljust(9, "0")[:9])
        if not match["hours"]:
            return None
        minutes = int(match["hours"]) * 60 + int(match["minutes"])
        at = self._day + minutes * 60 * SECOND + round(float(match["seconds"]) * SECOND)
        if at < self._last - _DAY // 2:
            self._day += _DAY
            at += _DAY
        self._last = at
        return at


def unescaped(text: str) -> bytes:
    """Return the bytes of a string, with or without -xx."""
    if text.count("\\x") * 4 == len(text):
        return bytes.fromhex(text.replace("\\x", ""))
    return _ESCAPE.sub(_meaning, text).encode("latin-1", "replace")


def _meaning(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] == "x":
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return _MEANS.get(code, code)
