"""Long recorded conversations, in little memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, overload

from conformance.reading import read
from conformance.transcript import Claim, Counters, Direction, Entry

_DIRECTIONS: tuple[Direction, ...] = (">", "<", "+", "!")


class RecordedConversation(Protocol):
    """The entries of a transcript, wherever they are, and what was written around them."""

    @property
    def entries(self) -> Sequence[Entry]:
        """Its entries."""
        ...

    @property
    def begins(self) -> Counters | None:
        """The counters of the target before, if these are known."""
        ...

    @property
    def claim(self) -> Claim | None:
        """The observation of the failure that it was pasted with."""
        ...


class PackedEntries(Sequence[Entry]):
    """Entries of which each takes some twenty bytes more than its data."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ends = array("Q", [0])
        self._times = array("d")
        self._kinds = array("I")
        """The connection that it is of, and its direction."""
        self._names: dict[str, int] = {}
        self._by_number: list[str] = []

    def append(self, entry: Entry) -> None:
        """Take in another entry."""
        name = self._names.setdefault(entry.connection, len(self._names))
        if name == len(self._by_number):
            self._by_number.append(entry.connection)
        self._data += entry.data
        self._ends.append(len(self._data))
        self._times.append(entry.time)
        self._kinds.append(name * len(_DIRECTIONS) + _DIRECTIONS.index(entry.direction))

    def __len__(self) -> int:
        return len(self._times)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> list[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        if isinstance(place, slice):
            return [self._entry(number) for number in range(*place.indices(len(self)))]
        return self._entry(range(len(self))[place])

    def _entry(self, number: int) -> Entry:
        name, direction = divmod(self._kinds[number], len(_DIRECTIONS))
        data = bytes(self._data[self._ends[number] : self._ends[number + 1]])
        return Entry(self._by_number[name], _DIRECTIONS[direction], data, self._times[number])


@dataclass
class Recorded:
    """A conversation that is only read."""

    entries: PackedEntries = field(default_factory=PackedEntries)
    begins: Counters | None = None
    claim: Claim | None = None

    @classmethod
    def of(cls, lines: Iterable[str]) -> Recorded:
        """Read a transcript; raise :class:`NotATranscript`."""
        recorded = cls()
        for found in read(lines):
            if isinstance(found, Counters):
                recorded.begins = found
            elif isinstance(found, Claim):
                recorded.claim = found
            else:
                recorded.entries.append(found)
        return recorded
