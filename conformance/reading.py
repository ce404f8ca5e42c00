"""Reads transcripts: whole files, and failures as they were pasted."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from conformance.raw_session import RawSession, is_raw
from conformance.transcript import (
    AT_ONCE,
    BEGINS,
    Claim,
    Counters,
    Direction,
    Entry,
    NotATranscript,
    Transcript,
)
from reference_server.wire import CRLF

_DIRECTIONS: dict[str, Direction] = {">": ">", "<": "<", "!": "!"}
_LINE = re.compile(
    r"(?:([A-Z]+) ([<>!])(?: (.*))?|\+ (\d+(?:\.\d+)?) ?s( at once)?|! (SIG[A-Z0-9]+|restarts"
    r"|[^<>]+ limited|limits lifted))"
)
_ESCAPE = re.compile(r"\\(?:([rnt\\])|x([0-9a-f]{2}))|([^\\ -~]|\\)")
_MEANS = {"r": "\r", "n": "\n", "t": "\t", "\\": "\\"}
_LEFT_OUT = re.compile(r"… ([\d,]+ messages?) …|…\(([\d,]+ more bytes?)\)…")
_REQUIREMENT, _OBSERVED = "REQUIREMENT ", "OBSERVED "
_AROUND = ("TRANSCRIPT", _REQUIREMENT, "EXPECTED ", _OBSERVED)
_TITLE = re.compile("_{2,} .* _{2,}")
"""The line above a failure."""


def parse(text: str) -> Transcript:
    """Read the format, or a failure; raises :class:`NotATranscript`."""
    transcript = Transcript()
    for found in read(text.splitlines()):
        if isinstance(found, Counters):
            transcript.begins = found
        elif isinstance(found, Claim):
            transcript.claim = found
        else:
            transcript.entries.append(found)
    return transcript


def read(lines: Iterable[str]) -> Iterator[Entry | Counters | Claim]:
    """Yield the entries in lines, what had been counted before, and what a failure has observed.

    Empty lines and comments (``#``) are skipped, and so is what else a failure has around its
    transcript. A session without marks is taken as :class:`RawSession` does. Raises
    :class:`NotATranscript`.
    """
    begin, rest = [], iter(lines)
    for line in rest:
        begin.append(line)
        if line.strip() and not line.startswith("#"):
            break
    whole = itertools.chain(begin, rest)
    if begin and not _is_marked(begin[-1]) and is_raw(begin[-1]):
        yield from RawSession([*whole]).entries()
    else:
        yield from _with_line_ends(_marked(whole))


def _is_marked(first: str) -> bool:
    line = first.strip().lstrip("> ")
    return bool(_LINE.fullmatch(line) or _TITLE.fullmatch(line)) or line.startswith(_AROUND)


def _with_line_ends(
    found: Iterable[Entry | Counters | Claim],
) -> Iterator[Entry | Counters | Claim]:
    """Yield entries; if none of them has the end of a line, each is a whole one."""
    kept: list[Entry | Counters | Claim] = []
    entries = iter(found)
    for one in entries:
        kept.append(one)
        if isinstance(one, Entry) and b"\n" in one.data:
            yield from kept
            yield from entries
            return
    is_whole = any(isinstance(one, Entry) and one.direction == "<" for one in kept)
    for one in kept:
        if is_whole and isinstance(one, Entry) and one.direction in "<>":
            yield replace(one, data=one.data + CRLF)
        else:
            yield one


def _marked(lines: Iterable[str]) -> Iterator[Entry | Counters | Claim]:
    now, requirement = 0.0, ""
    for number, line in _transcript(lines):
        if line.startswith(_REQUIREMENT):
            requirement = requirement or line.split()[1]
            continue
        if line.startswith(_OBSERVED):
            yield Claim(line.removeprefix(_OBSERVED).strip(), requirement)
            continue
        if line.startswith(BEGINS):
            yield _counters(line.removeprefix(BEGINS), number)
        if line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if left_out := _LEFT_OUT.search(line):
            what = left_out[1] or left_out[2]
            raise NotATranscript(
                f"line {number} has left out {what}: take the whole transcript, which is in the"
                " folder transcripts of a report"
            )
        if match is None:
            raise NotATranscript(f"line {number} is not of a transcript: {line[:60]!r}")
        connection, direction, data, seconds, moved, event = match.groups()
        if seconds is not None:
            now += float(seconds)
            yield Entry("", "+", AT_ONCE if moved else b"", now)
        elif event is not None:
            yield Entry("", "!", event.encode(), now)
        else:
            yield Entry(connection, _DIRECTIONS[direction], _unescape(data or "", number), now)


def _transcript(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines that are of a transcript, or should be, without indentation.

    Of a failure, also those of its requirements, and that of what was observed.
    """
    has_begun = is_over = is_above = is_observed = False
    for number, whole in enumerate(lines, 1):
        # A mark, or a quotation; connections have letters.
        line = whole.strip().lstrip("> ")
        if line == "TRANSCRIPT" or line.startswith(_REQUIREMENT):
            if has_begun:
                raise NotATranscript(f"line {number} begins another failure: give one of them")
            is_above = line != "TRANSCRIPT"
            if is_above and len(line.split()) > 1:
                yield number, line
        elif line.startswith(("EXPECTED ", _OBSERVED)) and not is_above:
            is_over = True
            if line.startswith(_OBSERVED) and not is_observed:
                is_observed = True
                yield number, line
        elif line and not (is_above or is_over or _TITLE.fullmatch(line)):
            has_begun = True
            yield number, line


def _counters(text: str, line: int) -> Counters:
    with contextlib.suppress(ValueError, TypeError):
        counters = Counters(*json.loads(text))
        return Counters(dict(counters.stats), dict(counters.of_default), int(counters.next_id))
    raise NotATranscript(f"line {line} has no valid counters: {text[:60]!r}")


def _unescape(text: str, line: int) -> bytes:
    def meant(match: re.Match[str]) -> str:
        if match[3] is not None:
            raise NotATranscript(f"line {line} has {match[3]!r}, which must be escaped")
        return _MEANS[match[1]] if match[1] else chr(int(match[2], 16))

    return _ESCAPE.sub(meant, text).encode("latin-1")
