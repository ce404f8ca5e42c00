"""The record of traffic, as a transcript that `check` and `draw` read."""

from __future__ import annotations

from typing import IO

from conformance.traffic.events import Event, Kind
from conformance.transcript import (
    CLIENT_CLOSES,
    CLIENT_HALF_CLOSES,
    CLIENT_RESETS,
    GRAIN,
    TARGET_CLOSES,
)
from reference_server.state import SECOND
from reference_server.wire import escape

_ESCAPED = {byte: escape(bytes([byte])) for byte in range(256)}
_GRAIN = round(GRAIN * SECOND)
_LINES = {
    Kind.CLIENT_ENDED: CLIENT_HALF_CLOSES.decode(),
    Kind.SERVER_ENDED: TARGET_CLOSES.decode(),
    Kind.CLOSED: CLIENT_CLOSES.decode(),
}


def letters_of(number: int) -> str:
    """Return the name of the connection with a number, from 1: A, B, …, Z, AA, AB, …"""
    name = ""
    while number > 0:
        number, letter = divmod(number - 1, 26)
        name = chr(ord("A") + letter) + name
    return name


class Record:
    """Writes events to a file as they come; it raises OSError."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._first = self._written = 0
        self._ended: set[int] = set()

    def take(self, event: Event) -> None:
        """Write an event, if a transcript has anything of its kind."""
        self._first = self._first or event.at
        name, kind = letters_of(event.conn), event.kind
        if kind is Kind.SENT or kind is Kind.RECEIVED:
            text = event.data.decode("latin-1").translate(_ESCAPED)
            line = f"{name} {'>' if kind is Kind.SENT else '<'} {text}"
        elif kind is Kind.RESET:
            word = TARGET_CLOSES if event.data == b"server" else CLIENT_RESETS
            line = f"{name} ! {word.decode()}"
        elif kind is Kind.DROPPED:
            line = f"# {name}: not recorded from here on"
        elif kind in _LINES:
            line = f"{name} ! {_LINES[kind]}"
        else:
            return
        if kind is Kind.SERVER_ENDED:
            self._ended.add(event.conn)
        elif kind in (Kind.CLOSED, Kind.RESET) and event.conn in self._ended:
            # A transcript ends a connection once.
            self._ended.discard(event.conn)
            return
        self._pass(event.at)
        self._file.write(line + "\n")

    def _pass(self, at: int) -> None:
        grains = (at - self._first) // _GRAIN - self._written
        if grains > 0:
            self._written += grains
            self._file.write(f"+ {grains * GRAIN:.3f}".rstrip("0").rstrip(".") + "s\n")
