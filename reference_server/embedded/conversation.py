"""The record of what an embedded server and its clients say."""

from __future__ import annotations

from reference_server.entries import AT_ONCE, Entry, letters, written

DRAINS = b"SIGUSR1"
"""The event of a server that enters drain mode."""
BYTES_LIMIT = 2**26
"""Bytes of messages that are kept; of a longer conversation, its end."""
SHOWN = 100
"""Messages that a failing test shows."""


class EmbeddedTranscript:
    """All messages, oldest first; times are in nanoseconds. Only the server's thread writes it."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._letters = letters()
        self._size = self._dropped = 0
        self._moved: tuple[int, int] | None = None

    def next_letter(self) -> str:
        """Return the name of a new connection: A, B, …"""
        return next(self._letters)

    def sent_by_client(self, connection: str, data: bytes, now: int) -> None:
        """Record bytes from a client."""
        self._add(Entry(connection, ">", data, now / 1e9))

    def sent_by_server(self, connection: str, data: bytes, now: int) -> None:
        """Record bytes to a client, with those before if these are the rest of a line."""
        last = self._entries[-1] if self._entries else None
        if (
            self._moved is None
            and last is not None
            and (last.connection, last.direction) == (connection, "<")
            and not last.data.endswith(b"\n")
        ):
            self._entries.pop()
            self._size -= len(last.data)
            self._add(Entry(connection, "<", last.data + data, last.time))
        else:
            self._add(Entry(connection, "<", data, now / 1e9))

    def happened(self, event: bytes, now: int, connection: str = "") -> None:
        """Record an event of a connection, or of the server as a whole."""
        self._add(Entry(connection, "!", event, now / 1e9))

    def moved(self, before: int, now: int) -> None:
        """Record that the clock was moved; several times in a row are one line."""
        self._moved = (before if self._moved is None else self._moved[0], now)

    def _add(self, entry: Entry) -> None:
        self._write_move()
        self._entries.append(entry)
        self._size += len(entry.data)
        if self._size > BYTES_LIMIT:
            self._forget_half()

    def _write_move(self) -> None:
        if self._moved is not None:
            before, now = self._moved
            self._moved = None
            self._entries.append(Entry("", "+", b"", before / 1e9))
            self._entries.append(Entry("", "+", AT_ONCE, now / 1e9))

    def _forget_half(self) -> None:
        half = len(self._entries) // 2 or 1
        self._size -= sum(len(entry.data) for entry in self._entries[:half])
        self._dropped += half
        del self._entries[:half]

    def text(self) -> str:
        """Return the whole conversation, a line each message; CR LF and other bytes are escaped."""
        self._write_move()
        head = f"# {self._dropped:,} earlier messages were not kept\n" if self._dropped else ""
        lines = written(self._entries, range(len(self._entries)), None, fold=False)
        return head + "".join(f"{line[2:]}\n" for line in lines.splitlines())

    def tail(self) -> str:
        """Return the last messages for a reader: long ones are cut in the middle."""
        self._write_move()
        first = max(0, len(self._entries) - SHOWN)
        lines = written(self._entries, range(first, len(self._entries)), None, fold=True)
        return lines if self._entries else "  nothing was sent"
