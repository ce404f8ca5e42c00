"""Misbehaviour that a test asks for: replies that are replaced, connections that end, slow replies.

None of it is a fault of :mod:`reference_server.faults`: it happens once, or for a while.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from reference_server.commands import COMMANDS
from reference_server.wire import (
    BARE,
    CRLF,
    ProtocolError,
    Put,
    Reply,
    ReplyReader,
    Request,
)


class _Armed(NamedTuple):
    """A reply that replaces the next one; ``to`` names the command, None any."""

    reply: Reply
    to: str | None


class Misbehaviour:
    """The misbehaviour that is due, of one server. Only the server's thread uses its methods."""

    def __init__(self) -> None:
        self._armed: list[_Armed] = []
        self._drops: list[bytes] = []
        self.bytes_per_second: float | None = None

    def arm(self, reply: Reply, to: str | None) -> None:
        """Replace the next reply, or the next one to a command."""
        self._armed.append(_Armed(reply, to))

    def drop_after(self, data: bytes) -> None:
        """End the next connection on which these bytes are sent, right after them."""
        self._drops.append(data)

    def replaces(self, request: Request) -> Reply | None:
        """Return the reply that a request gets in place of its own, once; None if its own."""
        verb = "put" if type(request) is Put else getattr(request, "verb", None)
        if not self._armed or verb == "quit":
            return None
        for armed in self._armed:
            if armed.to in (None, verb):
                self._armed.remove(armed)
                return armed.reply
        return None

    def cut(self, before: bytes, data: bytes) -> int | None:
        """Return how many bytes of ``data`` are sent before the connection ends; None: it stays.

        ``before``: the bytes sent on it before, at least as many as can matter.
        """
        ends: list[tuple[int, bytes]] = []
        for wanted in self._drops:
            at = (before + data).find(wanted, max(0, len(before) - len(wanted) + 1))
            if at >= 0:
                ends.append((at + len(wanted) - len(before), wanted))
        if not ends:
            return None
        end, wanted = min(ends)
        self._drops.remove(wanted)
        return end

    @property
    def remembered(self) -> int:
        """The number of bytes of a connection that must be remembered to :meth:`cut` it."""
        return max((len(wanted) - 1 for wanted in self._drops), default=0)


def reply_of(text: str) -> Reply:
    """Return the reply that a line means, such as ``OUT_OF_MEMORY`` or ``BURIED 5``.

    Raises ValueError, in one sentence, if the protocol has no such reply.
    """
    reader = ReplyReader(tells_priority=None)
    try:
        reader.receive(text.encode() + CRLF)
        reply = reader.next_reply()
    except ProtocolError:
        reply = None
    if reply is None or reader.pending:
        words = ", ".join(sorted(word.decode() for word in BARE))
        raise ValueError(
            f"{text!r} is no reply of the protocol: give one of {words}, or a whole reply such as"
            " 'INSERTED 5'"
        )
    return reply


def command_of(verb: str) -> str:
    """Return a command's name if it is one that is answered; raises ValueError if not."""
    if verb not in COMMANDS or verb == "quit":
        raise ValueError(f"{verb!r} is no command of the protocol that is answered")
    return verb


def rate_of(bytes_per_second: float) -> float:
    """Return a rate if it is one; raises ValueError if not."""
    if not 0 < bytes_per_second < math.inf:
        raise ValueError(f"a server sends more than 0 bytes a second, not {bytes_per_second!r}")
    return bytes_per_second
