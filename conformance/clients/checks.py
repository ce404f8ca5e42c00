"""The expectations of cases: each compares what a library reported and sent with what it should."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.clients.protocol import Answer, data, text_of
from reference_server.wire import escape

SMALL = 24 << 20
"""Bytes by which the memory of a driver may grow while the server sends endless lines."""


@dataclass(frozen=True, slots=True)
class Record:
    """Observations after a question: ``answer`` is None if none came in time.

    ``growth`` is that of the memory of the driver, in bytes.
    """

    question: str
    answer: Answer | None
    commands: Sequence[bytes] = ()
    received: bytes = b""
    growth: int = 0
    waited: float = 0.0
    connections: int = 1


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between what was expected and what was observed, in words."""

    expected: str
    observed: str


Check = Callable[[Record], Difference | None]


def _shown(data: bytes) -> str:
    return escape(data[:200]) + ("…" if len(data) > 200 else "")


def _answered(record: Record, expected: str) -> Difference | None:
    if record.answer is None:
        return Difference(expected, f"no answer within {record.waited:g} s")
    return None


def sends(*commands: bytes) -> Check:
    """Return a check that the library sends these commands, byte for byte."""

    def check(record: Record) -> Difference | None:
        for command in commands:
            if command not in record.commands:
                expected = f"the library sends {_shown(command)}"
                observed = f"it sends {_shown(record.received) or 'nothing'}"
                return Difference(expected, observed)
        return None

    return check


def sends_nothing(record: Record) -> Difference | None:
    """Check that the library sends no byte, as the argument is outside the grammar."""
    if record.received:
        return Difference("the call fails and sends nothing", f"sends {_shown(record.received)}")
    return _answered(record, "the call fails and sends nothing")


def gives(*values: str | bytes) -> Check:
    """Return a check that the call succeeds with these values; a driver may leave counts out."""
    wanted = tuple(data(value) if isinstance(value, bytes) else value for value in values)

    def check(record: Record) -> Difference | None:
        expected = f"the answer {Answer('ok', wanted)}"
        if missing := _answered(record, expected):
            return missing
        assert record.answer is not None
        if record.answer.is_ok and (record.answer.values[: len(wanted)] == wanted):
            return None
        if record.answer.is_ok and not record.answer.values and wanted and wanted[0].isdigit():
            return None
        return Difference(expected, f"the answer {record.answer}")

    return check


def _unquoted(value: bytes) -> bytes:
    is_quoted = len(value) > 1 and value[:1] == value[-1:] and value[:1] in (b'"', b"'")
    return value[1:-1] if is_quoted else value


def has(*pairs: bytes) -> Check:
    """Return a check that the call succeeds, and these words are among its values, in this order.

    A value may be unquoted, or have the quotes of the server.
    """

    def check(record: Record) -> Difference | None:
        expected = f"an answer with {' '.join(map(escape, pairs))}"
        if missing := _answered(record, expected):
            return missing
        assert record.answer is not None
        values = [*map(_unquoted, text_of(record.answer.values))]
        if record.answer.is_ok and any(
            tuple(values[n : n + len(pairs)]) == pairs for n in range(len(values))
        ):
            return None
        shown = b" ".join(values)[:400] if record.answer.is_ok else str(record.answer).encode()
        return Difference(expected, f"the answer {escape(shown)}")

    return check


def succeeds(record: Record) -> Difference | None:
    """Check that the call succeeds, whatever it returns."""
    if missing := _answered(record, "the call succeeds"):
        return missing
    assert record.answer is not None
    if record.answer.is_ok:
        return None
    return Difference("the call succeeds", f"the answer {record.answer}")


def fails(record: Record) -> Difference | None:
    """Check that the call does not succeed, and returns."""
    if missing := _answered(record, "the call fails"):
        return missing
    assert record.answer is not None
    if not record.answer.is_ok:
        return None
    return Difference("the call fails", f"the answer {record.answer}")


def does_not_succeed(record: Record) -> Difference | None:
    """Check that the call does not succeed; one that never returns is another requirement's."""
    verb = record.question.split()[0].encode()
    again = sum(command.startswith(verb) for command in record.commands) > 1
    if record.answer is None or not record.answer.is_ok or again:
        return None
    return Difference("the call fails", f"the answer {record.answer}")


def returns(record: Record) -> Difference | None:
    """Check that the call returns."""
    return _answered(record, "the call returns")


def fails_or_gives(*values: str | bytes) -> Check:
    """Return a check that the call has no other success than this one."""
    right = gives(*values)

    def check(record: Record) -> Difference | None:
        if record.answer is not None and not record.answer.is_ok:
            return None
        return right(record)

    return check


def sends_once(verb: bytes) -> Check:
    """Return a check that the library sends a command once at most, whatever it answers."""

    def check(record: Record) -> Difference | None:
        count = sum(command.split(maxsplit=1)[0] == verb for command in record.commands)
        if count <= 1:
            return None
        return Difference(f"{verb.decode()} is sent once", f"it is sent {count} times")

    return check


def stays_small(record: Record) -> Difference | None:
    """Check that the memory of the driver does not grow with what the server sends."""
    if record.growth <= SMALL:
        return None
    expected = f"the process grows by at most {SMALL >> 20} MiB"
    return Difference(expected, f"it grows by {record.growth >> 20} MiB")
