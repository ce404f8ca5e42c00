"""Parses what servers print of their errors: reports of sanitizers and runtimes, last words."""

from __future__ import annotations

import contextlib
import mmap
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from conformance.target.starvation import processes

MOST = 60
"""Lines of a report that are kept."""
ABORTING = "ABORTING"
"""The last word of a report that has ended a server."""
_HEAD = re.compile(
    r"(?:==\d+==)?(?:ERROR|WARNING): (?:\w+Sanitizer: .*|DATA RACE)"
    r"|\S+:\d+(?::\d+)?: runtime error: .*"
    r"|thread '.*' (?:\(\d+\) )?panicked at .*"
    r"|(?:panic|fatal error): .*"
)
_LONG = re.compile(r"Sanitizer: |DATA RACE")
"""The rest after such a line, up to the line that ends the report."""
_OVER = re.compile(r"SUMMARY: |=+$")
_FOLLOWS = re.compile(r"\s|#\d|goroutine |(?:\S+:\d+: )?note: |stack backtrace:|\S+\(.*\)$")
_FRAME = re.compile(r"^ *#\d+ (?:0x[0-9a-f]+ )?(?:in )?([^\s(]+)|^ +(\S+)\(.*\)$", re.MULTILINE)
_OF_RUNTIME = re.compile(
    r"__|runtime\.|(?:(?:mem|str)[a-z]+|(?:m|c|re)alloc|free"
    r"|(?:read|write)_iovec|p?(?:read|write)v?(?:64)?|(?:send|recv)(?:to|from|msg)?)$"
)
"""Functions of C and of sanitizers, in which what is wrong shows, wherever it comes from."""
FRAMES = 3
"""Functions that tell reports of one kind apart."""
_VARYING = re.compile(
    r"==\d+==|\(?\b[pt]id[ =]\d+\)?|\b0x[0-9a-f]+"
    r"|(?<=\bthread )'.*?'(?: \(\d+\))?(?= panicked at )"
    r"|(?<![\w.])(?<!\w:)(?:goroutine |T)?\d[\d_]*(?![\w.])"
)
"""Processes, threads, addresses and values, but not a place in the source."""

_LAST_WORDS = re.compile(r"(?=\S).*(?:(?:Error|Exception|panic|panicked|fatal error)\b|ssertion )")
"""The line in which a program says why it ends."""

SANITIZERS = re.compile(rb"__(?:a|hwa|m|t)san_init")
"""The sanitizers that are in a program, by a name that is in it: those with their own allocator."""
QUARANTINES = re.compile(rb"__(?:a|hwa)san_init")
"""Sanitizers that keep what was freed, to notice its use."""


def has_sanitizer(leader: int, kind: re.Pattern[bytes]) -> bool:
    """Return whether a program of this session is built with a sanitizer of a kind."""
    for process in processes(leader):
        with (
            contextlib.suppress(OSError, ValueError),
            (process / "exe").open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as program,
        ):
            if kind.search(program):
                return True
    return False


class SanitizerReport(NamedTuple):
    """A report: its first line, and all of it."""

    head: str
    text: str

    @property
    def stack(self) -> Sequence[str]:
        """The innermost functions of its first stack."""
        names = [plain or called for plain, called in _FRAME.findall(self.text)]
        return [name for name in names if not _OF_RUNTIME.match(name)][:FRAMES]

    @property
    def kind(self) -> str:
        """The first line without what differs from one time to the next, and where it was."""
        return " < ".join((_form(self.head), *self.stack))


def _form(text: str) -> str:
    return " ".join(_VARYING.sub("", text).split())


def last_words(printed: str) -> str:
    """Return why a server that has crashed says it did, in the same words each time.

    That is the last line about an error, and the place or the message after it; empty if it has
    said nothing.
    """
    lines = printed.splitlines()
    for number in reversed(range(len(lines))):
        if _LAST_WORDS.match(lines[number]):
            return _form(" ".join(lines[number : number + 2]))
    return ""


def different(remarks: Iterable[str]) -> list[str]:
    """Return remarks, of those that quote reports of one kind only the first."""
    found: dict[str, str] = {}
    for remark in remarks:
        found.setdefault(_form(remark) if _HEAD.search(remark) else remark, remark)
    return list(found.values())


def reports(printed: str) -> Iterator[SanitizerReport]:
    """Yield the reports in what a server has printed."""
    lines = printed.splitlines()
    at = 0
    while at < len(lines):
        if not (head := _HEAD.search(lines[at])):
            at += 1
            continue
        end = _end(lines[: at + MOST], at + 1, head[0])
        yield SanitizerReport(head[0], "\n".join(lines[at:end]).strip())
        at = end


def _end(lines: Sequence[str], start: int, head: str) -> int:
    """Return the number of the first line after this report."""
    # The message of a panic may be on the next line.
    start += head.endswith(":")
    for number in range(start, len(lines)):
        if _HEAD.search(lines[number]):
            return number
        if _LONG.search(head):
            if _OVER.match(lines[number]):
                return number + 1
        elif not _FOLLOWS.match(lines[number]):
            return number
    return len(lines)
