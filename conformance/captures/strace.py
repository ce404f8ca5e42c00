"""The output of strace: the system calls of a server or of clients become events of a judge.

Only what is unambiguous is taken: whole strings, times, and descriptors that were opened in the
trace. Everything else is one sentence that says how to trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from conformance.traffic.events import Event, Kind
from conformance.traffic.requests import plain_lines
from reference_server.profiles import NEWEST
from reference_server.state import SECOND
from reference_server.wire import CRLF

CALLS = "network,read,write,readv,writev,close"
HOW = f"strace -f -ttt -s 1000000 -e trace={CALLS}"
"""The command that shows all that is needed."""
TRACED = "of the trace"
_DAY = 86_400 * SECOND
_LINE = re.compile(
    r"(?:\[pid +(?P<pid>\d+)\] +|(?P<id>\d+) +)?"
    r"(?:(?P<hours>\d\d):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?) "
    r"|(?P<epoch>\d{9,}\.\d+) )?(?P<call>.*)",
    re.DOTALL,
)
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|\?)(.*)", re.DOTALL)
_UNFINISHED = re.compile(r"(\w+)\((.*?)(?: *<unfinished \.\.\.>)$", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_LOOKS_SO = re.compile(
    r"(?:\[pid +\d+\] +|\d+ +)?(?:[\d:.]+ )?\w+\(.*(?:\) += |<unfinished \.\.\.>)"
)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(\.\.\.)?')
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|[0-7]{1,3}|.)", re.DOTALL)
_MEANS = {"n": "\n", "r": "\r", "t": "\t", "v": "\v", "f": "\f", "a": "\a", "b": "\b"}
_PORT = re.compile(r"sin6?_port=htons\((\d+)\)")
_HOST = re.compile(r'(?:inet_addr\("|inet_pton\(AF_INET6, ")([^"]+)')
_UNIX = re.compile(r'sun_path=@?"([^"]*)"')
_READS = ("read", "recvfrom", "recv", "recvmsg", "readv")
_WRITES = ("write", "sendto", "send", "sendmsg", "writev")
_OPENS = ("accept", "accept4")


class Ambiguous(Exception):
    """A trace that does not show what was said; the sentence says what is needed."""


def is_strace(line: str) -> bool:
    """Return whether a line is one of strace."""
    return line.startswith("strace: Process") or _LOOKS_SO.match(line) is not None


class _SystemCall(NamedTuple):
    number: int
    at: int
    name: str
    arguments: str
    result: int | None
    """None: it has not returned yet."""
    error: str = ""


class TracedEvent(NamedTuple):
    """An event of a connection to a server."""

    server: str
    event: Event


class _OpenDescriptor(NamedTuple):
    conn: int
    server: str
    is_accepted: bool


class Trace:
    """Reads lines; ``events`` raises :class:`Ambiguous`. ``has_vectors``: writev was traced."""

    def __init__(self) -> None:
        self.has_vectors = False
        self._open: dict[int, _OpenDescriptor] = {}
        self._count = 0
        self._day = 0
        self._last = 0
        self._plain = plain_lines(NEWEST)
        self._ended: set[int] = set()
        """The connections that the clients of a traced server have ended."""

    def events(self, lines: Iterable[str]) -> Iterator[TracedEvent]:
        """Yield the events of all connections."""
        for call in self._calls(lines):
            self.has_vectors |= call.name in ("writev", "sendmsg")
            yield from self._events(call)

    # ------------------------------------------------------------ lines

    def _calls(self, lines: Iterable[str]) -> Iterator[_SystemCall]:
        begun: dict[str, tuple[str, str]] = {}
        for number, line in enumerate(lines, 1):
            match = _LINE.match(line.rstrip("\n"))
            assert match is not None
            process, text = match["pid"] or match["id"] or "", match["call"]
            if not text or text.startswith(("+++", "---", "strace: ")):
                continue
            at = self._time(match, number)
            if unfinished := _UNFINISHED.fullmatch(text):
                begun[process] = unfinished[1], unfinished[2]
                yield _SystemCall(number, at, unfinished[1], unfinished[2], None)
                continue
            if resumed := _RESUMED.fullmatch(text):
                name, arguments = begun.pop(process, (resumed[1], ""))
                text = f"{name}({arguments}{resumed[2]}"
                is_late = name in _WRITES
            else:
                is_late = False
            if call := _CALL.fullmatch(text):
                name = "resumed" if is_late else call[1]
                result = -1 if call[3] == "?" else int(call[3])
                yield _SystemCall(number, at, name, call[2], result, call[4])

    def _time(self, match: re.Match[str], number: int) -> int:
        if match["epoch"]:
            seconds, _, fraction = match["epoch"].partition(".")
            return int(seconds) * SECOND + int(fraction.ljust(9, "0")[:9])
        if not match["hours"]:
            raise Ambiguous(f"line {number:,} has no time: trace with {HOW}")
        seconds = int(match["hours"]) * 3600 + int(match["minutes"]) * 60
        at = self._day + seconds * SECOND + round(float(match["seconds"]) * SECOND)
        if at < self._last - _DAY // 2:
            self._day += _DAY
            at += _DAY
        self._last = at
        return at

    # ------------------------------------------------------------ calls

    def _events(self, call: _SystemCall) -> Iterator[TracedEvent]:
        name, result = call.name, call.result
        if name in _OPENS and result is not None and result >= 0:
            yield self._opens(call, result, TRACED, True)
        elif name == "connect" and (result == 0 or "EINPROGRESS" in call.error):
            yield self._opens(call, _descriptor(call), _address(call.arguments), False)
        elif name == "close" and result is not None:
            if one := self._open.pop(_descriptor(call), None):
                if one.is_accepted and one.conn not in self._ended:
                    yield TracedEvent(one.server, Event(call.at, one.conn, Kind.SERVER_ENDED))
                self._ended.discard(one.conn)
                yield TracedEvent(one.server, Event(call.at, one.conn, Kind.CLOSED))
        elif name == "shutdown" and result == 0 and "SHUT_RD)" not in call.arguments + ")":
            if one := self._open.get(_descriptor(call)):
                kind = Kind.SERVER_ENDED if one.is_accepted else Kind.CLIENT_ENDED
                yield TracedEvent(one.server, Event(call.at, one.conn, kind))
        elif name in _READS and result is not None:
            yield from self._reads(call, result)
        elif name in _WRITES:
            yield from self._writes(call)
        elif name == "resumed":
            self._check_written(call)

    def _opens(self, call: _SystemCall, fd: int, server: str, is_accepted: bool) -> TracedEvent:
        if fd in self._open:
            raise Ambiguous(
                f"line {call.number:,} opens descriptor {fd} again: trace one process, and its"
                f" close calls, with {HOW}"
            )
        self._count += 1
        self._open[fd] = _OpenDescriptor(self._count, server, is_accepted)
        peer = _address(call.arguments) if is_accepted else f"descriptor {fd}"
        return TracedEvent(server, Event(call.at, self._count, Kind.OPENED, peer.encode()))

    def _reads(self, call: _SystemCall, result: int) -> Iterator[TracedEvent]:
        one = self._open.get(_descriptor(call))
        if one is None:
            self._check_unknown(call)
            return
        if result > 0 and "MSG_PEEK" not in call.arguments:
            data = _data(call)[:result]
            kind = Kind.SENT if one.is_accepted else Kind.RECEIVED
            yield TracedEvent(one.server, Event(call.at, one.conn, kind, data))
        elif result == 0 or "ECONNRESET" in call.error:
            kind = Kind.CLIENT_ENDED if one.is_accepted else Kind.SERVER_ENDED
            self._ended.add(one.conn)
            yield TracedEvent(one.server, Event(call.at, one.conn, kind))

    def _writes(self, call: _SystemCall) -> Iterator[TracedEvent]:
        one = self._open.get(_descriptor(call))
        if one is None:
            self._check_unknown(call)
            return
        if call.result is not None and call.result <= 0:
            return
        data = _data(call)
        if call.result is not None:
            data = data[: call.result]
        kind = Kind.RECEIVED if one.is_accepted else Kind.SENT
        yield TracedEvent(one.server, Event(call.at, one.conn, kind, data))

    def _check_written(self, call: _SystemCall) -> None:
        """Refuse a write that had begun, and was judged as a whole, and was none."""
        is_known = _descriptor(call) in self._open
        if is_known and call.result != len(_data(call)):
            raise Ambiguous(f"line {call.number:,}: only a part was written, at an unknown time")

    def _check_unknown(self, call: _SystemCall) -> None:
        """Refuse a descriptor that speaks the protocol, and was opened before."""
        texts = _STRING.search(call.arguments)
        if texts and call.result:
            line, end, _ = _bytes(texts[1]).partition(CRLF)
            if end and self._plain.fullmatch(line):
                raise Ambiguous(
                    f"line {call.number:,} uses descriptor {_descriptor(call)}, which was opened"
                    f" before the trace or in another process: start the program with {HOW}"
                )


def _descriptor(call: _SystemCall) -> int:
    match = re.match(r"\d+", call.arguments)
    return int(match[0]) if match else -1


def _address(arguments: str) -> str:
    port, host = _PORT.search(arguments), _HOST.search(arguments)
    if port and host:
        return f"[{host[1]}]:{port[1]}" if ":" in host[1] else f"{host[1]}:{port[1]}"
    path = _UNIX.search(arguments)
    return f"unix:{path[1]}" if path else "unix"


def _data(call: _SystemCall) -> bytes:
    """Return the strings of a call, joined."""
    arguments = call.arguments
    if call.name in ("recvmsg", "sendmsg") or "msg_iov" in arguments:
        # The address has a string, too.
        arguments = arguments[arguments.find("msg_iov") :]
    whole = []
    for text, dots in _STRING.findall(arguments):
        if dots:
            raise Ambiguous(f"line {call.number:,} has a string that is cut: trace with {HOW}")
        whole.append(_bytes(text))
        if "iov_base" not in arguments:
            break
    return b"".join(whole)


def _bytes(text: str) -> bytes:
    return _ESCAPE.sub(_escaped, text).encode("latin-1", "replace")


def _escaped(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] == "x":
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return _MEANS.get(code, code)
