"""Builds the diagram of a conversation: its messages, their times and their reasons."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from conformance.diagrams.jobs import Stretch, states_of_jobs
from conformance.diagrams.order import Order, Piece, longest_order
from conformance.oracle.judged_entries import JudgedMessages, first_violation
from conformance.oracle.unknown_times import UNTIMED, are_unknown, at_any_times
from conformance.printable import printable
from conformance.recorded import RecordedConversation
from conformance.transcript import Direction, Entry, Transcript
from conformance.verdict import Inconclusive
from reference_server.profiles import Profile
from reference_server.wire import escape
from reports.results import Diagram, DrawnMessage, JobStretch
from reports.words import counted

FIRST, LAST, AFTER, BETWEEN = 6, 22, 2, 8
"""Messages of a long conversation that are drawn: the first, those up to the wrong one, those after
it, and those in between at which a job changes its state."""
JOBS = 6
"""Jobs whose states are drawn: those that have changed last."""
TEXT = 200
"""Bytes of a message, and characters of what was expected and observed."""
MOST_MESSAGES, MOST_CLIENTS = 20_000, 30
"""Messages and clients of a conversation beyond which nothing is deduced: that takes long."""
_KINDS = {">": "sent", "<": "received", "!": "event", "+": "event"}


@dataclass(frozen=True, slots=True)
class Wrong:
    """The deviation that a diagram shows: at which message, and the two sides of it."""

    position: int
    expected: str
    observed: str


@dataclass(frozen=True, slots=True)
class _Rows:
    """The positions of messages that are drawn, and what is left out between them."""

    numbers: list[int | range]

    def row(self, position: int) -> int | None:
        """Return the row of a message; None if it is not drawn."""
        return next((row for row, one in enumerate(self.numbers) if one == position), None)

    def place(self, position: float) -> float:
        """Return a place among messages as a place among rows."""
        rows: list[tuple[float, float]] = []
        for row, one in enumerate(self.numbers):
            if isinstance(one, range):
                rows += [(one.start, row), (one.stop - 1, row)]
            else:
                rows.append((one, row))
        after = bisect_right(rows, (position, math.inf))
        if after == 0 or after == len(rows):
            return float(rows[min(after, len(rows) - 1)][1])
        (left, begin), (right, end) = rows[after - 1], rows[after]
        return begin + (end - begin) * (position - left) / (right - left)


def diagram_of(
    recorded: RecordedConversation, profile: Profile, wrong: Wrong | None = None
) -> Diagram | None:
    """Return the diagram of a conversation; None if it has no messages."""
    entries = recorded.entries
    if not any(entry.direction != "+" for entry in entries):
        return None
    clients = {entry.connection for entry in entries}
    if len(entries) > MOST_MESSAGES or len(clients) > MOST_CLIENTS:
        stretches: list[Stretch] = []
    elif are_unknown(entries):
        timed, _ = _at_some_times(recorded, profile)
        stretches = states_of_jobs(Transcript(timed, recorded.begins), profile, UNTIMED)
    else:
        stretches = states_of_jobs(recorded, profile)
    changes = {math.ceil(place) for one in stretches for place in (one.begin, one.end)}
    shown = [n for n, entry in enumerate(entries) if entry.direction != "+"]
    if entries[-1].direction == "+":
        shown.append(len(entries) - 1)
    marked = len(entries) - 1 if wrong is None else wrong.position
    rows = _chosen(shown, marked, changes)
    messages = [
        DrawnMessage(kind="left out", text=counted(len(one), "message"))
        if isinstance(one, range)
        else _drawn(entries[one], _time(entries, one))
        for one in rows.numbers
    ]
    jobs, note = _jobs(stretches, rows)
    return _diagram(messages, jobs, rows, wrong, note)


def diagram_of_order(
    recorded: RecordedConversation, profile: Profile, wrong: Wrong | None = None
) -> Diagram | None:
    """Return the diagram of clients at work at the same time, with the order that explains most.

    The operation that does not fit is the wrong one. None if no such order is found.
    """
    order = longest_order(recorded.entries, profile)
    if order is None:
        return None
    pieces, misfit = order.pieces, order.misfit
    if misfit is not None:
        wrong = Wrong(pieces.index(misfit), " or ".join(order.expected), escape(misfit.data))
    elif wrong is not None:
        # Something that no order is about, such as a reply that never came.
        last = [n for n, piece in enumerate(pieces) if piece.position <= wrong.position]
        if not last:
            return None
        wrong = replace(wrong, position=last[-1])
    marked = len(pieces) - 1 if wrong is None else wrong.position
    rows = _chosen(range(len(pieces)), marked, _partners(pieces, marked))
    messages = [
        DrawnMessage(kind="left out", text=counted(len(one), "message"))
        if isinstance(one, range)
        else _drawn_piece(pieces[one], recorded.entries)
        for one in rows.numbers
    ]
    return _diagram(messages, [], rows, wrong, _in_words(order))


def _in_words(order: Order) -> str:
    ordered = {(p.connection, p.number) for p in order.pieces if p.order}
    if order.misfit is None:
        return "the numbers are an order in which the commands may have been handled"
    return (
        f"the longest order explains {counted(len(ordered), 'command')}, by their numbers;"
        " the reply in red does not fit in"
    )


def _partners(pieces: Sequence[Piece], marked: int) -> set[int]:
    """Return the request that a reply belongs to, so that it is drawn, too."""
    shown = pieces[marked]
    return {
        n
        for n, piece in enumerate(pieces[:marked])
        if (piece.connection, piece.number) == (shown.connection, shown.number)
        and piece.direction == ">"
    }


def _at_some_times(recorded: RecordedConversation, profile: Profile) -> tuple[list[Entry], object]:
    """Return the messages at times that explain most of them."""

    def judge(timed: Sequence[Entry]) -> JudgedMessages:
        return JudgedMessages(first_violation(timed, recorded.begins, profile, before=UNTIMED))

    try:
        timed, judged = at_any_times(recorded.entries, judge)
    except Inconclusive:
        return [replace(entry, time=0.0) for entry in recorded.entries], None
    return list(timed), judged.violation


def _chosen(shown: Sequence[int], marked: int, kept: Collection[int]) -> _Rows:
    """Return which of the messages are drawn: ends, and those between them that are to be kept."""
    before = [n for n in shown if n <= marked]
    after = [n for n in shown if n > marked]
    head = max(len(before) - LAST, 0)
    middle = [n for n in before[FIRST:head] if n in kept][-BETWEEN:]
    is_long = len(before) > FIRST + LAST
    numbers = [*before[:FIRST], *middle, *before[head:]] if is_long else before
    wanted = {*numbers, *after[:AFTER]}
    rows: list[int | range] = []
    first = left = 0
    for n in shown:
        if n in wanted:
            if left:
                rows.append(range(first, first + left))
            rows.append(n)
            left = 0
        else:
            first = n if not left else first
            left += 1
    if left:
        rows.append(range(first, first + left))
    return _Rows(rows)


def _drawn(entry: Entry, time: float | None) -> DrawnMessage:
    text = f"{entry.data.decode()} later" if entry.direction == "+" else _cut(entry)
    return _message(entry.direction, entry.connection, text, time)


def _drawn_piece(piece: Piece, entries: Sequence[Entry]) -> DrawnMessage:
    entry = replace(entries[piece.position], data=piece.data)
    message = _message(
        piece.direction, piece.connection, _cut(entry), _time(entries, piece.position)
    )
    return message.model_copy(update={"order": piece.order})


def _message(direction: Direction, connection: str, text: str, time: float | None) -> DrawnMessage:
    return DrawnMessage.model_validate(
        {"kind": _KINDS[direction], "client": connection, "text": text, "time": time}
    )


def _cut(entry: Entry) -> str:
    """Return what a message says, escaped; of a long one the beginning."""
    text = escape(entry.data[:TEXT])
    left = len(entry.data) - TEXT
    return text if left <= 0 else f"{text}… {counted(left, 'more byte')}"


def _time(entries: Sequence[Entry], position: int) -> float | None:
    """Return when a message was written down, in seconds since the first."""
    seconds = entries[position].time - entries[0].time
    return round(seconds, 6) if math.isfinite(seconds) else None


def _jobs(stretches: Sequence[Stretch], rows: _Rows) -> tuple[list[JobStretch], str]:
    """Return the states of the jobs that have changed last, and how many others there are."""
    changed = {one.job: one.begin for one in sorted(stretches, key=lambda one: one.begin)}
    last = sorted(changed, key=lambda job: -changed[job])[:JOBS]
    drawn = [
        JobStretch(
            job=str(one.job),
            state=one.state.value,
            holder=one.holder,
            begin=round(rows.place(one.begin), 3),
            end=round(rows.place(one.end), 3),
        )
        for one in stretches
        if one.job in last
    ]
    drawn = [one for one in drawn if one.end > one.begin]
    left = len(changed) - len(last)
    note = f"the states of {counted(left, 'more job')} are not drawn" if left else ""
    return sorted(drawn, key=lambda one: (int(one.job), one.begin))[-400:], note


def _diagram(
    messages: list[DrawnMessage],
    jobs: list[JobStretch],
    rows: _Rows,
    wrong: Wrong | None,
    note: str,
) -> Diagram:
    return Diagram(
        messages=messages,
        jobs=jobs,
        wrong=rows.row(wrong.position) if wrong else None,
        expected=printable(wrong.expected[: 2 * TEXT]) if wrong else "",
        observed=printable(wrong.observed[: 2 * TEXT]) if wrong else "",
        note=note,
    )
