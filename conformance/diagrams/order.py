"""The longest order of concurrent commands that explains the replies."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from conformance.oracle.concurrent_history import ConcurrentHistory
from conformance.oracle.linearizability import Explanation
from conformance.oracle.violation import Violation
from conformance.transcript import (
    CLIENT_CLOSES,
    CLIENT_HALF_CLOSES,
    TARGET_CLOSES,
    Direction,
    Entry,
)
from conformance.verdict import Inconclusive
from reference_server.profiles import Profile
from reference_server.wire import ProtocolError, Put, Reply, ReplyReader, RequestReader

MOST_MESSAGES = 5_000


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a message: one request, one reply, or what happened to a connection.

    ``number`` is that of the request among those of its client, or of the reply to it; ``order``
    its place in the order, 0 if there is none.
    """

    position: int
    connection: str
    direction: Direction
    data: bytes
    number: int
    order: int = 0


@dataclass(frozen=True, slots=True)
class Order:
    """The longest order that explains a conversation; ``misfit``: the piece that does not fit."""

    pieces: list[Piece]
    misfit: Piece | None
    expected: tuple[str, ...] = ()


def overlaps(entries: Sequence[Entry]) -> bool:
    """Tell whether two clients wait for replies at the same time, and no time passes."""
    waiting: set[str] = set()
    for entry in entries:
        if entry.direction == "+" or not entry.connection:
            return False
        if entry.direction == ">":
            waiting.add(entry.connection)
        else:
            waiting.discard(entry.connection)
        if len(waiting) > 1:
            return True
    return False


def longest_order(entries: Sequence[Entry], profile: Profile) -> Order | None:
    """Return the longest order that explains a conversation of clients at work at the same time.

    None if that cannot be found: there are too many orders, or bytes that are no replies.
    """
    if len(entries) > MOST_MESSAGES:
        return None
    history = ConcurrentHistory(profile)
    explanation = Explanation(history)
    numbers: dict[str, int] = {}
    pieces: list[Piece] = []
    try:
        for piece, reply in _pieces(entries, profile):
            if piece.connection not in numbers:
                numbers[piece.connection] = len(numbers) + 1
                history.connect(numbers[piece.connection])
            conn, now = numbers[piece.connection], len(pieces)
            if piece.direction == ">":
                history.sent(conn, piece.data, now)
            elif reply is not None:
                history.heard(conn, reply, now, len(pieces))
            elif piece.data == CLIENT_HALF_CLOSES:
                history.leaves(conn, now)
            elif piece.data == CLIENT_CLOSES:
                history.leaves(conn, now)
                history.ended(conn)
            elif piece.data == TARGET_CLOSES:
                history.ended(conn)
            pieces.append(piece)
        with contextlib.suppress(Violation):
            explanation.find()
    except (Inconclusive, ProtocolError, IndexError):
        # More replies than requests, or nothing that the search knows.
        return None
    return _ordered(history, explanation, numbers, pieces)


def _ordered(
    history: ConcurrentHistory,
    explanation: Explanation,
    numbers: dict[str, int],
    pieces: list[Piece],
) -> Order:
    """Give pieces their places in the order."""
    places: dict[tuple[int, int], int] = {}
    count = 0
    for conn, item in explanation.order:
        event = history.clients[conn].items[item].event
        if isinstance(event, Put):
            continue
        requests = history.clients[conn].items[: item + 1]
        number = sum(not isinstance(one.event, Put) for one in requests) - 1
        count += 1
        places[conn, number] = count
    # Of several replies that do not fit, those in the order are explained by it.
    misfits = [
        (mark, expected)
        for mark, expected in explanation.misfits
        if (numbers[pieces[mark].connection], pieces[mark].number) not in places
    ]
    misfit = misfits[0][0] if misfits else None
    ordered = [
        piece
        if piece.direction == "!"
        else replace(piece, order=places.get((numbers[piece.connection], piece.number), 0))
        for piece in pieces
    ]
    shown = None if misfit is None else ordered[misfit]
    expected = dict.fromkeys(expected for mark, expected in misfits if mark == misfit)
    return Order(ordered, shown, tuple(expected))


def _pieces(entries: Sequence[Entry], profile: Profile) -> Iterator[tuple[Piece, Reply | None]]:
    """Yield each request, each reply (and what it is), and what happened to connections."""
    requests: dict[str, RequestReader] = {}
    replies: dict[str, ReplyReader] = {}
    kept: dict[tuple[str, Direction], bytes] = {}
    counts: Counter[tuple[str, Direction]] = Counter()
    for position, entry in enumerate(entries):
        name, direction = entry.connection, entry.direction
        key = name, direction
        if direction == ">":
            reader = requests.setdefault(name, RequestReader(profile))
            data = kept.pop(key, b"") + entry.data
            reader.receive(entry.data)
            while (request := reader.next_request()) is not None:
                if isinstance(request, Put):
                    continue
                end = len(data) - reader.buffered
                yield Piece(position, name, direction, data[:end], counts[key]), None
                counts[key] += 1
                data = data[end:]
            kept[key] = data
        elif direction == "<":
            listener = replies.setdefault(name, ReplyReader.of(profile))
            data = kept.pop(key, b"") + entry.data
            listener.receive(entry.data)
            while (reply := listener.next_reply()) is not None:
                rest = listener.take_back()
                whole, data = data[: len(data) - len(rest)], rest
                yield Piece(position, name, direction, whole, counts[key]), reply
                counts[key] += 1
                listener.receive(rest)
            kept[key] = data
        elif direction == "!":
            yield Piece(position, name, direction, entry.data, 0), None
