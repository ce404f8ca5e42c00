"""The first answer of a target that answers no command as a beanstalk server does."""

from __future__ import annotations

import time
from typing import NamedTuple

from conformance.target.address import Address, connect
from conformance.target.traits import Failure
from conformance.target.transport import Transport
from conformance.transcript import TARGET_CLOSES, Transcript
from conformance.verdict import OutcomeKind, Step
from reference_server.commands import COMMANDS
from reference_server.wire import CRLF, escape

_MOST = 2**12
"""Bytes that are read of it."""
_SHOWN = 200
"""Bytes that are shown of it in a sentence."""
_WORDS = {word.encode() for command in COMMANDS.values() for word in command.replies} | {
    b"UNKNOWN_COMMAND",
    b"BAD_FORMAT",
}


class FirstAnswer(NamedTuple):
    """The failure that it is, and whether it begins with a word of the protocol."""

    failure: Failure
    is_of_protocol: bool

    @property
    def in_words(self) -> str:
        """The bytes that were sent, and those that came."""
        sent = self.failure.transcript.entries[0].data
        return f"sent {escape(sent)}, {self.failure.observed}"


def first_answer(address: Address, line: bytes, limit: float) -> FirstAnswer | None:
    """Send a command, wait ``limit`` seconds for a whole line, and return what is wrong with it.

    None if a line has arrived. Raises OSError if the target cannot be reached.
    """
    transcript, arrived, begun = Transcript(), b"", time.monotonic()

    def passed() -> float:
        return time.monotonic() - begun

    with Transport(connect(address, limit)) as client:
        transcript.add("A", ">", line + CRLF, passed())
        client.send(line + CRLF)
        while len(arrived) < _MOST and CRLF not in arrived and passed() < limit:
            data = client.receive_within(limit - passed())
            arrived += data
            if client.ended and not data:
                break
        ended = client.ended
    if CRLF in arrived:
        return None
    if arrived:
        transcript.add("A", "<", arrived[:_MOST], passed())
    shown = escape(arrived[:_SHOWN])
    if ended:
        transcript.add("A", "!", TARGET_CLOSES, passed())
        kind, observed = OutcomeKind.DISCONNECTED, "the target closed the connection"
        if shown:
            observed += f" after {shown}"
    elif arrived:
        kind, observed = OutcomeKind.NOT_A_REPLY, f"no reply that ends with \\r\\n, but {shown}"
    else:
        kind, observed = OutcomeKind.NO_REPLY, f"no reply within {limit:g} seconds"
    step = Step(kind, line.split()[0].decode())
    failure = Failure(step, "a reply that ends with \\r\\n", observed, transcript)
    return FirstAnswer(failure, (arrived.split() or [b""])[0] in _WORDS)
