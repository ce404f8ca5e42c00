"""Faults of how lines, and the arguments of every command, are read."""

from __future__ import annotations

import re

from reference_server import wire
from reference_server.events import Hangup
from reference_server.faults.registry import asked, fault, parsed
from reference_server.model import Model
from reference_server.state import Connection
from reference_server.wire import Body, Command, Malformed, Put, Request, RequestReader

BAD = Malformed(wire.BAD_FORMAT)
UNKNOWN = Malformed(wire.UNKNOWN_COMMAND)


@fault("protocol.half-close-is-answered", "what comes behind a pending reserve is not answered")
class HangsUp(Model):
    def _half_close(self, conn: Connection) -> None:
        waiting = conn.waiting
        super()._half_close(conn)
        if waiting and conn.reserved:
            self._outputs.append((conn.id, Hangup()))


@fault("protocol.line-ends-with-crlf", "a line feed alone ends a line")
class LineFeed(RequestReader):
    def _next_line(self) -> Request | None:
        end = self._buffer.find(b"\n")
        if 0 < end < 224 and self._buffer[end - 1 : end] != b"\r":
            self._buffer[end : end + 1] = b"\r\n"
        return super()._next_line()


parsed(
    "protocol.integers-are-decimal",
    "ids may be hexadecimal",
    lambda line, _: Command("peek", (1,)) if line == b"peek 0x1" else None,
)
parsed(
    "protocol.integers-are-decimal",
    "a delay may have a fraction",
    lambda line, _: (
        Command("pause-tube", ("default", 1)) if line == b"pause-tube default 1.0" else None
    ),
)
parsed(
    "protocol.integers-are-nonnegative",
    "an id may have a plus sign",
    lambda line, _: Command("touch", (1,)) if line == b"touch +1" else None,
)
parsed(
    "protocol.integers-are-nonnegative",
    "a negative priority of bury is 0",
    lambda line, _: Command("bury", (1, 0)) if line == b"bury 1 -1" else None,
)
parsed(
    "protocol.leading-zeros",
    "no number may have leading zeros",
    lambda line, _: BAD if re.search(b" 0[0-9]", line) else None,
)
parsed(
    "protocol.several-blanks",
    "there is one blank before a number",
    lambda line, _: BAD if b"  " in line else None,
)
parsed(
    "protocol.tab-is-no-blank",
    "a tab is a blank",
    lambda line, _: Command("delete", (0,)) if line == b"delete \t0" else None,
)
parsed(
    "protocol.blank-at-the-end",
    "a name ends at the first blank and what follows does not matter",
    lambda line, _: Command("use", ("default",)) if line == b"use default " else None,
)
for _verb in ("peek-ready", "stats"):
    parsed(
        "protocol.blank-at-the-end",
        f"{_verb} ignores a blank at its end",
        lambda line, _, verb=_verb: (  # type: ignore[misc]
            Command(verb) if line == f"{verb} ".encode() else None
        ),
    )
asked(
    "protocol.name-ends-at-white-space",
    "an x at the end of a name does not count for a pause",
    "pause-tube",
    lambda name, delay: Command("pause-tube", (name.removesuffix("x"), delay)),
)
asked(
    "protocol.name-case-counts",
    "use takes capitals for small letters",
    "use",
    lambda name: Command("use", (name.replace("TUBE", "tube"),)),
)


@fault("protocol.incomplete-put-is-dropped", "a body that ends with its connection is a job")
class KeepsHalves(Model):
    def _close(self, conn: Connection) -> None:
        if conn.incoming is not None:
            self._body(conn, b"")
        super()._close(conn)


parsed(
    "error.commands-are-lower-case",
    "commands may be written in capitals",
    lambda line, _: Command("stats") if line[:3].isupper() else None,
)
parsed(
    "error.unknown-command",
    "an unknown command with an argument is malformed",
    lambda line, _: BAD if line == b"get a" else None,
)
parsed("error.empty-line", "an empty line is malformed", lambda line, _: BAD if not line else None)
parsed(
    "error.word-without-argument",
    "delete without an id is malformed",
    lambda line, _: BAD if line == b"delete" else None,
)


@fault("error.pipeline-goes-on", "what came together with a malformed line is dropped with it")
class DropsRest(RequestReader):
    def _next_line(self) -> Request | None:
        request = super()._next_line()
        if request == BAD and self._buffer.startswith(b"list-tube-used"):
            self._buffer.clear()
        return request


@fault("error.pipeline-goes-on", "after a bad end of a body the rest of the pipeline is dropped")
class DropsBehindBody(RequestReader):
    def next_request(self) -> Request | None:
        request = super().next_request()
        if request == Body(None) and len(self._buffer) > 20:
            self._buffer.clear()
        return request


parsed(
    "put.size-of-32-bits",
    "a size of 33 bits is cut",
    lambda line, _: Put(0, 0, 60, 1) if line == b"put 0 0 60 4294967297" else None,
)


@fault("put.malformed-line-has-no-body", "the line behind a malformed put is dropped")
class DropsBody(RequestReader):
    _drop = False

    def parse(self, line: bytes) -> Request:
        request = super().parse(line)
        self._drop = request == BAD and line == b"put 0 0 60"
        return request

    def _next_line(self) -> Request | None:
        drop = self._drop
        request = super()._next_line()
        if drop and request is not None:
            return super()._next_line()
        self._drop |= drop
        return request


parsed(
    "reserve.longest-timeout",
    "timeouts have 30 bits",
    lambda line, _: BAD if line == b"reserve-with-timeout %d" % (2**31 - 1) else None,
)
parsed(
    "ignore.name-limit",
    "ignore takes names of 199 bytes",
    lambda line, _: BAD if line.startswith(b"ignore ") and len(line) == 207 else None,
)
parsed(
    "pause-tube.name-limit",
    "pause-tube takes names of 199 bytes",
    lambda line, _: BAD if re.match(b"pause-tube [^ ]{200} ", line) else None,
)
