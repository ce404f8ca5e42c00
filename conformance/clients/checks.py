"""The expectations of cases: each compares what a library reported and sent with what it should."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from conformance.clients.protocol import Answer, data, text_of
from reference_server.wire import escape

SMALL = 24 << 20
"""Bytes by which the memory of a driver may grow while the server sends endless lines."""

IDLE = 0.5
"""Seconds of processor time that a driver may use while it waits, however long."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """Observations after a question: ``answer`` is None if none came in time.

    ``commands`` and ``received`` are what the library sent since the question, ``replies`` what the
    engine made of it; ``histories`` has all commands of each connection. ``ended`` says how the
    program ended, if it did. ``growth`` is that of its memory, in bytes, ``cpu`` its processor
    time, in seconds.
    """

    question: str
    answer: Answer | None
    commands: Sequence[bytes] = ()
    received: bytes = b""
    replies: Sequence[bytes] = ()
    histories: Sequence[Sequence[bytes]] = ()
    waited: float = 0.0
    ended: str = ""
    growth: int = 0
    cpu: float = 0.0


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The mismatch between what was expected and what was observed, in words.

    ``is_timeless``: a busy machine cannot have caused it.
    """

    expected: str
    observed: str
    is_timeless: bool = False


Check = Callable[[CallRecord], Mismatch | None]


def _shown(data: bytes) -> str:
    return escape(data[:200]) + ("…" if len(data) > 200 else "")


def _answered(record: CallRecord, expected: str) -> Mismatch | None:
    if record.answer is None:
        return Mismatch(expected, record.ended or f"no answer within {record.waited:g} s")
    return None


def sends(*commands: bytes) -> Check:
    """Return a check that the library sends these commands, byte for byte."""

    def check(record: CallRecord) -> Mismatch | None:
        for command in commands:
            if command not in record.commands:
                expected = f"the library sends {_shown(command)}"
                observed = f"it sends {_shown(record.received) or 'nothing'}"
                return Mismatch(expected, observed)
        return None

    return check


def has_sent(command: bytes) -> Check:
    """Return a check that the library has sent a command before, or now if it needs it now."""

    def check(record: CallRecord) -> Mismatch | None:
        sent = [one for history in record.histories for one in history]
        if command in sent:
            return None
        observed = _shown(b"".join(sent)) or "nothing"
        return Mismatch(f"the library sends {_shown(command)}", f"it has sent {observed}")

    return check


def refuses(verb: str) -> Check:
    """Return a check that the library does not send a command, as its argument is not allowed."""

    def check(record: CallRecord) -> Mismatch | None:
        at = record.received.find(verb.encode() + b" ")
        expected = "the call fails and sends nothing"
        if at >= 0:
            return Mismatch(expected, f"sends {_shown(record.received[at:])}", is_timeless=True)
        return _answered(record, expected)

    return check


def sends_or_fails(command: bytes) -> Check:
    """Return a check that the library sends this command, or no command with this word."""
    verb, right = command.split(maxsplit=1)[0].decode(), sends(command)

    def check(record: CallRecord) -> Mismatch | None:
        if record.answer is not None and not record.answer.is_ok:
            return refuses(verb)(record)
        return right(record)

    return check


def gives(*values: str | bytes) -> Check:
    """Return a check that the call succeeds with these values; a driver may leave counts out."""
    wanted = tuple(data(value) if isinstance(value, bytes) else value for value in values)

    def check(record: CallRecord) -> Mismatch | None:
        expected = f"the answer {Answer('ok', wanted)}"
        if missing := _answered(record, expected):
            return missing
        assert record.answer is not None
        if record.answer.is_ok and (record.answer.values[: len(wanted)] == wanted):
            return None
        if record.answer.is_ok and not record.answer.values and wanted and wanted[0].isdigit():
            return None
        return Mismatch(expected, f"the answer {record.answer}")

    return check


def _unquoted(value: bytes) -> bytes:
    is_quoted = len(value) > 1 and value[:1] == value[-1:] and value[:1] in (b'"', b"'")
    return value[1:-1] if is_quoted else value


def has(*pairs: bytes) -> Check:
    """Return a check that the call succeeds, and these words are among its values, in this order.

    A value may be unquoted, or have the quotes of the server.
    """

    def check(record: CallRecord) -> Mismatch | None:
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
        return Mismatch(expected, f"the answer {escape(shown)}")

    return check


def has_all(pairs: Sequence[Sequence[bytes]]) -> Check:
    """Return a check that the call succeeds, and each of these keys has this value."""

    def check(record: CallRecord) -> Mismatch | None:
        if missing := succeeds(record):
            return missing
        assert record.answer is not None
        values = [*map(_unquoted, text_of(record.answer.values))]
        found = {*pairwise(values)}
        for key, value in pairs:
            if (key, value) not in found:
                at = values.index(key) + 1 if key in values else len(values)
                observed = escape(b" ".join(values[at : at + 1])) or "not there"
                return Mismatch(f"{escape(key)} is {escape(value)}", f"it is {observed}")
        return None

    return check


def names(expected: Sequence[bytes]) -> Check:
    """Return a check that the call succeeds with these names, in any order."""
    wanted = sorted(map(_unquoted, expected))

    def check(record: CallRecord) -> Mismatch | None:
        shown = f"the names {escape(b' '.join(wanted))}"
        if missing := _answered(record, shown):
            return missing
        assert record.answer is not None
        found = sorted(map(_unquoted, text_of(record.answer.values)))
        if record.answer.is_ok and found == wanted:
            return None
        return Mismatch(shown, f"the answer {record.answer}")

    return check


def succeeds(record: CallRecord) -> Mismatch | None:
    """Check that the call succeeds, whatever it returns."""
    if missing := _answered(record, "the call succeeds"):
        return missing
    assert record.answer is not None
    if record.answer.is_ok:
        return None
    return Mismatch("the call succeeds", f"the answer {record.answer}")


def fails(record: CallRecord) -> Mismatch | None:
    """Check that the call does not succeed, and returns."""
    if missing := _answered(record, "the call fails"):
        return missing
    assert record.answer is not None
    if not record.answer.is_ok:
        return None
    return Mismatch("the call fails", f"the answer {record.answer}")


def does_not_succeed(record: CallRecord) -> Mismatch | None:
    """Check that the call does not succeed; one that never returns is another requirement's."""
    verb = record.question.split()[0].encode()
    again = sum(command.startswith(verb) for command in record.commands) > 1
    if record.answer is None or not record.answer.is_ok or again:
        return None
    return Mismatch("the call fails", f"the answer {record.answer}")


def returns(record: CallRecord) -> Mismatch | None:
    """Check that the call returns."""
    return _answered(record, "the call returns")


def nothing(record: CallRecord) -> Mismatch | None:
    """Check nothing: the case is about the questions that follow."""


def in_step(record: CallRecord) -> Mismatch | None:
    """Check that a put fails, or reports the id that the server gave to this very put."""
    given = [re.fullmatch(rb"INSERTED (\d+)\r\n", reply) for reply in record.replies]
    ids = [match[1].decode() for match in given if match]
    expected = f"the id {ids[-1]}, or an error" if ids else "an error"
    if missing := _answered(record, expected):
        return missing
    assert record.answer is not None
    if not record.answer.is_ok or record.answer.values[:1] in [(one,) for one in ids]:
        return None
    return Mismatch(expected, f"the answer {record.answer}")


def restores(command: bytes, verb: str) -> Check:
    """Return a check that a command is sent on each connection before one that depends on it."""

    def check(record: CallRecord) -> Mismatch | None:
        for history in record.histories:
            for place, sent in enumerate(history):
                if sent.startswith(verb.encode()) and command not in history[:place]:
                    expected = f"{_shown(command)} before {verb} on the new connection, or an error"
                    observed = f"it sends {_shown(b''.join(history))}"
                    is_ok = record.answer is not None and record.answer.is_ok
                    return Mismatch(expected, observed) if is_ok else None
        return None

    return check


def rests(record: CallRecord) -> Mismatch | None:
    """Check that a call that does not return does not use the processor meanwhile."""
    if record.answer is not None or record.cpu < IDLE:
        return None
    return Mismatch("the call returns, or waits", f"it computes for {record.cpu:.1f} s")


def sends_once(verb: bytes) -> Check:
    """Return a check that the library sends a command once at most, whatever it answers."""

    def check(record: CallRecord) -> Mismatch | None:
        count = sum(command.startswith(verb + b" ") for command in record.commands)
        if count <= 1:
            return None
        expected, observed = f"{verb.decode()} is sent once", f"it is sent {count} times"
        return Mismatch(expected, observed, is_timeless=True)

    return check


def stays_small(record: CallRecord) -> Mismatch | None:
    """Check that the memory of the driver does not grow with what the server sends."""
    if record.growth <= SMALL:
        return None
    expected = f"the process grows by at most {SMALL >> 20} MiB"
    return Mismatch(expected, f"it grows by {record.growth / 2**20:.1f} MiB", is_timeless=True)
