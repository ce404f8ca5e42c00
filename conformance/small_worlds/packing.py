"""A compact form of recorded tours, about a hundredth of their size on the wire.

Replies of one kind differ in their numbers only, and most of these grow by the same amounts each
time. So a reply is written as its form and the differences to the last reply of that form, and each
such pair once: what is left are places in a table, which repeat themselves and compress well.
"""

from __future__ import annotations

import lzma
import pickle
import re
from array import array
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from operator import add, sub
from typing import Generic, NamedTuple, TypeVar

from conformance.random_testing.steps import Ask, Step
from conformance.small_worlds.graph import Graph
from conformance.small_worlds.recording import Turn

T = TypeVar("T", bound=Hashable)
Numbers = tuple[int, ...]

_REPLY = re.compile(rb"(?:OK [0-9]+\r\n)?[^\r]*\r\n")
_NUMBER = re.compile(rb"0|[1-9][0-9]*")


class _Shape(NamedTuple):
    """A turn without what is in its steps and replies.

    ``replies``: of each client, how many there are. ``reached``: how many transitions were taken.
    """

    steps: int
    replies: tuple[tuple[int, int], ...]
    ended: tuple[int, ...]
    reached: int


class PackedTour(NamedTuple):
    """A tour of a world: its graph, tables, and places in these tables.

    ``forms``: replies in the notation of ``%``. ``changes``: pairs of a form and differences.
    Jobs of steps are counted back from the one that was put last, and that from the one before.
    ``reached``: each transition as the difference to the one before. ``segments``: the turns of
    each segment.
    """

    graph: Graph
    forms: tuple[bytes, ...]
    changes: tuple[tuple[int, Numbers], ...]
    all_steps: tuple[Step, ...]
    shapes: tuple[_Shape, ...]
    replies: array[int]
    steps: array[int]
    turns: array[int]
    reached: array[int]
    segments: array[int]

    def compressed(self) -> bytes:
        """Return it as bytes, for a file."""
        data = pickle.dumps(tuple(self), pickle.HIGHEST_PROTOCOL)
        return lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)

    @classmethod
    def read(cls, data: bytes) -> PackedTour:
        """Return what a file of ours has."""
        return cls(*pickle.loads(lzma.decompress(data)))


class _Table(Generic[T]):
    """A list in which each item has one place."""

    def __init__(self) -> None:
        self.places: dict[T, int] = {}

    def place(self, item: T) -> int:
        return self.places.setdefault(item, len(self.places))

    @property
    def items(self) -> tuple[T, ...]:
        return tuple(self.places)


def pack(graph: Graph, segments: Iterable[Sequence[Turn]]) -> PackedTour:
    """Return a tour in its compact form."""
    return _Packer().packed(graph, segments)


class _Packer:
    def __init__(self) -> None:
        self._forms, self._changes = _Table[bytes](), _Table[tuple[int, Numbers]]()
        self._all_steps, self._shapes = _Table[Step](), _Table[_Shape]()
        self._last: dict[int, Numbers] = {}

    def packed(self, graph: Graph, segments: Iterable[Sequence[Turn]]) -> PackedTour:
        replies, steps, turns, reached, parts = (array("l") for _ in range(5))
        put = before = 0
        for segment in segments:
            parts.append(len(segment))
            for turn in segment:
                for step in turn.steps:
                    if isinstance(step, Ask):
                        more = None if step.tag is None else step.tag - put
                        put += more or 0
                        step = step._replace(job=_back(step.job, put), tag=more)
                    steps.append(self._all_steps.place(step))
                told = {client: _REPLY.findall(data) for client, data in turn.replies.items()}
                assert {client: b"".join(said) for client, said in told.items()} == turn.replies
                replies.extend(self._change(reply) for said in told.values() for reply in said)
                counts = tuple((client, len(said)) for client, said in told.items())
                shape = _Shape(len(turn.steps), counts, tuple(turn.ended), len(turn.reached))
                turns.append(self._shapes.place(shape))
                for transition in turn.reached:
                    reached.append(transition - before)
                    before = transition
        return PackedTour(
            graph,
            *(self._forms.items, self._changes.items, self._all_steps.items, self._shapes.items),
            *map(_smallest, (replies, steps, turns, reached, parts)),
        )

    def _change(self, reply: bytes) -> int:
        form = self._forms.place(_NUMBER.sub(b"%d", reply.replace(b"%", b"%%")))
        numbers = tuple(map(int, _NUMBER.findall(reply)))
        last = self._last.get(form, (0,) * len(numbers))
        self._last[form] = numbers
        return self._changes.place((form, tuple(map(sub, numbers, last))))


def _back(job: int | None, put: int) -> int | None:
    """Count a job back from the one that was put last; it undoes itself."""
    return None if job is None else put - job


def _smallest(places: array[int]) -> array[int]:
    """Return places as numbers of few bytes."""
    for code in "bhil":
        try:
            return array(code, places)
        except OverflowError:
            continue
    return places


def unpack(packed: PackedTour) -> Iterator[Iterator[Turn]]:
    """Yield the segments of a tour, each to be read before the next; turns when asked for."""
    return _Unpacker(packed).segments()


class _Unpacker:
    def __init__(self, packed: PackedTour) -> None:
        self._packed = packed
        self._shapes = map(packed.shapes.__getitem__, packed.turns)
        self._steps = map(packed.all_steps.__getitem__, packed.steps)
        self._replies = self._said()
        self._reached = accumulate(packed.reached)
        self._put = 0

    def segments(self) -> Iterator[Iterator[Turn]]:
        for count in self._packed.segments:
            yield map(self._turn, islice(self._shapes, count))

    def _said(self) -> Iterator[bytes]:
        """Yield all replies, one after the other."""
        forms, changes = self._packed.forms, self._packed.changes
        numbers: list[Numbers] = [(0,) * form.replace(b"%%", b"").count(b"%d") for form in forms]
        said = [form % known for form, known in zip(forms, numbers, strict=True)]
        changed = [(form, increments if any(increments) else ()) for form, increments in changes]
        for place in self._packed.replies:
            form, increments = changed[place]
            if increments:
                numbers[form] = tuple(map(add, numbers[form], increments))
                said[form] = forms[form] % numbers[form]
            yield said[form]

    def _turn(self, shape: _Shape) -> Turn:
        steps = tuple(map(self._numbered, islice(self._steps, shape.steps)))
        replies = {
            client: b"".join(islice(self._replies, count)) for client, count in shape.replies
        }
        return Turn(steps, replies, shape.ended, tuple(islice(self._reached, shape.reached)))

    def _numbered(self, step: Step) -> Step:
        """Return a step with the numbers of its jobs."""
        if not isinstance(step, Ask) or (step.job is None and step.tag is None):
            return step
        self._put += step.tag or 0
        tag = None if step.tag is None else self._put
        return step._replace(job=_back(step.job, self._put), tag=tag)
