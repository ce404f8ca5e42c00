"""The output of strace: the system calls of a server or of clients become events of a judge.

Only what is unambiguous is taken: whole strings, times, and descriptors that were opened in the
trace. Everything else is one sentence that says how to trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from conformance.target.system_calls import STRING, Phase, SystemCall, SystemCalls, unescaped
from conformance.traffic.events import Event, Kind
from conformance.traffic.requests import plain_lines
from reference_server.profiles import NEWEST
from reference_server.wire import CRLF

CALLS = "network,read,write,readv,writev,close"
HOW = f"strace -f -ttt -T -s 1000000 -e trace={CALLS}"
"""The command that shows all that is needed."""
TRACED = "of the trace"
_PORT = re.compile(r"sin6?_port=htons\((\d+)\)")
_HOST = re.compile(r'(?:inet_addr\("|inet_pton\(AF_INET6, ")([^"]+)')
_UNIX = re.compile(r'sun_path=@?"([^"]*)"')
_READS = ("read", "recvfrom", "recv", "recvmsg", "readv")
_WRITES = ("write", "sendto", "send", "sendmsg", "writev")
_OPENS = ("accept", "accept4")


class Ambiguous(Exception):
    """A trace that does not show what was said; the sentence says what is needed."""


class TracedEvent(NamedTuple):
    """An event of a connection to a server."""

    server: str
    event: Event


class _OpenDescriptor(NamedTuple):
    conn: int
    server: str
    is_accepted: bool


class Trace:
    """Reads lines; ``events`` raises :class:`Ambiguous`.

    ``has_vectors``: writev was traced. ``has_times``: so was when each call had returned.
    """

    def __init__(self) -> None:
        self.has_vectors = False
        self.has_times = True
        self._open: dict[int, _OpenDescriptor] = {}
        self._count = 0
        self._plain = plain_lines(NEWEST)
        self._ended: set[int] = set()
        """The connections that the clients of a traced server have ended."""
        self._blocked: set[int] = set()
        """The connections whose clients do not take what a traced server writes."""

    def events(self, lines: Iterable[str]) -> Iterator[TracedEvent]:
        """Yield the events of all connections."""
        for call in SystemCalls().read(lines):
            if call.at is None:
                raise Ambiguous(f"line {call.line:,} has no time: trace with {HOW}")
            is_begun = call.phase is Phase.BEGUN
            self.has_vectors |= call.name in ("writev", "sendmsg")
            self.has_times &= is_begun or call.returned_at is not None
            if call.name in _WRITES:
                yield from self._writes(call, call.at)
            elif not is_begun:
                yield from self._returned(call, call.returned_at or call.at)

    def _returned(self, call: SystemCall, at: int) -> Iterator[TracedEvent]:
        name, result = call.name, call.result
        if name in _OPENS and result >= 0:
            yield self._opens(call, at, result, TRACED, True)
        elif name == "connect" and (result == 0 or "EINPROGRESS" in call.rest):
            yield self._opens(call, at, _descriptor(call), _address(call.arguments), False)
        elif name == "close":
            if one := self._open.pop(_descriptor(call), None):
                if one.is_accepted and one.conn not in self._ended:
                    yield TracedEvent(one.server, Event(at, one.conn, Kind.SERVER_ENDED))
                self._ended.discard(one.conn)
                self._blocked.discard(one.conn)
                yield TracedEvent(one.server, Event(at, one.conn, Kind.CLOSED))
        elif name == "shutdown" and result == 0 and "SHUT_RD)" not in call.arguments + ")":
            if one := self._open.get(_descriptor(call)):
                kind = Kind.SERVER_ENDED if one.is_accepted else Kind.CLIENT_ENDED
                yield TracedEvent(one.server, Event(at, one.conn, kind))
        elif name in _READS:
            yield from self._reads(call, at)

    def _opens(
        self, call: SystemCall, at: int, fd: int, server: str, is_accepted: bool
    ) -> TracedEvent:
        if fd in self._open:
            raise Ambiguous(
                f"line {call.line:,} opens descriptor {fd} again: trace one process, and its"
                f" close calls, with {HOW}"
            )
        self._count += 1
        self._open[fd] = _OpenDescriptor(self._count, server, is_accepted)
        peer = _address(call.arguments) if is_accepted else f"descriptor {fd}"
        return TracedEvent(server, Event(at, self._count, Kind.OPENED, peer.encode()))

    def _reads(self, call: SystemCall, at: int) -> Iterator[TracedEvent]:
        one, result = self._open.get(_descriptor(call)), call.result
        if one is None:
            self._check_unknown(call)
            return
        if result > 0 and "MSG_PEEK" not in call.arguments:
            data = _data(call)[:result]
            kind = Kind.SENT if one.is_accepted else Kind.RECEIVED
            yield TracedEvent(one.server, Event(at, one.conn, kind, data))
        elif result == 0 or "ECONNRESET" in call.rest:
            kind = Kind.CLIENT_ENDED if one.is_accepted else Kind.SERVER_ENDED
            self._ended.add(one.conn)
            yield TracedEvent(one.server, Event(at, one.conn, kind))

    def _writes(self, call: SystemCall, at: int) -> Iterator[TracedEvent]:
        one, is_begun = self._open.get(_descriptor(call)), call.phase is Phase.BEGUN
        if one is None:
            if call.phase is not Phase.RESUMED:
                self._check_unknown(call)
            return
        if call.phase is Phase.RESUMED:
            # It was judged as a whole when it had begun.
            if call.result != len(_data(call)):
                why = "only a part was written, at an unknown time"
                raise Ambiguous(f"line {call.line:,}: {why}")
            return
        if one.is_accepted and not is_begun:
            yield from self._blocks(call, at, one)
        if is_begun or call.result > 0:
            data = _data(call)
            data = data if is_begun else data[: call.result]
            kind = Kind.RECEIVED if one.is_accepted else Kind.SENT
            yield TracedEvent(one.server, Event(at, one.conn, kind, data))

    def _blocks(self, call: SystemCall, at: int, one: _OpenDescriptor) -> Iterator[TracedEvent]:
        """Yield the event that a client does not take what is written, or takes it again."""
        is_blocked = call.result < len(_data(call))
        if is_blocked != (one.conn in self._blocked):
            self._blocked ^= {one.conn}
            kind = Kind.BLOCKED if is_blocked else Kind.UNBLOCKED
            yield TracedEvent(one.server, Event(at, one.conn, kind))

    def _check_unknown(self, call: SystemCall) -> None:
        """Refuse a descriptor that speaks the protocol, and was opened before."""
        texts = STRING.search(call.arguments)
        if texts and (call.result or call.phase is Phase.BEGUN):
            line, end, _ = unescaped(texts[1]).partition(CRLF)
            if end and self._plain.fullmatch(line):
                raise Ambiguous(
                    f"line {call.line:,} uses descriptor {_descriptor(call)}, which was opened"
                    f" before the trace or in another process: start the program with {HOW}"
                )


def _descriptor(call: SystemCall) -> int:
    match = re.match(r"\d+", call.arguments)
    return int(match[0]) if match else -1


def _address(arguments: str) -> str:
    port, host = _PORT.search(arguments), _HOST.search(arguments)
    if port and host:
        return f"[{host[1]}]:{port[1]}" if ":" in host[1] else f"{host[1]}:{port[1]}"
    path = _UNIX.search(arguments)
    return f"unix:{path[1]}" if path else "unix"


def _data(call: SystemCall) -> bytes:
    """Return the strings of a call, joined."""
    arguments = call.arguments
    if call.name in ("recvmsg", "sendmsg") or "msg_iov" in arguments:
        # The address has a string, too.
        arguments = arguments[arguments.find("msg_iov") :]
    whole = []
    for text, dots in STRING.findall(arguments):
        if dots:
            raise Ambiguous(f"line {call.line:,} has a string that is cut: trace with {HOW}")
        whole.append(unescaped(text))
        if "iov_base" not in arguments:
            break
    return b"".join(whole)
