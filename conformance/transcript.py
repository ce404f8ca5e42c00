"""What went over the wire, on which connection, in which order, and when.

The format is text, one line a message, bytes escaped so that nothing is lost::

    A > put 0 0 60 5\\r\\nhello\\r\\n
    A < INSERTED 1\\r\\n
    B > reserve\\r\\n
    + 2s
    B < RESERVED 1 5\\r\\nhello\\r\\n
    ! SIGUSR1

What happens to the target as a whole, a signal or ``! restarts``, names no connection.
"""

from __future__ import annotations

import itertools
import re
import string
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from reference_server.wire import escape

Direction = Literal[">", "<", "+", "!"]
"""Sent, received, time passed, and what happened to a connection."""

FOLD = 200
"""Bytes of a message that a reader is shown."""
HEAD, TAIL = 12, 25
"""Messages that a reader is shown of a long transcript."""


_DIRECTIONS: dict[str, Direction] = {">": ">", "<": "<", "!": "!"}
_LINE = re.compile(
    r"(?:  |> )?(?:([A-Z]+) ([<>!]) (.*)|\+ (\d+(?:\.\d+)?) ?s|! (SIG[A-Z0-9]+|restarts))"
)
RESTARTS = b"restarts"
"""What happens to a target that is ended and started again."""
_ESCAPE = re.compile(r"\\(?:([rnt\\])|x([0-9a-f]{2}))|([^\\ -~]|\\)")
_MEANS = {"r": "\r", "n": "\n", "t": "\t", "\\": "\\"}


def letters() -> Iterator[str]:
    """Names for connections: A, B, …, Z, AA, AB, …"""
    for length in itertools.count(1):
        for name in itertools.product(string.ascii_uppercase, repeat=length):
            yield "".join(name)


class NotATranscript(ValueError):
    """A text is not in the format; it says which line, and why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One message: of ``connection``, at ``time`` seconds of the target's clock."""

    connection: str
    direction: Direction
    data: bytes
    time: float

    def line(self, fold: bool = False) -> str:
        """The entry in the format; with ``fold``, long messages are cut in the middle."""
        if self.direction == "+":
            return f"+ {self.data.decode()}"
        if not self.connection:
            return f"! {self.data.decode()}"
        if fold and len(self.data) > FOLD:
            left = len(self.data) - FOLD
            head, tail = escape(self.data[: FOLD - 20]), escape(self.data[-20:])
            text = f"{head}…({left} more bytes)…{tail}"
        else:
            text = escape(self.data)
        return f"{self.connection} {self.direction} {text}"


@dataclass
class Transcript:
    """The entries of one scenario; safe to write from several threads."""

    entries: list[Entry] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def last(self) -> int:
        """The position of the last message; -1 if there is none."""
        return len(self.entries) - 1

    def add(self, connection: str, direction: Direction, data: bytes, time: float) -> int:
        """Records a message and gives its position."""
        with self._lock:
            self.entries.append(Entry(connection, direction, data, time))
            return self.last

    def add_to_reply(self, connection: str, data: bytes, time: float) -> int:
        """Records bytes received, with those of the entry before if these are their rest."""
        with self._lock:
            last = self.entries[-1] if self.entries else None
            if (
                last
                and (last.connection, last.direction) == (connection, "<")
                and not last.data.endswith(b"\n")
            ):
                self.entries[-1] = Entry(connection, "<", last.data + data, last.time)
                return self.last
        return self.add(connection, "<", data, time)

    def copy(self) -> Transcript:
        """The transcript as it is now."""
        with self._lock:
            return Transcript(list(self.entries))

    def until(self, mark: int) -> Transcript:
        """The transcript up to a message."""
        return Transcript(self.entries[: mark + 1])

    def render(self, marked: int | None = None, fold: bool = True) -> str:
        """All entries, two columns indented; ``marked`` gets an arrow.

        With ``fold``, a long transcript is cut before what leads to the marked entry.
        """
        end = len(self.entries)
        last = end if marked is None else marked + 1
        cut = range(HEAD, last - TAIL) if fold else range(0)
        lines = []
        for number, entry in enumerate(self.entries):
            if number in cut:
                if number == cut.start:
                    lines.append(f"  … {len(cut)} messages …")
                continue
            lines.append(("> " if number == marked else "  ") + entry.line(fold))
        return "\n".join(lines)


def parse(text: str) -> Transcript:
    """Reads the format; empty lines and comments (``#``) are skipped.

    Raises :class:`NotATranscript`.
    """
    transcript, now = Transcript(), 0.0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            raise NotATranscript(f"line {number} is not of a transcript: {line.strip()[:60]!r}")
        connection, direction, data, seconds, event = match.groups()
        if seconds is not None:
            now += float(seconds)
            transcript.add("", "+", f"{seconds}s".encode(), now)
        elif event is not None:
            transcript.add("", "!", event.encode(), now)
        else:
            transcript.add(connection, _DIRECTIONS[direction], _unescape(data, number), now)
    return transcript


def _unescape(text: str, line: int) -> bytes:
    def meant(match: re.Match[str]) -> str:
        if match[3] is not None:
            raise NotATranscript(f"line {line} has {match[3]!r}, which must be escaped")
        return _MEANS[match[1]] if match[1] else chr(int(match[2], 16))

    return _ESCAPE.sub(meant, text).encode("latin-1")
